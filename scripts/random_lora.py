#!/usr/bin/env python3
"""Writes a LoRA adapter with random matrices, for a model of random_llama.py.

usage: random_lora.py OUT.gguf f32|f16 RANK

The same arguments give the same file.
"""
import math
import sys

import gguf_file
from random_llama import TYPES, Weights

EMBD, FF, LAYERS, KV = 256, 704, 4, 128


def main():
    if len(sys.argv) != 4 or sys.argv[2] not in TYPES:
        sys.exit(__doc__.strip())
    out, kind, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
    weights, tensors = Weights(kind), {}
    for i in range(LAYERS):
        for name, n_in, n_out in (("attn_q", EMBD, EMBD), ("attn_k", EMBD, KV), ("attn_v", EMBD, KV), ("attn_output", EMBD, EMBD),
                                  ("ffn_gate", EMBD, FF), ("ffn_up", EMBD, FF), ("ffn_down", FF, EMBD)):
            for part, shape in (("a", (n_in, rank)), ("b", (rank, n_out))):
                tensors[f"blk.{i}.{name}.weight.lora_{part}".encode()] = (shape, TYPES[kind], weights.matrix(math.prod(shape), 0.3 / shape[0] ** 0.5))
    gguf_file.write(out, gguf_file.values({"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora",
                                           "adapter.lora.alpha": 2.0 * rank}), tensors)


if __name__ == "__main__":
    main()
