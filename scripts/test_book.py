#!/usr/bin/env python3
"""Looks at the book of `make book` in Chromium: test_book.py

Makes a screenshot of each main page, light and dark, wide and narrow, in target/book/shots, for people. Checks what a
program can: the pages exist and are not empty, dark is dark, light is light, and links and pictures lead to files.
Without Chromium, the colours are skipped, with a line about it. The last line counts.
"""
import os
import re
import sys

import browser
from checks import Checks
from processes import ROOT

HTML = f"{ROOT}/target/book/html"
PAGES = ["introduction", "overview", "c-interface", "scheduler", "BENCHMARKS"]
VIEWS = [("light", False, 1300, 900), ("dark", True, 1300, 900)]
NARROW = [("narrow", False, 500, 900)]


def main():
    out = f"{ROOT}/target/book/shots"
    os.makedirs(out, exist_ok=True)
    c = Checks("book")
    dead, n = [], 0
    for name in sorted(set(os.listdir(HTML)) - {"404.html", "print.html", "toc.html"}):
        if not name.endswith(".html"):
            continue
        with open(f"{HTML}/{name}", encoding="utf-8") as f:
            text = f.read()
        if "{{#" in text:
            dead.append(f"{name}: a snippet")
        for target in re.findall(r'<(?:a href|img src)="([^"]*)"', text):
            path = target.partition("#")[0]
            n += 1
            if path and not re.match(r"[a-z]+:", path) and not os.path.exists(f"{HTML}/{path}"):
                dead.append(f"{name}: {target}")
    c.sound("the main pages are built", [page for page in PAGES if not os.path.exists(f"{HTML}/{page}.html")])
    c.check(n > 100 and not dead, f"{n} links and pictures of the built pages lead to files, and snippets are included", "; ".join(dead[:5]))
    if why := browser.lacking():
        c.skip(f"what the pages look like: {why}")
    else:
        with browser.browser() as visit:
            for page in PAGES:
                for name, dark, width, height in VIEWS + (NARROW if page == PAGES[0] else []):
                    path = f"{out}/{page}-{name}.png"
                    visit(f"file://{HTML}/{page}.html", width, height, dark)[0].screenshot(path=path)
                    browser.check_colours(c, path, dark, f"{page}, {name}")
    sys.exit(c.finish())


if __name__ == "__main__":
    main()
