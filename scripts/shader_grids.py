#!/usr/bin/env python3
"""Writes vulkan_shaders/grids.glsl: the grids of the IQ formats (src/quant/tables), packed 16 bits a point, for
shaders."""
import re
import sys
from pathlib import Path

root = Path(__file__).resolve().parent.parent


def table(file, name):
    text = (root / "src/quant/tables" / file).read_text()
    body = re.search(name + r": \[u\d+; \d+\] = \[(.*?)\];", text, re.S).group(1)
    return [int(n, 16) for n in re.findall(r"0x[0-9a-fA-F_]+", body.replace("_", ""))]


def codes(point, levels):
    """Four bytes as codes of three bits; points of eight bytes are codes in the table."""
    return sum(levels.index(point >> 8 * k & 255) << 3 * k for k in range(4)) if levels else point


IQ3_XXS = [4, 12, 20, 28, 36, 44, 52, 62]
GRIDS = [
    ("IQ2_XXS", "iq2.rs", "IQ2XXS_CODES", None),
    ("IQ2_XS", "iq2.rs", "IQ2XS_CODES", None),
    ("IQ2_S", "iq2.rs", "IQ2S_CODES", None),
    ("IQ3_XXS", "iq3.rs", "IQ3XXS_GRID", IQ3_XXS),
    ("IQ3_S", "iq3.rs", "IQ3S_GRID", [1, 3, 5, 7, 9, 11, 13, 15]),
    ("IQ1", "iq1.rs", "IQ1S_CODES", None),
]

out = ["// Written by scripts/shader_grids.py: the points of the IQ formats' grids as level numbers, 16 bits a point, two points a word."]
for name, file, rust, levels in GRIDS:
    points = [codes(p, levels) for p in table(file, rust)]
    words = [a | b << 16 for a, b in zip(points[::2], points[1::2])]
    condition = "FMT == FMT_IQ1_S || FMT == FMT_IQ1_M" if name == "IQ1" else f"FMT == FMT_{name}"
    out.append(f"#if {condition}")
    out.append(f"const uint GRID[{len(words)}] = {{")
    for i in range(0, len(words), 8):
        out.append("    " + " ".join(f"0x{w:08x}u," for w in words[i : i + 8]))
    out[-1] = out[-1][:-1]
    out += ["};", "#endif"]
text = "\n".join(out) + "\n"
path = root / "vulkan_shaders/grids.glsl"
if sys.argv[1:] == ["check"]:
    sys.exit(0 if path.read_text() == text else "vulkan_shaders/grids.glsl is stale: make shaders")
path.write_text(text)
