#!/usr/bin/env python3
"""make test SUITES=nmse, second part: the errors of all operations on this library and on the original, against double
precision.

usage: errors.py PROGRAM OURS_LIB NAME=ORIGINAL_LIB ... [--jobs N] [--write]

PROGRAM is errors.cpp's. It runs in a process of its own with each library: with this one at each level that the
processor has, and with each build of the original. Prints a table of the cases with the highest ratios, then PASS or
FAIL for each operation, and `errors: N passed, M failed`.

For each class of numbers, neither the normalised mean square error (NMSE) nor the largest relative error of this
library may be more than TOLERANCE times the original's. The level `avx2` is compared with the build for AVX2, higher
ones with all builds. (The level `scalar` does not fuse multiplication and addition, and the original has no such build
here: it is not compared.) What both have below the floors is not compared: results that are all off by at most a unit
in the last place (LARGEST), or by half a unit in the square mean (NMSE). --write puts a summary between the marks of
docs/measurements/errors.md.
"""
import concurrent.futures
import datetime
import math
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nmse import LEVELS, Checks, arguments, page, sides  # noqa: E402

TOLERANCE = 1.5
LARGEST = 2.0 ** -23
NMSE = 2.0 ** -48
# It has no inputs.
NO_CONTROL = ("ARANGE",)
# The build of the original for the same instructions.
SAME = {"avx2": "avx2"}


class Run:
    """What the program printed: {operation: {class: (NMSE, largest error)}}."""

    def __init__(self, program, library, level, *arguments):
        env = dict(os.environ, LD_LIBRARY_PATH=library, GGML_DISABLE_VULKAN="1")
        env.pop("GGML_RS_CPU_LEVEL", None)
        if level:
            env["GGML_RS_CPU_LEVEL"] = level
        run = subprocess.run([program, *arguments], env=env, capture_output=True, text=True)
        self.errors, self.missing, self.library, self.features, self.problem = {}, [], "", (), ""
        for line in run.stdout.split("\n"):
            kind, *fields = line.split("\t")
            if kind == "library":
                self.library = fields[0]
            elif kind == "features":
                self.features = tuple(fields[0].split())
            elif kind == "missing":
                self.missing.append(fields[0])
            elif kind == "error":
                self.errors.setdefault(fields[0], {})[fields[1]] = (float(fields[2]), float(fields[3]))
        if run.returncode != 0:
            self.problem = f"status {run.returncode}: " + run.stderr.strip()[-300:]
        elif "GGML_RS_CPU_LEVEL" in run.stderr:
            self.problem = run.stderr.strip()[-300:]


def ratio(ours, original, floor):
    """How many times the original's error, which counts as at least `floor`."""
    if math.isinf(original):
        return 1.0 # neither is right
    return ours / max(original, floor)


def judge(originals, runs, name):
    """[(ratio, what, class, level, error, the original's)] of an operation, worst first."""
    found = []
    for level, run in runs.items():
        builds = [originals[SAME[level]]] if SAME.get(level) in originals else list(originals.values())
        for which, (nmse, largest) in run.errors.get(name, {}).items():
            theirs = [b.errors[name][which] for b in builds if which in b.errors.get(name, {})]
            if theirs:
                # The worst of several builds counts, because a host may have any of them.
                found.append((ratio(nmse, max(t[0] for t in theirs), NMSE), "NMSE", which, level, nmse, max(t[0] for t in theirs)))
                found.append((ratio(largest, max(t[1] for t in theirs), LARGEST), "largest", which, level, largest, max(t[1] for t in theirs)))
    return sorted(found, reverse=True)


def describe(pair):
    r, what, which, level, ours, original = pair
    return f"{what} of '{which}', {level}: {ours:.3g}, the original {original:.3g}: {r:.3g}"


def check(c, originals, runs, names):
    for name in names:
        pairs = judge(originals, runs, name)
        known = {which for build in originals.values() for which in build.errors.get(name, {})}
        missing = [f"{level}, {which}" for level, run in runs.items() for which in sorted(known - run.errors.get(name, {}).keys())]
        missing += [level for level, run in runs.items() if name not in run.errors]
        if not pairs:
            print(f"note {name}: the original does not compute it")
            continue
        bad = [describe(p) for p in pairs if not p[0] <= TOLERANCE] + [f"{level}: not computed" for level in missing]
        c.check(not bad, name, "; ".join(bad[:4]) or "at most " + describe(pairs[0]))


def check_control(c, originals, run):
    """Every operation must fail with coarse inputs."""
    for name in run.errors:
        if name in NO_CONTROL or "ordinary" not in run.errors[name]:
            continue
        pairs = [p for p in judge(originals, {"control": run}, name) if p[2] == "ordinary"]
        c.check(any(p[0] > TOLERANCE for p in pairs), f"control, {name}: inputs of six bits are found")


def summary(originals, runs, names):
    lines = [f"{datetime.date.today().isoformat()}, {page.processor()}; levels of this library: {', '.join(runs)}; builds of the original: {', '.join(originals)}.\n\n",
             "| operation | NMSE: here / original | class | largest: here / original | class |\n", "|---|---|---|---|---|\n"]
    for name in names:
        pairs = judge(originals, runs, name)
        cells = []
        for what in ("NMSE", "largest"):
            worst = next((p for p in pairs if p[1] == what), None)
            cells += [f"{worst[4]:.1e} / {worst[5]:.1e} = {worst[0]:.2f}", worst[2]] if worst else ["", ""]
        lines.append(f"| {name} | " + " | ".join(cells) + " |\n")
    return "".join(lines)


def main():
    a, builds = arguments(__doc__)
    c = Checks("errors")
    present = Run(a.program, a.ours, "", "-k", "no such operation").features
    levels = [level for level, needs in LEVELS.items() if level != "scalar" and all(n in present for n in needs)]
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        # The slow one first.
        waiting = {("ours", level): pool.submit(Run, a.program, a.ours, level) for level in levels}
        waiting |= {("original", name): pool.submit(Run, a.program, library, "") for name, library in builds.items()}
        waiting["ours", "control"] = pool.submit(Run, a.program, a.ours, "", "-c")
        done = {which: run.result() for which, run in waiting.items()}
    runs, originals, control = sides(c, done)
    names = list(dict.fromkeys(name for run in runs.values() for name in run.errors))
    worst = sorted((p + (name,) for name in names for p in judge(originals, runs, name)), reverse=True)
    print("the highest ratios:")
    for pair in worst[:30]:
        print(f"  {pair[-1]}: {describe(pair[:-1])}")
    for name in dict.fromkeys(name for run in runs.values() for name in run.missing):
        c.check(False, name, "no case in c_tests/diff/errors_*.cpp")
    check(c, originals, runs, names)
    check_control(c, originals, control)
    if a.write and not c.failed:
        page.replace("errors", summary(originals, runs, names), page.ERRORS)
    return c.finish()


if __name__ == "__main__":
    sys.exit(main())
