#!/usr/bin/env python3
"""make test SUITES=nmse: the errors of matrix products and of attention on this library and on the original, against
double precision.

usage: nmse.py PROGRAM OURS_LIB NAME=ORIGINAL_LIB ... [--jobs N] [--write]

PROGRAM is nmse.c. Each NAME=ORIGINAL_LIB is the lib folder of a build of the original. The first of them quantizes the
numbers, and computes the results in double precision. Then all builds of the original, and this library at each level
that the processor has, compute the same products. Prints a table of the errors (NMSE), then PASS or FAIL for each
format and number of columns, and `nmse: N passed, M failed`.

An error of this library must be at most TOLERANCE times the lowest error of all builds of the original, plus ROUNDING,
at every level. Weights in an additional type of buffer (CPU_REPACK) are compared with the original's in the same type
of buffer if it has them there, and with those in its default type otherwise. --write puts a summary between the marks
of docs/measurements/errors.md.
"""
import argparse
import concurrent.futures
import datetime
import glob
import math
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import page  # noqa: E402
sys.path.insert(0, os.path.join(page.ROOT, "scripts"))
from checks import Checks  # noqa: E402

# Two equally good ways of rounding activations differ by chance: with 256 x 512 results by half a percent (the standard
# deviation).
TOLERANCE = 1.02
# The order of sums in single precision makes errors of 3e-14 to 7e-13 here, on both sides. Only larger ones are
# compared.
ROUNDING = 1e-12
# Features of the processor that each level needs, by their names in the feature list.
LEVELS = {"scalar": ()}
for level, more in (("avx2", ("AVX2", "FMA", "F16C")), ("avx512", ("AVX512",)), ("avx512_vnni", ("AVX512_VNNI",)), ("avx512_bf16", ("AVX512_BF16",)),
                    ("amx", ("AMX_INT8",))):
    LEVELS[level] = (*list(LEVELS.values())[-1], *more)
# With activations of six bits, these must be found to be above the original.
CONTROLS = ("product-f16", "product-q8_0", "attention-f16-64")
PLAIN = "CPU"


class Run:
    """A program's measurements: {(kind, format, what): {buffer type: error}}."""

    def __init__(self, program, library, level, folder, *arguments):
        env = dict(os.environ, LD_LIBRARY_PATH=library, GGML_DISABLE_VULKAN="1")
        env.pop("GGML_RS_CPU_LEVEL", None)
        if level:
            env["GGML_RS_CPU_LEVEL"] = level
        run = subprocess.run([program, "run", folder, *arguments], env=env, capture_output=True, text=True)
        self.errors, self.library, self.features, self.problem = {}, "", (), ""
        for line in run.stdout.split("\n"):
            kind, *fields = line.split("\t")
            if kind == "library":
                self.library = fields[0]
            elif kind == "features":
                self.features = tuple(fields[0].split())
            elif kind == "product":
                name, buffer, columns, error = fields
                self.errors.setdefault((kind, name, (int(columns),)), {})[buffer] = float(error)
            elif kind == "attention":
                name, head, queries, error = fields
                self.errors.setdefault((kind, name, (int(head), int(queries))), {})[PLAIN] = float(error)
        if run.returncode != 0:
            self.problem = f"status {run.returncode}: " + run.stderr.strip()[-300:]
        elif "GGML_RS_CPU_LEVEL" in run.stderr:
            self.problem = run.stderr.strip()[-300:]


def limit(error):
    return TOLERANCE * error + ROUNDING


def baseline(originals, key, buffer):
    """The lowest error of the original, or None."""
    errors = [run.errors.get(key, {}) for run in originals.values()]
    for where in (buffer, PLAIN):
        found = [e[where] for e in errors if where in e and math.isfinite(e[where])]
        if found:
            return min(found)
    return None


def judge(originals, runs, key):
    """[(level, buffer type, error, the original's lowest)] of the pairs that can be compared, worst first, and the
    missing ones."""
    pairs, missing = [], []
    for level, run in runs.items():
        mine = run.errors.get(key, {})
        if PLAIN not in mine:
            missing.append(level)
        for buffer, error in mine.items():
            lowest = baseline(originals, key, buffer)
            if lowest is not None:
                pairs.append((level, buffer, error, lowest))
    pairs.sort(key=lambda p: p[2] / limit(p[3]) if math.isfinite(p[2]) else math.inf, reverse=True)
    return pairs, missing


def name_of(key):
    kind, name, what = key
    if kind == "product":
        return f"product {name}, {what[0]} column" + "s" * (what[0] > 1)
    return f"attention {name}, heads of {what[0]}, {what[1]} quer" + ("ies" if what[1] > 1 else "y")


def print_table(originals, runs, keys):
    columns = [(f"original {n}", r) for n, r in originals.items()] + list(runs.items())
    print(f"{'NMSE':44} {'buffer':10} " + " ".join(f"{n:>15}" for n, _ in columns) + "  worst ratio")
    for key in keys:
        pairs, _ = judge(originals, runs, key)
        buffers = dict.fromkeys(b for _, run in columns for b in run.errors.get(key, {}))
        for buffer in buffers:
            cells = [run.errors.get(key, {}).get(buffer) for _, run in columns]
            ratios = [error / lowest for _, b, error, lowest in pairs if b == buffer and lowest > 0]
            print(f"{name_of(key):44} {buffer:10} " + " ".join(f"{'-' if c is None else format(c, '.3e'):>15}" for c in cells)
                  + (f"  {max(ratios):.4f}" if ratios else "  -"))


def check(c, originals, runs, keys):
    for key in keys:
        pairs, missing = judge(originals, runs, key)
        if baseline(originals, key, PLAIN) is None:
            print(f"note {name_of(key)}: the original does not compute it")
            continue
        bad = [f"{level} {buffer}: {error:.3e} above {lowest:.3e}" for level, buffer, error, lowest in pairs if not error <= limit(lowest)]
        bad += [f"{level}: not computed" for level in missing]
        if not pairs:
            c.check(False, name_of(key), "; ".join(bad) or "nothing to compare")
            continue
        level, buffer, error, lowest = pairs[0]
        c.check(not bad, name_of(key), "; ".join(bad) or f"at most {error:.3e} ({level}, {buffer}), the original {lowest:.3e}")


def check_control(c, originals, run):
    """Every error with coarse activations must be above the limit."""
    for key in run.errors:
        small = [pair for pair in judge(originals, {"control": run}, key)[0] if pair[2] <= limit(pair[3])]
        c.check(not small, f"control, {name_of(key)}: activations of six bits are above the original")
    for name in CONTROLS:
        if not any("-".join([kind, form] + [str(w) for w in what[:-1]]) == name for kind, form, what in run.errors):
            c.check(False, f"control, {name}", "not computed")


def cell(originals, runs, key):
    pairs, _ = judge(originals, runs, key)
    if not pairs:
        return ""
    _, _, error, lowest = pairs[0]
    errors = f"{error:.2e} / {lowest:.2e}"
    return errors if error < ROUNDING and lowest < ROUNDING else f"{errors} = **{error / lowest:.3f}**"


def summary(originals, runs, keys):
    """The tables of docs/measurements/errors.md."""
    lines = [f"{datetime.date.today().isoformat()}, {page.processor()}; levels of this library: {', '.join(runs)}.\n"]
    lines += [f"Original, {name}: {', '.join(run.features)}.\n" for name, run in originals.items()]
    for kind, title, head in (("product", "weights", lambda w: f"{w[0]} column" + "s" * (w[0] > 1)),
                              ("attention", "keys and values", lambda w: f"heads of {w[0]}, {w[1]} quer" + ("ies" if w[1] > 1 else "y"))):
        whats = list(dict.fromkeys(what for k, _, what in keys if k == kind))
        lines += ["\n", f"| {title} | " + " | ".join(head(w) for w in whats) + " |\n", "|---" * (len(whats) + 1) + "|\n"]
        for name in dict.fromkeys(name for k, name, _ in keys if k == kind):
            lines.append(f"| {name.upper()} | " + " | ".join(cell(originals, runs, (kind, name, w)) for w in whats) + " |\n")
    return "".join(lines)


def make(program, library, folder, jobs):
    """Lets a library write the files."""
    env = dict(os.environ, LD_LIBRARY_PATH=library, GGML_DISABLE_VULKAN="1")
    parts = [subprocess.Popen([program, "make", folder, str(i), str(jobs)], env=env) for i in range(jobs)]
    return all([part.wait() == 0 for part in parts])


def arguments(description):
    """The command line of a comparison with the original, and its builds by name."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("ours")
    parser.add_argument("originals", nargs="+", metavar="NAME=ORIGINAL_LIB")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--write", action="store_true")
    a = parser.parse_args()
    builds = dict(original.split("=", 1) for original in a.originals)
    for library in [a.ours, *builds.values()]:
        if not glob.glob(os.path.join(library, "libggml-base.so*")):
            sys.exit(f"{parser.prog}: {library} has no libggml-base.so")
    return a, builds


def sides(c, done):
    """Runs by (whose, name), checked: those of this library, those of the original, and the one with coarse inputs."""
    for (which, name), run in done.items():
        if not run.problem and run.library != which:
            run.problem = f"this library is {run.library or 'not known'}"
        if run.problem:
            c.check(False, f"{which} {name}", run.problem)
    runs = {name: run for (which, name), run in done.items() if which == "ours"}
    originals = {name: run for (which, name), run in done.items() if which == "original"}
    return runs, originals, runs.pop("control")


def main():
    a, builds = arguments(__doc__)
    c = Checks("nmse")
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        if not make(a.program, next(iter(builds.values())), folder, a.jobs):
            c.check(False, "the original quantizes the numbers")
            return c.finish()
        present = Run(a.program, a.ours, "", folder, "none").features
        levels = [level for level, needs in LEVELS.items() if all(n in present for n in needs)]
        # The slow one first.
        waiting = {("ours", level): pool.submit(Run, a.program, a.ours, level, folder) for level in levels}
        waiting |= {("original", name): pool.submit(Run, a.program, library, "", folder) for name, library in builds.items()}
        waiting["ours", "control"] = pool.submit(Run, a.program, a.ours, "", folder, "-c", *CONTROLS)
        done = {which: run.result() for which, run in waiting.items()}
    runs, originals, control = sides(c, done)
    keys = list(dict.fromkeys(key for run in [*runs.values(), *originals.values()] for key in run.errors))
    keys.sort(key=lambda key: key[0] != "product")
    print_table(originals, runs, keys)
    check(c, originals, runs, keys)
    check_control(c, originals, control)
    if a.write and not c.failed:
        page.replace("nmse", summary(originals, runs, keys), page.ERRORS)
    return c.finish()


if __name__ == "__main__":
    sys.exit(main())
