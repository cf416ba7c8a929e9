#!/usr/bin/env python3
"""Compares what train.c printed on two libraries: compare.py WANT WANT_STDERR GOT GOT_STDERR

Words that are no decimal fractions (names, counts, the order of batches, predictions) must be equal. Decimal fractions
of a line may differ by at most BOUND times the largest of them. Both libraries add the products of a row in another
order, which moves a sum of about ten F32 numbers by up to 1e-6 of it; there are up to 24 steps of at most 0.1; and
AdamW divides by the root of a mean of squares, which keeps relative differences. Measured: 2e-6. A wrong gradient, a
missed step or another order of batches shows in the first digits. The progress bar's text must be equal without its
times, and its numbers (five digits) to 2e-5.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
from checks import Checks  # noqa: E402

BOUND = 5e-6
VARIANCE = 1e-6
FRACTION = re.compile(r"^[-+]?(\d+\.\d+|\d+\.?\d*e[-+]?\d+|\d+|nan|-nan|inf)$")


def floats(words):
    return [float(w) for w in words]


def same_line(want, got, bound):
    """Returns None if the lines agree, and the worst relative difference; otherwise why they do not."""
    name, _, a = want.partition(": ")
    other, _, b = got.partition(": ")
    if name != other:
        return f"another line: {got[:80]}", 0
    a, b = a.split(), b.split()
    if len(a) != len(b):
        return f"{len(b)} values, not {len(a)}", 0
    exact = any(w in name for w in ("order of", "callback", "points", "predictions"))
    if exact or not all(map(FRACTION.match, a + b)):
        return (None if a == b else f"{' '.join(b)[:80]}, not {' '.join(a)[:80]}"), 0
    a, b = floats(a), floats(b)
    scale = max((abs(x) for x in a if x == x), default=0) or 1
    worst = 0
    for x, y in zip(a, b):
        if (x != x) != (y != y):
            return f"{y} where {x} is expected", 0
        if x == x:
            worst = max(worst, abs(x - y) / scale)
    if "uncertainty" in name and all(x != x or abs(x * x - y * y) <= VARIANCE for x, y in zip(a, b)):
        return None, 0
    return (None if worst <= bound else f"differs by {worst:.2g} of {scale:.3g}"), worst


def progress(path):
    """Lines of the bar without times; numbers apart."""
    out = []
    for line in re.split(r"[\r\n]+", open(path, encoding="utf-8", errors="replace").read()):
        line = re.sub(r"t=\S+ ETA=\S+|took \S+", "", line)
        numbers = [float(x) for x in re.findall(r"[-+]?\d+\.\d+", line)]
        out.append((re.sub(r"[-+]?\d+\.\d+", "#", line), numbers))
    return out


def main():
    want, want_bar, got, got_bar = sys.argv[1:5]
    c = Checks()
    groups, worst_of = {}, {}
    a, b = open(want).read().splitlines(), open(got).read().splitlines()
    for x, y in zip(a, b):
        group = re.split(r" (?:round|empty|train|validation|early|end|all|callback|gradient|loss tensor|no sum|outputs|after|labels)\b", x)[0]
        why, worst = same_line(x, y, BOUND)
        groups.setdefault(group, []).append((x.partition(":")[0], why))
        worst_of[group] = max(worst_of.get(group, 0), worst)
    for group, lines in groups.items():
        wrong = [f"{name}: {why}" for name, why in lines if why]
        c.check(not wrong, group.partition(":")[0], f"{len(wrong)} of {len(lines)} lines; {wrong[0]}" if wrong else f"{len(lines)} lines, worst {worst_of[group]:.1g}")
    bars, others = progress(want_bar), progress(got_bar)
    wrong = [(x, y) for x, y in zip(bars, others) if x[0] != y[0] or any(abs(p - q) > 2e-5 * max(1, abs(p)) for p, q in zip(x[1], y[1]))]
    good = not wrong and len(bars) == len(others) and len(bars) > 40
    c.check(good, "the progress bar", f"{len(bars)} and {len(others)} lines" + (f"; {wrong[0]}" if wrong else ""))
    c.check(len(a) == len(b) >= 300, "as many lines", f"{len(b)}, the original {len(a)}")
    return c.finish()


sys.exit(main())
