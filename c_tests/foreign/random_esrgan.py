#!/usr/bin/env python3
"""Writes a small ESRGAN with random weights, which enlarges pictures by four: random_esrgan.py OUT.safetensors

In the layout of names of stable-diffusion.cpp's upscaler, two blocks of three, all in F32 and from one seed. Gains keep
most values of a picture off its two ends.
"""
import array
import json
import math
import random
import struct
import sys

FEATURES, GROWTH, BLOCKS = 64, 32, 2
rng = random.Random(1)
names, values = {}, array.array("f")


def tensor(name, shape, scale, middle=0.0):
    begin = 4 * len(values)
    values.extend(middle + scale * rng.uniform(-1, 1) for _ in range(math.prod(shape)))
    names[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, 4 * len(values)]}


def convolution(name, inputs, outputs, gain=1.0, bias=0.0):
    """Of 3 times 3. `gain` is the ratio of its output to its input, about."""
    tensor(name + ".weight", [outputs, inputs, 3, 3], gain * math.sqrt(3 / (9 * inputs)))
    tensor(name + ".bias", [outputs], 0.05, bias)


convolution("conv_first", 3, FEATURES, 1.5)
for block in range(BLOCKS):
    for dense in range(1, 4):
        for i in range(1, 6):
            convolution(f"body.{block}.rdb{dense}.conv{i}", FEATURES + (i - 1) * GROWTH, FEATURES if i == 5 else GROWTH)
convolution("conv_body", FEATURES, FEATURES)
for name in ("conv_up1", "conv_up2", "conv_hr"):
    convolution(name, FEATURES, FEATURES, 1.5)
convolution("conv_last", FEATURES, 3, 0.25, 0.5)
header = json.dumps(names).encode()
header += b" " * (-len(header) % 8)
if sys.byteorder != "little":
    values.byteswap()
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<Q", len(header)) + header + values.tobytes())
