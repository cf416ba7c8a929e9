#!/usr/bin/env python3
"""Makes the pictures of README.md from a real run: docs/report.png and docs/timeline.svg. pictures.py [FOLDER]

Runs llama-completion of the test suites (scripts/oracle.sh hosts) with a random llama of four layers, the last one and
the output on the first Vulkan device of the system, and writes the placement report and the trace to FOLDER (default:
target/pictures). If both are there already, it only draws: the report by Chromium (Debian's package chromium), the
timeline of the fastest token by matplotlib (which pip puts into the cache), in colours that read on white and on black.
"""
import json
import os
import subprocess
import sys

import browser
from processes import ROOT, cache, packages

# Category of an event, or the lane of a node -> the colour, and the text of the legend.
KINDS = {"CPU": ("#3f72af", "nodes on the CPU"), "Vulkan0": ("#d9730d", "nodes on the device"), "copy": ("#b3261e", "copies")}


def made(folder):
    """Makes the report and the trace unless they are there. Returns whether they are."""
    if all(os.path.exists(f"{folder}/{name}") for name in ("report.html", "trace.json")):
        return True
    program = f"{cache()}/hosts/bin/llama-completion"
    if not os.path.exists(program):
        return False
    env = dict(os.environ, LD_LIBRARY_PATH=f"{ROOT}/target/install/lib", GGML_VK_VISIBLE_DEVICES="0",
               GGML_SCHED_REPORT=f"{folder}/report.html", GGML_TRACE=f"{folder}/trace.json")
    subprocess.run([program, "-m", f"{cache()}/models/llama-Q4_0-ours.gguf", "-p", "People die when they are killed. The cat sits outside", "-n", "24", "-t", "2",
                    "-ngl", "2", "-no-cnv"], env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return True


def events(path):
    """Bars of the fastest graph, by lane, in milliseconds from its start; and the names of lanes."""
    with open(path, encoding="utf-8") as f:
        found = json.load(f)["traceEvents"]
    lanes = {e["tid"]: e["args"]["name"] for e in found if e["ph"] == "M" and e["name"] == "thread_name"}
    bars = [e for e in found if e["ph"] == "X"]
    starts = sorted(e["ts"] for e in bars if e["name"] == "split 0")
    graphs = [[dict(e, bar=((e["ts"] - a) / 1000, e["dur"] / 1000)) for e in bars if a <= e["ts"] < b and e["cat"] in ("split", "node", "copy")]
              for a, b in zip(starts, starts[1:] + [float("inf")])]
    return lanes, min(graphs, key=lambda g: max(sum(e["bar"]) for e in g))


def draw(lanes, bars, out):
    """The host's lane of a device shows when it got work, the device's own lane when it did it. Nodes and copies are
    drawn over the lower part of their split."""
    import matplotlib.pyplot as plt
    plt.rcParams.update(dict.fromkeys(("text.color", "axes.edgecolor", "xtick.color", "ytick.color"), "#888888") | {"svg.hashsalt": "timeline", "svg.fonttype": "none"})
    used = sorted({e["tid"] for e in bars})
    figure, axes = plt.subplots(figsize=(9, 0.5 * len(used) + 0.9), layout="constrained")
    for row, tid in enumerate(used):
        lane = "CPU" if lanes[tid] == "CPU" else "Vulkan0"
        for category, kind, high, alpha in (("split", lane, 0.8, 0.25), ("node", lane, 0.5, 1), ("copy", "copy", 0.5, 1)):
            axes.broken_barh([e["bar"] for e in bars if (e["tid"], e["cat"]) == (tid, category)], (row + 0.8 - high, high), color=KINDS[kind][0], alpha=alpha, linewidth=0)
        for e in bars:
            if (e["tid"], e["cat"]) == (tid, "split"):
                axes.text(e["bar"][0], row + 0.22, f" {e['name']}", fontsize="x-small")
    axes.set_yticks([row + 0.4 for row in range(len(used))], ["the device" if lanes[tid].endswith("(device)") else lanes[tid] for tid in used])
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter("{x:g} ms")
    axes.spines[["top", "right", "left"]].set_visible(False)
    patches = [plt.Rectangle((0, 0), 1, 1, color=colour, label=text) for colour, text in KINDS.values()]
    figure.legend(handles=patches, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(out, transparent=True, metadata={"Date": None})


def main():
    folder = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else f"{ROOT}/target/pictures")
    os.makedirs(folder, exist_ok=True)
    if not made(folder):
        sys.exit("llama.cpp's tools are missing (scripts/oracle.sh hosts)")
    plots, why = packages("plots", "matplotlib==3.11.2")
    if why:
        sys.exit(why)
    sys.path.insert(0, plots)
    draw(*events(f"{folder}/trace.json"), f"{ROOT}/docs/timeline.svg")
    with browser.browser() as visit:
        visit(f"file://{folder}/report.html", 1160, 800)[0].screenshot(path=f"{ROOT}/docs/report.png")


if __name__ == "__main__":
    main()
