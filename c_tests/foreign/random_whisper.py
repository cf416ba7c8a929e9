#!/usr/bin/env python3
"""Writes a small Whisper model with random weights: random_whisper.py OUT.bin [whole]

In the file format of whisper.cpp: magic, hyperparameters, mel filters, vocabulary, then each tensor with its header.
Two layers each in the encoder and the decoder, products in F16, all from one seed. `whole`: the vocabulary and the
contexts of a model for English, which whisper.cpp needs to transcribe.
"""
import math
import random
import struct
import sys

VOCABULARY, CONTEXT, STATE, HEADS, LAYERS, TEXT, MELS, FFT = 320, 96, 64, 2, 2, 48, 80, 201
# The tokens with a text: the first of those without is the end of a text.
WORDS = VOCABULARY
if sys.argv[2:] == ["whole"]:
    VOCABULARY, WORDS, CONTEXT, TEXT = 51864, 50257, 1500, 448
FORMS = {0: "f", 1: "e"} # of F32 and F16
rng = random.Random(7)


def values(n, centre=0.0, scale=0.08):
    return [centre + rng.gauss(0, scale) for _ in range(n)]


def norm(name):
    return {name + ".weight": ([STATE], 0, 1.0), name + ".bias": ([STATE], 0)}


def linear(name, rows=STATE, columns=STATE, bias=True):
    return {name + ".weight": ([columns, rows], 1)} | ({name + ".bias": ([rows], 0)} if bias else {})


def block(name, *attentions):
    tensors = {}
    for attention in attentions:
        tensors |= norm(f"{name}.{attention}_ln")
        for part in ("query", "key", "value", "out"):
            tensors |= linear(f"{name}.{attention}.{part}", bias=part != "key")
    return tensors | norm(name + ".mlp_ln") | linear(name + ".mlp.0", rows=4 * STATE) | linear(name + ".mlp.2", columns=4 * STATE)


def tensors():
    """Name: shape from the dimension that changes fastest, type, and perhaps the mean."""
    of = {"encoder.positional_embedding": ([STATE, CONTEXT], 0), "encoder.conv1.weight": ([3, MELS, STATE], 1), "encoder.conv1.bias": ([1, STATE], 0),
          "encoder.conv2.weight": ([3, STATE, STATE], 1), "encoder.conv2.bias": ([1, STATE], 0), **norm("encoder.ln_post"),
          "decoder.positional_embedding": ([STATE, TEXT], 0), "decoder.token_embedding.weight": ([STATE, VOCABULARY], 1), **norm("decoder.ln")}
    for i in range(LAYERS):
        of |= block(f"encoder.blocks.{i}", "attn") | block(f"decoder.blocks.{i}", "attn", "cross_attn")
    return of


with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<12i", 0x67676D6C, VOCABULARY, CONTEXT, STATE, HEADS, LAYERS, TEXT, STATE, HEADS, LAYERS, MELS, 1))
    out.write(struct.pack(f"<2i{MELS * FFT}fi", MELS, FFT, *values(MELS * FFT, scale=0.1), WORDS))
    # whisper.cpp looks for the first five.
    for text in [b" ", b" -", b" '", b"-", b"'"] + [f"<{i}>".encode() for i in range(5, WORDS)]:
        out.write(struct.pack("<i", len(text)) + text)
    for name, (shape, kind, *centre) in tensors().items():
        n = math.prod(shape)
        out.write(struct.pack(f"<{3 + len(shape)}i", len(shape), len(name), kind, *shape) + name.encode())
        out.write(struct.pack(f"<{n}{FORMS[kind]}", *values(n, *centre)))
