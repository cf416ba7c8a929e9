#!/usr/bin/env python3
"""Writes a GGUF file of the llama architecture with random weights and the tokenizer of another GGUF file.

usage: random_llama.py VOCAB.gguf OUT.gguf f32|f16 [N_EMBD N_FF N_LAYER N_HEAD N_HEAD_KV [N_EXPERT N_EXPERT_USED]]

The same arguments give the same file. Python's standard library only: a weight is made of random bytes, the upper ones
looked up in a table of 256 normally distributed numbers.
"""
import math
import random
import statistics
import struct
import sys

import gguf_file

TYPES = {"f32": gguf_file.F32, "f16": gguf_file.F16}


class Weights:
    """Random matrices: normally distributed with a given deviation."""

    def __init__(self, kind):
        self.random = random.Random(42)
        self.form, self.width = ("<f", 4) if kind == "f32" else ("<e", 2)

    def matrix(self, n, deviation):
        normal = statistics.NormalDist(0, deviation)
        table = [struct.pack(self.form, normal.inv_cdf((i + 0.5) / 256))[-2:] for i in range(256)]
        if self.width == 2:  # one byte of sign, exponent and two bits; then eight bits of fraction
            out = bytearray(self.random.randbytes(2 * n))
            out[1::2] = out[1::2].translate(bytes(t[1] for t in table))
        else:  # sixteen bits from the table; then sixteen bits of fraction
            out = bytearray(self.random.randbytes(4 * n))
            index = bytes(out[3::4])
            out[2::4] = index.translate(bytes(t[0] for t in table))
            out[3::4] = index.translate(bytes(t[1] for t in table))
        return bytes(out)

    def around_one(self, n):
        return struct.pack(f"<{n}f", *(1 + 0.1 * self.random.gauss(0, 1) for _ in range(n)))


def main():
    if len(sys.argv) not in (4, 9, 11) or sys.argv[3] not in TYPES:
        sys.exit(__doc__.strip())
    vocabulary, out, kind = sys.argv[1:4]
    embd, ff, layers, heads, heads_kv = map(int, sys.argv[4:9]) if len(sys.argv) > 4 else (256, 704, 4, 4, 2)
    experts = tuple(map(int, sys.argv[9:]))
    kv = embd * heads_kv // heads

    pairs = {key: value for key, value in gguf_file.read(vocabulary)[0].items() if key.startswith(b"tokenizer.")}
    n_vocab = struct.unpack_from("<iiQ", pairs[b"tokenizer.ggml.tokens"])[2]
    sizes = {"context_length": 2048, "embedding_length": embd, "feed_forward_length": ff, "block_count": layers, "attention.head_count": heads,
             "attention.head_count_kv": heads_kv, "rope.dimension_count": embd // heads, "vocab_size": n_vocab,
             **dict(zip(("expert_count", "expert_used_count"), experts)), "attention.layer_norm_rms_epsilon": 1e-5}
    pairs |= gguf_file.values({"general.architecture": "llama", "general.name": f"random llama {embd}x{layers}",
                               **{f"llama.{name}": n for name, n in sizes.items()}, "general.file_type": TYPES[kind]})

    # Name: shape innermost first, deviation; None: a norm's weights.
    tensors = {"token_embd": ((embd, n_vocab), 0.5), "output_norm": ((embd,), None), "output": ((embd, n_vocab), 0.7 / embd**0.5)}
    exps, each = ("_exps", experts[:1]) if experts else ("", ())
    layer = {"attn_norm": (embd,), "attn_q": (embd, embd), "attn_k": (embd, kv), "attn_v": (embd, kv), "attn_output": (embd, embd), "ffn_norm": (embd,),
             **({"ffn_gate_inp": (embd, *each)} if experts else {}),
             "ffn_gate" + exps: (embd, ff, *each), "ffn_up" + exps: (embd, ff, *each), "ffn_down" + exps: (ff, embd, *each)}
    for i in range(layers):
        tensors |= {f"blk.{i}.{name}": (shape, 0.7 / shape[0]**0.5 if len(shape) > 1 else None) for name, shape in layer.items()}

    weights = Weights(kind)

    def made(shape, deviation): # when it is written: a model may be larger than the memory
        n = math.prod(shape)
        return lambda: weights.matrix(n, deviation) if deviation else weights.around_one(n)

    gguf_file.write(out, pairs, {f"{name}.weight".encode(): (shape, TYPES[kind] if deviation else gguf_file.F32, made(shape, deviation))
                                 for name, (shape, deviation) in tensors.items()})


if __name__ == "__main__":
    main()
