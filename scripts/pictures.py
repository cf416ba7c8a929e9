#!/usr/bin/env python3
"""Makes the pictures of README.md from a real run: docs/report.png and docs/timeline.svg. pictures.py [FOLDER]

Runs llama-completion of the test suites (scripts/oracle.sh hosts) with a random llama of four layers, the last one and
the output on the first Vulkan device of the system, and writes the placement report and the trace to FOLDER (default:
target/pictures). If both are there already, it only draws: the report by Chromium (Debian's package chromium), the
timeline of the fastest token by this script, in colours that read on white and on black.
"""
import json
import os
import subprocess
import sys

import browser
from processes import ROOT, cache

GREY = "#888888"
COLOURS = {"scheduler": "#6f6f6f", "copy": "#b3261e", "CPU": "#3f72af", "Vulkan0": "#d9730d"}
WIDTH, LEFT, LANE = 900, 110, 34


def program():
    return os.path.join(cache(), "hosts", "bin", "llama-completion")


def run(folder):
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(ROOT, "target", "install", "lib"), GGML_VK_VISIBLE_DEVICES="0", GGML_SCHED_REPORT=os.path.join(folder, "report.html"),
               GGML_TRACE=os.path.join(folder, "trace.json"))
    subprocess.run([program(), "-m", os.path.join(cache(), "models", "llama-Q4_0-ours.gguf"), "-p", "People die when they are killed. The cat sits outside", "-n", "24", "-t", "2",
                    "-ngl", "2", "-no-cnv"], env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def events(path):
    """Bars of the fastest graph, by lane, in microseconds from its start; and the names of lanes."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    try:
        found = json.loads(text)["traceEvents"]
    except ValueError:
        found = json.loads(text.rstrip().rstrip(",") + "]}")["traceEvents"]
    lanes = {e["tid"]: e["args"]["name"] for e in found if e["ph"] == "M" and e["name"] == "thread_name"}
    bars = [e for e in found if e["ph"] == "X"]
    starts = sorted(e["ts"] for e in bars if e["name"] == "split 0")
    graphs = [[dict(e, at=e["ts"] - a) for e in bars if a <= e["ts"] < b and e["cat"] != "scheduler"] for a, b in zip(starts, starts[1:] + [float("inf")])]
    return lanes, min(graphs, key=lambda g: max(e["at"] + e["dur"] for e in g))


def label(name):
    """The host's lane of a device shows when it got work, the device's own lane when it did it."""
    return "the device" if name.endswith("(device)") else name


def draw(lanes, bars):
    end = max(e["at"] + e["dur"] for e in bars)
    scale = (WIDTH - LEFT - 20) / end
    order = sorted(lanes)
    used = [tid for tid in order if any(e["tid"] == tid for e in bars)]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {len(used) * (LANE + 12) + 52}" font-family="sans-serif" font-size="12">',
           "<title>Timeline of one token: splits, copies and nodes on the CPU and on a Vulkan device</title>"]
    for row, tid in enumerate(used):
        y = 8 + row * (LANE + 12)
        out.append(f'<text x="8" y="{y + 21}" fill="{GREY}">{label(lanes[tid])}</text><line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y + LANE}" y2="{y + LANE}" stroke="{GREY}" stroke-opacity="0.4"/>')
        colour = COLOURS["CPU"] if lanes[tid] == "CPU" else COLOURS["Vulkan0"]
        for e in sorted((e for e in bars if e["tid"] == tid), key=lambda e: -e["dur"]):
            x, w = LEFT + e["at"] * scale, max(e["dur"] * scale, 0.6)
            if e["cat"] == "split":
                style, top, high = f'fill="{colour}" fill-opacity="0.25"', y, LANE
            elif e["cat"] == "node":
                style, top, high = f'fill="{colour}"', y + 14, LANE - 14
            else:
                style, top, high = f'fill="{COLOURS["copy" if e["cat"] == "copy" else "scheduler"]}"', y + 14, LANE - 14
            out.append(f'<rect x="{x:.1f}" y="{top}" width="{w:.1f}" height="{high}" {style}><title>{e["name"]}: {e["dur"]:.0f} us</title></rect>')
            if e["cat"] == "split" and w > 40:
                out.append(f'<text x="{x + 4:.1f}" y="{y + 11}" fill="{GREY}" font-size="10">{e["name"]}</text>')
    y = 8 + len(used) * (LANE + 12) + 12
    step = next(s * 10 ** k for k in range(1, 8) for s in (1, 2, 5) if end / (s * 10 ** k) <= 8)
    for i in range(int(end / step) + 1):
        x = LEFT + i * step * scale
        out.append(f'<text x="{x:.0f}" y="{y}" fill="{GREY}" text-anchor="middle" font-size="10">{i * step / 1000:g} ms</text>')
    for i, (name, colour) in enumerate((("nodes on the CPU", COLOURS["CPU"]), ("nodes on the device", COLOURS["Vulkan0"]), ("copies", COLOURS["copy"]))):
        out.append(f'<rect x="{LEFT + i * 150}" y="{y + 12}" width="14" height="10" fill="{colour}"/><text x="{LEFT + i * 150 + 20}" y="{y + 21}" fill="{GREY}">{name}</text>')
    out.append("</svg>")
    with open(os.path.join(ROOT, "docs", "timeline.svg"), "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


def main():
    folder = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "target", "pictures"))
    os.makedirs(folder, exist_ok=True)
    if not all(os.path.exists(os.path.join(folder, n)) for n in ("report.html", "trace.json")):
        run(folder)
    lanes, bars = events(os.path.join(folder, "trace.json"))
    draw(lanes, bars)
    with browser.browser() as visit:
        visit("file://" + os.path.join(folder, "report.html"), 1160, 800)[0].screenshot(path=os.path.join(ROOT, "docs", "report.png"))


if __name__ == "__main__":
    main()
