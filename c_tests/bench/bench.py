#!/usr/bin/env python3
"""make bench: the cost of graphs, against the original, in turns:
bench.py PROGRAM OUR_LIB ORIGINAL_LIB [rounds] [ms] [most nodes]

Each measurement is run with one library and directly afterwards with the other, several rounds over: on a shared
machine, the clock changes within seconds. Writes a table between the marks of docs/BENCHMARKS.md: medians of the times,
and of the ratios of each pair. The exit status is 1 if a program fails."""
import datetime
import os
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
import page  # noqa: E402


def run(program, library, *args):
    env = dict(os.environ, LD_LIBRARY_PATH=library)
    return subprocess.run([program, *map(str, args)], env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    program, ours, original = sys.argv[1:4]
    given = [int(a) for a in sys.argv[4:7]]
    rounds, ms, most = given + [7, 60, 33000][len(given):]
    measures, sizes = (line.split() for line in run(program, ours, "list").splitlines())
    selected = [(m, d, n) for d in (1, 2) for n in map(int, sizes) if n <= most for m in measures]
    times = {}
    for r in range(rounds):
        for m, d, n in selected:
            for column in (r % 2, 1 - r % 2):
                measure, devices, nodes, ns, _ = run(program, (ours, original)[column], ms, n, m, d).split()
                times.setdefault((measure, devices, int(nodes)), ([], []))[column].append(float(ns))
    rows = []
    for (measure, devices, nodes), both in times.items():
        a, b = (statistics.median(x) for x in both)
        ratio = statistics.median(x / max(y, 1e-9) for x, y in zip(*both))
        rows.append((measure, devices, nodes, a, b, ratio))
        print(f"{measure:12} {devices:10} {nodes:6} {a:9.1f} {b:9.1f} {ratio:6.2f}")
    day = datetime.date.today().isoformat()
    cores = os.cpu_count()
    text = [f"{day}, {page.processor()}, {cores} cores, load {os.getloadavg()[0]:.1f}; `make bench`, medians of {rounds} pairs of runs.\n\n"]
    sizes = sorted({r[2] for r in rows})
    for devices in dict.fromkeys(r[1] for r in rows):
        text.append(f"{devices}: nanoseconds a node here / in the original, and the median ratio of a pair.\n\n")
        text.append("| nodes | " + " | ".join(str(n) for n in sizes) + " |\n|---" * 1 + "|---" * len(sizes) + "|\n")
        for measure in dict.fromkeys(r[0] for r in rows):
            cells = []
            for n in sizes:
                cell = next((r[3:] for r in rows if r[:3] == (measure, devices, n)), None)
                small = measure == "new_graph"  # nothing a node
                cells.append("" if cell is None else f"{cell[0]:.1f} / {cell[1]:.1f}" if small else f"{cell[0]:.0f} / {cell[1]:.0f} = **{cell[2]:.2f}**")
            text.append(f"| {measure} | " + " | ".join(cells) + " |\n")
        text.append("\n")
    page.replace("cost", "".join(text))


sys.exit(main())
