#!/usr/bin/env python3
"""make bench: what graphs cost, against the original, in turns: bench.py PROGRAM OUR_LIB ORIGINAL_LIB [rounds] [ms] [most nodes]

Runs bench_sched with both libraries, one after the other, several times over, and writes a table of medians and their ratios
between the marks of docs/BENCHMARKS.md. Exit status 1 when a program fails."""
import datetime
import os
import platform
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.path.join(ROOT, "docs", "BENCHMARKS.md")
BEGIN, END = "<!-- cost: begin -->\n", "<!-- cost: end -->\n"


def run(program, library, args):
    env = dict(os.environ, LD_LIBRARY_PATH=library)
    out = subprocess.run([program, *args], env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in out.splitlines():
        measure, devices, nodes, ns, _ = line.split()
        yield (measure, devices, int(nodes)), float(ns)


def processor():
    try:
        for line in open("/proc/cpuinfo"):
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def main():
    program, ours, original = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    args = sys.argv[5:]
    times = {}
    for _ in range(rounds):
        for column, library in enumerate((ours, original)):
            for key, ns in run(program, library, args):
                times.setdefault(key, ([], []))[column].append(ns)
    rows = []
    for (measure, devices, nodes), both in times.items():
        a, b = (statistics.median(x) for x in both)
        rows.append((measure, devices, nodes, a, b))
        print(f"{measure:12} {devices:10} {nodes:6} {a:9.1f} {b:9.1f} {a / b:6.2f}")
    day = datetime.date.today().isoformat()
    cores = os.cpu_count()
    text = [f"{day}, {processor()}, {cores} cores, load {os.getloadavg()[0]:.1f}; `make bench`, medians of {rounds} runs in turns.\n\n"]
    sizes = sorted({r[2] for r in rows})
    for devices in dict.fromkeys(r[1] for r in rows):
        text.append(f"{devices}: nanoseconds a node here / in the original, and the ratio.\n\n")
        text.append("| nodes | " + " | ".join(str(n) for n in sizes) + " |\n|---" * 1 + "|---" * len(sizes) + "|\n")
        for measure in dict.fromkeys(r[0] for r in rows):
            cells = []
            for n in sizes:
                cell = next(((r[3], r[4]) for r in rows if r[:3] == (measure, devices, n)), None)
                small = measure == "new_graph"  # nothing a node
                cells.append("" if cell is None else f"{cell[0]:.1f} / {cell[1]:.1f}" if small else f"{cell[0]:.0f} / {cell[1]:.0f} = **{cell[0] / cell[1]:.2f}**")
            text.append(f"| {measure} | " + " | ".join(cells) + " |\n")
        text.append("\n")
    page = open(TARGET).read()
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    open(TARGET, "w").write(head + BEGIN + "".join(text).rstrip("\n") + "\n" + END + tail)


sys.exit(main())
