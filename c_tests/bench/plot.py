#!/usr/bin/env python3
"""Draws the plots of docs/BENCHMARKS.md from the tables there and in docs/measurements/cpu.md: docs/bench-cpu.svg, for
each level how much faster this library is than the original in prompts, text and batches, by format;
docs/bench-graphs.svg, what it costs to build, split and allocate graphs, as a part of the original's cost. pip puts
matplotlib into the cache. Colours and a transparent ground that read on white and on black.
"""
import os
import re
import sys

import page

sys.path.insert(0, os.path.join(page.ROOT, "scripts"))
from processes import packages  # noqa: E402

FOLDER, WHY = packages("plots", "matplotlib==3.11.2")
if WHY:
    print(f"no plot is drawn: {WHY}")
    sys.exit()
sys.path.insert(0, FOLDER)
import matplotlib  # noqa: E402

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

SHOWN = {"prompt 512": "#4c78a8", "text": "#f58518", "8 columns": "#54a24b"}
GREY = "#808080"
SHADES = ["#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#f58518"]
OUT = os.path.join(page.ROOT, "docs", "bench-cpu.svg")
GRAPHS = os.path.join(page.ROOT, "docs", "bench-graphs.svg")


def tables(text):
    """Of each level: its name, and for each format the ratios by measurement."""
    for part in re.finditer(r"^([^\n:]+): tokens per second here[^\n]*\n\n((?:\|[^\n]*\n)+)", text, re.M):
        head, _, *rows = ([c.strip() for c in row.strip("|").split("|")] for row in part[2].splitlines())
        found = {}
        for name, *cells in rows:
            ratios = {h: float(m[1]) for h, c in zip(head[1:], cells) if (m := re.search(r"\*\*([\d.]+)\*\*", c))}
            found[name] = {h: r for h, r in ratios.items() if h in SHOWN}
        yield part[1], found


def costs(text):
    """Of each kind of scheduler: its name, the numbers of nodes, and for each measure the ratios by number of nodes."""
    for part in re.finditer(r"^([^\n:]+): nanoseconds a node here[^\n]*\n\n((?:\|[^\n]*\n)+)", text, re.M):
        head, _, *rows = ([c.strip() for c in row.strip("|").split("|")] for row in part[2].splitlines())
        found = {name: [float(m[1]) for c in cells if (m := re.search(r"\*\*([\d.]+)\*\*", c))] for name, *cells in rows}
        yield part[1], head[1:], {name: ratios for name, ratios in found.items() if len(ratios) == len(head) - 1}


def draw_costs(text):
    kinds = list(costs(text))
    fig, axes = plt.subplots(len(kinds), 1, figsize=(10, 3 * len(kinds)), squeeze=False, layout="constrained")
    for ax, (kind, nodes, measures) in zip(axes[:, 0], kinds):
        for i, n in enumerate(nodes):
            ax.bar([x + 0.16 * (i - (len(nodes) - 1) / 2) for x in range(len(measures))], [r[i] for r in measures.values()], 0.15, color=SHADES[i % len(SHADES)], label=f"{n} nodes")
        ax.axhline(1.0, color=GREY, linewidth=1)
        ax.set_xticks(range(len(measures)), measures, rotation=30, ha="right")
        ax.set_ylabel("part of the original's time")
        ax.set_title(kind)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, ncols=1, fontsize="small", loc="upper center", bbox_to_anchor=(0.62, 0.82))
    fig.savefig(GRAPHS, transparent=True, metadata={"Date": None})
    print(f"{os.path.relpath(GRAPHS, page.ROOT)}: {', '.join(kind for kind, _, _ in kinds)}")


def main():
    text = page.read("cpu", page.CPU)
    levels = list(tables(text))
    plt.rcParams.update({"svg.hashsalt": "bench-cpu", "svg.fonttype": "none", "font.family": "sans-serif", "text.color": GREY, "axes.labelcolor": GREY,
                         "axes.edgecolor": GREY, "xtick.color": GREY, "ytick.color": GREY})
    fig, axes = plt.subplots(len(levels), 1, figsize=(10, 3.2 * len(levels)), squeeze=False, layout="constrained")
    for ax, (level, formats) in zip(axes[:, 0], levels):
        for i, (measure, colour) in enumerate(SHOWN.items()):
            at = [(x + 0.27 * (i - 1), r[measure]) for x, r in enumerate(formats.values()) if measure in r]
            ax.bar([x for x, _ in at], [y for _, y in at], 0.25, color=colour, label=measure)
        ax.axhline(1.0, color=GREY, linewidth=1)
        ax.set_xticks(range(len(formats)), formats, rotation=30, ha="right")
        ax.set_ylabel("times the original's speed")
        ax.set_title(level)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, ncols=len(SHOWN))
    fig.savefig(OUT, transparent=True, metadata={"Date": None})
    print(f"{os.path.relpath(OUT, page.ROOT)}: {', '.join(level for level, _ in levels)}")
    draw_costs(page.read("cost"))


if __name__ == "__main__":
    main()
