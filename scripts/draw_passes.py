#!/usr/bin/env python3
"""Draws docs/passes.svg: the graph of docs/examples/passes.c after each pass of the scheduler. Colours that read on
white and on black."""
import os

NODES = ["get_rows", "add", "mul_mat", "add", "add", "mul_mat", "op X", "add", "reshape", "mul_mat"]
NOTES = {0: "table", 2: "w1", 5: "w2", 9: "w3"}  # weights: the first two are in host memory
EDGES = [(1, 3), (3, 7)]  # beside those from each node to the next
# A: accelerator, C: CPU, -: open
PASSES = [
    ("Pass 1: what has memory", "C-C--A---A"),
    ("Pass 2: neighbours", "CCCAAA-A-A"),
    ("Pass 3: better ones", "CCCAAACA-A"),
    ("Pass 4: the rest", "CCCAAACAAA"),
    ("Pass 5: splits and copies", "CCCAAACAAA"),
]
COLOURS = {"A": "#d9730d", "C": "#3f72af", "-": "none"}
GREY, W, H, X0, STEP, ROW = "#888888", 66, 28, 16, 82, 96


def box(x, y, name, kind, new):
    style = f'fill="{COLOURS[kind]}"' if kind != "-" else f'fill="none" stroke="{GREY}" stroke-dasharray="4 3"'
    colour = "#ffffff" if kind != "-" else GREY
    ring = f'<rect x="{x - 3}" y="{y - 3}" width="{W + 6}" height="{H + 6}" rx="8" fill="none" stroke="{COLOURS[kind]}" stroke-width="1.5"/>' if new else ""
    return f'{ring}<rect x="{x}" y="{y}" width="{W}" height="{H}" rx="6" {style}/><text x="{x + W / 2}" y="{y + 18}" fill="{colour}" text-anchor="middle">{name}</text>'


def arc(i, k, y):
    a, b = X0 + i * STEP + W / 2, X0 + k * STEP + W / 2
    return f'<path d="M{a} {y} C{a} {y - 22} {b} {y - 22} {b} {y}" fill="none" stroke="{GREY}"/>'


def main():
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 840 {len(PASSES) * ROW + 40}" font-family="sans-serif" font-size="12">',
           "<title>Placement of ten nodes after each of the five passes</title>"]
    before = "-" * len(NODES)
    for row, (title, kinds) in enumerate(PASSES):
        y = row * ROW + 48
        out.append(f'<text x="{X0}" y="{y - 24}" fill="{GREY}" font-weight="bold">{title}</text>')
        last = row == len(PASSES) - 1
        for i in range(len(NODES) - 1):
            x = X0 + i * STEP + W
            out.append(f'<line x1="{x}" y1="{y + H / 2}" x2="{x + STEP - W}" y2="{y + H / 2}" stroke="{GREY}"/>')
        out += [arc(i, k, y) for i, k in EDGES]
        for i, name in enumerate(NODES):
            out.append(box(X0 + i * STEP, y, name, kinds[i], kinds[i] != before[i]))
            if row == 0 and i in NOTES:
                place = "C" if i < 5 else "A"
                out.append(f'<text x="{X0 + i * STEP + W / 2}" y="{y + H + 16}" fill="{COLOURS[place]}" text-anchor="middle">{NOTES[i]}</text>')
        if last:
            starts = [0] + [i for i in range(1, len(NODES)) if kinds[i] != kinds[i - 1]] + [len(NODES)]
            for n, (a, b) in enumerate(zip(starts, starts[1:]), 1):
                x, end = X0 + a * STEP, X0 + (b - 1) * STEP + W
                out.append(f'<path d="M{x} {y + H + 6} v6 H{end} v-6" fill="none" stroke="{COLOURS[kinds[a]]}" stroke-width="2"/>')
                out.append(f'<text x="{(x + end) / 2}" y="{y + H + 26}" fill="{COLOURS[kinds[a]]}" text-anchor="middle">split {n}</text>')
                if b < len(NODES):
                    out.append(f'<circle cx="{end + (STEP - W) / 2}" cy="{y + H / 2}" r="5" fill="#b3261e"/>')
        before = kinds
    y = len(PASSES) * ROW + 34
    legend = [("C", "CPU"), ("A", "accelerator"), ("-", "open")]
    for i, (kind, name) in enumerate(legend):
        style = f'fill="{COLOURS[kind]}"' if kind != "-" else f'fill="none" stroke="{GREY}" stroke-dasharray="4 3"'
        out.append(f'<rect x="{X0 + i * 120}" y="{y - 11}" width="16" height="12" rx="3" {style}/><text x="{X0 + i * 120 + 22}" y="{y}" fill="{GREY}">{name}</text>')
    out.append(f'<circle cx="{X0 + 368}" cy="{y - 5}" r="5" fill="#b3261e"/><text x="{X0 + 380}" y="{y}" fill="{GREY}">copy</text>')
    out.append(f'<text x="{X0 + 440}" y="{y}" fill="{GREY}">a ring: placed by this pass</text></svg>')
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "passes.svg")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
