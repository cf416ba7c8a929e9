#!/usr/bin/env python3
"""Looks at the book of `make book` in Chromium: test_book.py [FOLDER]

Makes a screenshot of each main page, light and dark, wide and narrow, in FOLDER (default: target/book/shots), for
people. Checks what a program can: the page exists and is not empty, dark is dark, light is light, and no picture is
missing. Without Chromium, the test is skipped, with a line about it. The last line counts.
"""
import os
import re
import sys

import browser
from checks import Checks

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HTML = os.path.join(ROOT, "target", "book", "html")
PAGES = ["introduction", "overview", "c-interface", "scheduler", "BENCHMARKS"]
VIEWS = [("light", False, 1300, 900), ("dark", True, 1300, 900)]
NARROW = [("narrow", False, 500, 900)]


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
    if why := browser.lacking():
        c.skip(f"what the pages look like: {why}")
    else:
        with browser.browser() as visit:
            for page in PAGES:
                for name, dark, width, height in VIEWS + (NARROW if page == PAGES[0] else []):
                    path = os.path.join(out, f"{page}-{name}.png")
                    visit(f"file://{HTML}/{page}.html", width, height, dark)[0].screenshot(path=path)
                    light, colours = browser.brightness(path)
                    c.check(colours > 8 and (light < 100 if dark else light > 170), f"{page}, {name}: its colours", f"brightness {light:.0f}, {colours} colours")
    sys.exit(c.finish())


if __name__ == "__main__":
    main()
