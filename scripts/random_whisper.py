#!/usr/bin/env python3
"""Writes a small Whisper model with random weights: random_whisper.py OUT.bin

In the file format of whisper.cpp: magic, hyperparameters, mel filters, vocabulary, then each tensor with its header.
Two layers each in the encoder and the decoder, products in F16, all from one seed.
"""
import random
import struct
import sys

VOCABULARY, CONTEXT, STATE, HEADS, LAYERS, TEXT, MELS, FFT = 320, 96, 64, 2, 2, 48, 80, 201
F32, F16 = 0, 1
rng = random.Random(7)


def values(n, scale):
    return [rng.gauss(0, scale) for _ in range(n)]


def tensor(out, name, shape, dtype=F32, scale=0.08, centre=0.0):
    """`shape` from the dimension that changes fastest."""
    n = 1
    for d in shape:
        n *= d
    data = [centre + v for v in values(n, scale)]
    text = name.encode()
    out.write(struct.pack(f"<{3 + len(shape)}i", len(shape), len(text), dtype, *shape) + text)
    out.write(struct.pack(f"<{n}{'e' if dtype == F16 else 'f'}", *data))


def norm(out, name):
    tensor(out, name + ".weight", [STATE], centre=1.0)
    tensor(out, name + ".bias", [STATE])


def linear(out, name, rows=STATE, columns=STATE, bias=True):
    tensor(out, name + ".weight", [columns, rows], F16)
    if bias:
        tensor(out, name + ".bias", [rows])


def attention(out, name):
    norm(out, name + "_ln")
    for part in ("query", "key", "value", "out"):
        linear(out, f"{name}.{part}", bias=part != "key")


def block(out, name, crossed):
    attention(out, name + ".attn")
    if crossed:
        attention(out, name + ".cross_attn")
    norm(out, name + ".mlp_ln")
    linear(out, name + ".mlp.0", rows=4 * STATE)
    linear(out, name + ".mlp.2", columns=4 * STATE)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    with open(sys.argv[1], "wb") as out:
        out.write(struct.pack("<12i", 0x67676D6C, VOCABULARY, CONTEXT, STATE, HEADS, LAYERS, TEXT, STATE, HEADS, LAYERS, MELS, 1))
        out.write(struct.pack("<2i", MELS, FFT) + struct.pack(f"<{MELS * FFT}f", *values(MELS * FFT, 0.1)))
        out.write(struct.pack("<i", VOCABULARY))
        for i in range(VOCABULARY):
            text = f"<{i}>".encode()
            out.write(struct.pack("<i", len(text)) + text)
        tensor(out, "encoder.positional_embedding", [STATE, CONTEXT])
        tensor(out, "encoder.conv1.weight", [3, MELS, STATE], F16)
        tensor(out, "encoder.conv1.bias", [1, STATE])
        tensor(out, "encoder.conv2.weight", [3, STATE, STATE], F16)
        tensor(out, "encoder.conv2.bias", [1, STATE])
        norm(out, "encoder.ln_post")
        tensor(out, "decoder.positional_embedding", [STATE, TEXT])
        tensor(out, "decoder.token_embedding.weight", [STATE, VOCABULARY], F16)
        norm(out, "decoder.ln")
        for i in range(LAYERS):
            block(out, f"encoder.blocks.{i}", False)
            block(out, f"decoder.blocks.{i}", True)


if __name__ == "__main__":
    main()
