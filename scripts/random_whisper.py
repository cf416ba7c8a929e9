#!/usr/bin/env python3
"""Writes a small Whisper model with random weights: random_whisper.py OUT.bin

In the file format of whisper.cpp: magic, hyperparameters, mel filters, vocabulary, then each tensor with its header.
Two layers each in the encoder and the decoder, products in F16, all from one seed.
"""
import math
import random
import struct
import sys

VOCABULARY, CONTEXT, STATE, HEADS, LAYERS, TEXT, MELS, FFT = 320, 96, 64, 2, 2, 48, 80, 201
F32, F16 = 0, 1
rng = random.Random(7)


def values(n, centre=0.0, scale=0.08):
    return [centre + rng.gauss(0, scale) for _ in range(n)]


def norm(name):
    return {name + ".weight": ([STATE], F32, 1.0), name + ".bias": ([STATE], F32)}


def linear(name, rows=STATE, columns=STATE, bias=True):
    return {name + ".weight": ([columns, rows], F16)} | ({name + ".bias": ([rows], F32)} if bias else {})


def attention(name):
    tensors = norm(name + "_ln")
    for part in ("query", "key", "value", "out"):
        tensors |= linear(f"{name}.{part}", bias=part != "key")
    return tensors


def block(name, crossed):
    return (attention(name + ".attn") | (attention(name + ".cross_attn") if crossed else {}) | norm(name + ".mlp_ln")
            | linear(name + ".mlp.0", rows=4 * STATE) | linear(name + ".mlp.2", columns=4 * STATE))


def tensors():
    """Name: shape from the dimension that changes fastest, type, and perhaps the mean."""
    of = {"encoder.positional_embedding": ([STATE, CONTEXT], F32), "encoder.conv1.weight": ([3, MELS, STATE], F16), "encoder.conv1.bias": ([1, STATE], F32),
          "encoder.conv2.weight": ([3, STATE, STATE], F16), "encoder.conv2.bias": ([1, STATE], F32), **norm("encoder.ln_post"),
          "decoder.positional_embedding": ([STATE, TEXT], F32), "decoder.token_embedding.weight": ([STATE, VOCABULARY], F16), **norm("decoder.ln")}
    for i in range(LAYERS):
        of |= block(f"encoder.blocks.{i}", False) | block(f"decoder.blocks.{i}", True)
    return of


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    with open(sys.argv[1], "wb") as out:
        out.write(struct.pack("<12i", 0x67676D6C, VOCABULARY, CONTEXT, STATE, HEADS, LAYERS, TEXT, STATE, HEADS, LAYERS, MELS, 1))
        out.write(struct.pack(f"<2i{MELS * FFT}fi", MELS, FFT, *values(MELS * FFT, scale=0.1), VOCABULARY))
        for text in (f"<{i}>".encode() for i in range(VOCABULARY)):
            out.write(struct.pack("<i", len(text)) + text)
        for name, (shape, dtype, *centre) in tensors().items():
            n, text = math.prod(shape), name.encode()
            out.write(struct.pack(f"<{3 + len(shape)}i", len(shape), len(text), dtype, *shape) + text)
            out.write(struct.pack(f"<{n}{'e' if dtype == F16 else 'f'}", *values(n, *centre)))


if __name__ == "__main__":
    main()
