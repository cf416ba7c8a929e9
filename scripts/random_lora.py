#!/usr/bin/env python3
"""Writes a LoRA adapter with random matrices, for a model of random_llama.py.

usage: random_lora.py OUT.gguf f32|f16 RANK [N_EMBD N_FF N_LAYER N_HEAD N_HEAD_KV]

The same arguments give the same file.
"""
import math
import struct
import sys

from random_llama import ALIGN, F32, STRING, TYPES, Weights, text


def main():
    if len(sys.argv) not in (4, 9) or sys.argv[2] not in TYPES:
        sys.exit(__doc__.strip())
    out, kind, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
    embd, ff, layers, heads, heads_kv = map(int, sys.argv[4:9]) if len(sys.argv) > 4 else (256, 704, 4, 4, 2)
    kv = embd * heads_kv // heads

    pairs = [(key, struct.pack("<I", STRING) + text(value))
             for key, value in ((b"general.type", b"adapter"), (b"general.architecture", b"llama"), (b"adapter.type", b"lora"))]
    pairs.append((b"adapter.lora.alpha", struct.pack("<If", F32, 2.0 * rank)))
    tensors = []
    for i in range(layers):
        for name, n_in, n_out in (("attn_q", embd, embd), ("attn_k", embd, kv), ("attn_v", embd, kv), ("attn_output", embd, embd),
                                  ("ffn_gate", embd, ff), ("ffn_up", embd, ff), ("ffn_down", ff, embd)):
            tensors.append((f"blk.{i}.{name}.weight.lora_a", (n_in, rank)))
            tensors.append((f"blk.{i}.{name}.weight.lora_b", (rank, n_out)))

    weights = Weights(kind)
    info, offset = b"", 0
    for name, shape in tensors:
        info += text(name.encode()) + struct.pack("<IQQIQ", 2, *shape, TYPES[kind], offset)
        offset += -(-math.prod(shape) * weights.width // ALIGN) * ALIGN
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(pairs)) + b"".join(text(k) + v for k, v in pairs) + info
    with open(out, "wb") as f:
        f.write(head + b"\0" * (-len(head) % ALIGN))
        for _, shape in tensors:
            data = weights.matrix(math.prod(shape), 0.3 / shape[0] ** 0.5)
            f.write(data + b"\0" * (-len(data) % ALIGN))


if __name__ == "__main__":
    main()
