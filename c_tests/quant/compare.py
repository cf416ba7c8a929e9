#!/usr/bin/env python3
"""Compares the bytes that quant_diff wrote on two libraries, block by block, and prints a table: format by way, blocks
that differ of all.

Only the codes of IQ4_NL blocks of zeros at the very start of a quick conversion may differ: the original takes them
from memory that it never wrote (src/quant/iq4_nl.rs). They decode to zeros anyway.

ORACLE_FOR=arm: the original runs on ARM, where converting an infinite quotient to an integer gives another number than
on x86-64. Numbers below 1e-38 have such quotients. This library has the bytes of x86-64.

ORACLE_FOR=windows: the original's IQ1_S and IQ1_M sort by the C library's qsort, so rows with equal values have other
blocks there. This library's are the same on every system.
"""
import collections
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
from checks import Checks  # noqa: E402


def records(path):
    with open(path, "rb") as f:
        while line := f.readline():
            name, way, kind, seed, block, size = line.decode().rstrip("\n").split("\t")
            yield (name, way, kind, int(seed)), int(block), f.read(int(size))


TIES = "zero blocks", "mostly zero", "first zero", "ternary", "steps"


def left_to_chance(name, kind):
    system = os.environ.get("ORACLE_FOR")
    return system == "arm" and kind == "subnormal" or system == "windows" and name in ("iq1_s", "iq1_m") and kind in TIES


def main():
    total, different, by_chance, examples = collections.Counter(), collections.Counter(), collections.Counter(), {}
    names, lost = [], 0
    ours = iter(records(sys.argv[2]))
    for key, size, want in records(sys.argv[1]):
        other = next(ours, None)
        if other is None or other[0] != key or other[1] != size:
            lost += 1
            continue
        name, way, kind, seed = key
        if name not in names:
            names.append(name)
        got, leading = other[2], True
        for i in range(0, len(want), size):
            a, b = want[i:i + size], got[i:i + size]
            total[name, way] += 1
            leading = leading and name == "iq4_nl" and way == "quick" and a[:2] == b"\0\0"
            if a == b:
                continue
            if leading and b[:2] == b"\0\0" or left_to_chance(name, kind):
                by_chance[name, way] += 1
                continue
            different[name, way] += 1
            examples.setdefault((name, way), f"{kind}, seed {seed}, block {i // size}")
    print(f"{'format':10} {'quick':>18} {'plain':>18} {'weighted':>18}   blocks that differ of all, 'c': of them left to chance")
    checks = Checks()
    for name in names:
        row = [f"{name:10}"]
        for way in ("quick", "plain", "weighted"):
            n, d, c = total[name, way], different[name, way], by_chance[name, way]
            row.append(f"{f'{d} of {n}' + (f' {c}c' if c else '') if n else '-':>18}")
        print(" ".join(row))
    for name in names:
        wrong = [f"{way}: {examples[name, way]}" for way in ("quick", "plain", "weighted") if different[name, way]]
        checks.sound(f"{name}: {sum(total[name, w] for w in ('quick', 'plain', 'weighted'))} blocks are equal", wrong)
    more = next(ours, None) is not None
    checks.check(not lost and not more and len(names) >= 20, f"records of {len(names)} formats", f"{lost} are not there, {'some' if more else 'none'} too many")
    return checks.finish()


sys.exit(main())
