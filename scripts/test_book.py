#!/usr/bin/env python3
"""Looks at the book of `make book` in Chromium: test_book.py [FOLDER]

Makes a screenshot of each main page, light and dark, wide and narrow, in FOLDER (default: target/book/shots), for
people. Checks what a program can: the page exists and is not empty, dark is dark, light is light, and no picture is
missing. Without Chromium, the test is skipped, with a line about it. The last line counts.
"""
import os
import re
import struct
import sys
import zlib

import browser
from checks import Checks

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HTML = os.path.join(ROOT, "target", "book", "html")
PAGES = ["introduction", "overview", "c-interface", "scheduler", "BENCHMARKS"]
VIEWS = [("light", False, 1300, 900), ("dark", True, 1300, 900)]
NARROW = [("narrow", False, 500, 900)]


def pixels(path):
    """Width, height and rows of a PNG with eight bits for each of three or four channels."""
    with open(path, "rb") as f:
        data = f.read()
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack_from(">IIBB", body)
        elif kind == b"IDAT":
            packed += body
        at += 12 + size
    n, raw, rows, before = 4 if colour == 6 else 3, zlib.decompress(packed), [], None
    stride = width * n
    before = bytearray(stride)
    for y in range(height):
        how, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            a, b, c = (line[i - n] if i >= n else 0), before[i], (before[i - n] if i >= n else 0)
            if how == 1:
                line[i] = (line[i] + a) & 255
            elif how == 2:
                line[i] = (line[i] + b) & 255
            elif how == 3:
                line[i] = (line[i] + (a + b) // 2) & 255
            elif how == 4:
                p = a + b - c
                da, db, dc = abs(p - a), abs(p - b), abs(p - c)
                line[i] = (line[i] + (a if da <= db and da <= dc else b if db <= dc else c)) & 255
        rows.append(line)
        before = line
    return width, height, n, rows


def brightness(path):
    """Mean of a sample of pixels, 0 to 255, and how many different colours the sample has."""
    width, height, n, rows = pixels(path)
    sample = [tuple(rows[y][x * n:x * n + 3]) for y in range(0, height, 9) for x in range(0, width, 9)]
    return sum(map(sum, sample)) / (3 * len(sample)), len(set(sample))


def main():
    out = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(ROOT, "target", "book", "shots")
    os.makedirs(out, exist_ok=True)
    c = Checks("book")
    for page in PAGES:
        with open(os.path.join(HTML, page + ".html"), encoding="utf-8") as f:
            text = f.read()
        missing = [p for p in re.findall(r'<img src="([^":]+)"', text) if not os.path.exists(os.path.join(HTML, p))]
        c.sound(f"{page}: every picture is there", missing)
        c.check("{{#" not in text, f"{page}: every snippet is included")
    dead, n = [], 0
    for name in sorted(os.listdir(HTML)):
        if not name.endswith(".html") or name in ("404.html", "print.html", "toc.html"):
            continue
        with open(os.path.join(HTML, name), encoding="utf-8") as f:
            for link in re.findall(r'<a href="([^"]*)"', f.read()):
                path = link.partition("#")[0]
                n += 1
                if path and not re.match(r"[a-z]+:", path) and not os.path.exists(os.path.join(HTML, path)):
                    dead.append(f"{name}: {link}")
    c.check(n > 100 and not dead, f"{n} links of the built pages lead to files", "; ".join(dead[:5]))
    if browser.find() is None:
        c.skip("what the pages look like: chromium is missing (install the package chromium)")
    else:
        with browser.Browser() as b:
            for page in PAGES:
                for name, dark, width, height in VIEWS + (NARROW if page == PAGES[0] else []):
                    path = os.path.join(out, f"{page}-{name}.png")
                    b.shot(f"file://{HTML}/{page}.html", path, width, height, dark)
                    light, colours = brightness(path)
                    c.check(colours > 8 and (light < 100 if dark else light > 170), f"{page}, {name}: its colours", f"brightness {light:.0f}, {colours} colours")
    sys.exit(c.finish())


if __name__ == "__main__":
    main()
