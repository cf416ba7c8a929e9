#!/usr/bin/env python3
"""Counts the instructions of products of a library for 64-bit ARM, for each weight and column, in qemu.

usage: counts.py GEMV PLUGIN LIB [LEVEL]

GEMV is gemv.c cross-built, PLUGIN count_plugin.c, LIB the folder of the library's files, and LEVEL what
GGML_RS_CPU_LEVEL is set to. QEMU_LD_PREFIX names the folder of the system's libraries for ARM. Prints, for each format,
the numbers for 1, 4 and 512 columns of weights as they are in a file, and of interleaved ones ("-": there are none).
"""
import re
import subprocess
import sys

FORMATS = ("f16", "bf16", "q8_0", "q4_0", "q4_K", "q6_K", "iq4_xs", "mxfp4")
K = 1024


def instructions(columns, rows, rounds, where, name):
    """Of a whole run; None if there is no product of the format."""
    gemv, plugin, lib, level = (*sys.argv[1:4], sys.argv[4] if len(sys.argv) > 4 else "")
    settings = (f"LD_LIBRARY_PATH={lib}", f"GGML_RS_CPU_LEVEL={level}", "GGML_DISABLE_VULKAN=1")
    command = ["qemu-aarch64", "-cpu", "max", "-plugin", plugin, *(word for s in settings for word in ("-E", s)), gemv]
    r = subprocess.run([*command, *map(str, (K, rows, columns, rounds)), where, name], capture_output=True, text=True, check=True)
    return int(re.search(r"instructions (\d+)", r.stderr)[1]) if name in r.stdout else None


for name in FORMATS:
    found = [name]
    for where in ("file", "repack"):
        for columns, rows in ((1, 512), (4, 512), (512, 64)):
            one, three = (instructions(columns, rows, rounds, where, name) for rounds in (1, 3))
            found.append("-" if one is None else f"{(three - one) / 2 / (K * rows * columns):.3f}")
    print("\t".join(found), flush=True)
