#!/usr/bin/env python3
"""Looks at the book of `make book`, and at the page of a placement report, in Chromium: test_pages.py

Screenshots for people go to target/book/shots and target/report-shots. The report and its trace are in target/pictures,
or are made as scripts/pictures.py does (llama.cpp's tools of scripts/oracle.sh hosts, and a Vulkan driver). Without
Chromium, what needs it is skipped, with a line about it."""
import os
import re
import sys

import browser
import pictures
from checks import Checks
from processes import ROOT

HTML, SHOTS = f"{ROOT}/target/book/html", f"{ROOT}/target/book/shots"
PAGES = ["introduction", "overview", "c-interface", "scheduler", "BENCHMARKS"]
NARROW = PAGES[:1]
REPORT, REPORT_SHOTS = f"{ROOT}/target/pictures", f"{ROOT}/target/report-shots"
SIZES = [(1600, 1100), (900, 1100), (500, 900)]
TEXT = "document.getElementById('{}').textContent"


def files(c):
    """What needs no browser."""
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


def look(c, page, errors, where, dark):
    """One visit: the mouse is not used."""
    check = c.check
    picture = f"{REPORT_SHOTS}/{where.replace(', ', '-').replace(' ', '')}"

    def text(name):
        return page.evaluate(TEXT.format(name))

    def press(*keys):
        for key in keys:
            page.keyboard.press(key)

    def focus():
        return page.evaluate("document.activeElement.id || document.activeElement.tagName")

    width = page.evaluate("innerWidth")
    wide = page.evaluate("document.documentElement.scrollWidth")
    check(wide <= width, f"{where}: nothing is wider than the window", f"{wide} of {width} pixels")
    splits = page.evaluate("R.splits.length")
    page.set_input_files("#trace", f"{REPORT}/trace.json")
    page.wait_for_function("document.getElementById('traced').textContent !== ''")
    check("runs of splits" in text("traced") and "median" in text("splits"), f"{where}: the timeline is read", text("traced"))
    before = text("zoom")
    press("+", "+")
    check(text("zoom") != before and "4×" in text("zoom"), f"{where}: + zooms in", text("zoom"))
    press("-")
    check("2×" in text("zoom"), f"{where}: - zooms out", text("zoom"))
    press("ArrowRight", "ArrowRight")
    check(text("selected").startswith("split 1 on ") and "at the median" in text("selected"), f"{where}: the right arrow selects a split", text("selected"))
    press(*["ArrowRight"] * (splits + 2))
    check(text("selected").startswith(f"split {splits - 1} on "), f"{where}: and ends at the last one", text("selected"))
    press("ArrowLeft")
    check(text("selected").startswith(f"split {splits - 2} on "), f"{where}: the left arrow goes back", text("selected"))
    visible = page.evaluate("""(() => { const box = document.getElementById('lanescroll'), first = R.steps.findIndex(s => s.split === selected);
        const at = LABEL + first / R.steps.length * (box.scrollWidth - LABEL) - box.scrollLeft; return at >= 0 && at <= box.clientWidth; })()""")
    check(visible, f"{where}: the selected split is in sight")
    names = page.evaluate("""[...document.querySelectorAll('#names span')].map(s => { const a = s.getBoundingClientRect(), b = document.getElementById('lanescroll').getBoundingClientRect();
        return s.firstChild.textContent !== '' && a.left >= b.left && a.right <= b.right; })""")
    check(len(names) > 1 and all(names), f"{where}: so are the names of the lanes")
    high = page.evaluate("Math.max(...[...document.querySelectorAll('td')].map(d => d.offsetHeight))")
    check(high < 140, f"{where}: no cell is a column of letters", f"the highest has {high} pixels")
    page.screenshot(path=f"{picture}-keys.png")
    press("/")
    check(focus() == "filter", f"{where}: / goes to the filter", focus())
    page.keyboard.type("mul_mat")
    few, every = (int(n.replace(",", "")) for n in text("shown").split(" of "))
    check(0 < few < every, f"{where}: typing filters nodes", text("shown"))
    press("ArrowLeft")
    check(text("selected").startswith(f"split {splits - 2} on "), f"{where}: arrows in the filter stay there")
    press("Escape")
    check(page.evaluate("document.getElementById('filter').value") == "" and text("selected") == "", f"{where}: Escape clears")
    page.evaluate("document.activeElement.blur()")
    seen = []
    for _ in range(24):  # Chromium stops at each table that can be scrolled, too
        press("Tab")
        seen.append(focus())
    wanted = ["out", "in", "lanes", "trace", "filter"]
    check([n for n in dict.fromkeys(seen) if n in wanted] == wanted, f"{where}: Tab reaches everything in order", " ".join(seen))
    outline = page.evaluate("getComputedStyle(document.getElementById('in')).outlineStyle")
    page.evaluate("document.getElementById('out').focus()")
    press("Tab")
    focused = page.evaluate("getComputedStyle(document.getElementById('in')).outlineStyle")
    check(outline == "none" and focused == "solid", f"{where}: what has the focus shows it", f"{outline}, {focused}")
    press("Escape")
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=f"{picture}.png", full_page=True)
    browser.check_colours(c, f"{picture}.png", dark, where)
    check(not errors, f"{where}: no errors", "; ".join(errors)[:300])


def main():
    c = Checks("book")
    files(c)
    if why := browser.lacking():
        c.skip(f"what the pages look like: {why}")
        return c.finish()
    for folder in (SHOTS, REPORT, REPORT_SHOTS):
        os.makedirs(folder, exist_ok=True)
    with browser.browser() as visit:
        views = [(page, way, 1300) for page in PAGES for way in ("light", "dark")] + [(page, "narrow", 500) for page in NARROW]
        for page, way, width in views:
            visit(f"file://{HTML}/{page}.html", width, 900, way == "dark")[0].screenshot(path=f"{SHOTS}/{page}-{way}.png")
            browser.check_colours(c, f"{SHOTS}/{page}-{way}.png", way == "dark", f"{page}, {way}")
        if not pictures.made(REPORT):
            c.skip("the page of a report: llama.cpp's tools are missing (scripts/oracle.sh hosts)")
            return c.finish()
        for dark in (False, True):
            for width, height in SIZES:
                look(c, *visit(f"file://{REPORT}/report.html", width, height, dark), f"{width} wide, {'dark' if dark else 'light'}", dark)
    return c.finish()


if __name__ == "__main__":
    sys.exit(main())
