#!/usr/bin/env python3
"""Looks at the page of a placement report in Chromium: test_report.py

Takes the report and the trace from target/pictures, or makes them as scripts/pictures.py does (llama.cpp's tools of
scripts/oracle.sh hosts, and a Vulkan driver). At three sizes, light and dark: the page must fit the window, load the
timeline, and obey the keys that it names. Screenshots for people go to target/report-shots. Without Chromium, the test
is skipped, with a line about it. The last line counts.
"""
import os
import sys

import browser
import pictures
from checks import Checks
from processes import ROOT

SIZES = [(1600, 1100), (900, 1100), (500, 900)]
TEXT = "document.getElementById('{}').textContent"


def look(c, page, errors, trace, where, out, dark):
    """One visit: the mouse is not used."""
    check = c.check
    picture = f"{out}/{where.replace(', ', '-').replace(' ', '')}"

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
    page.set_input_files("#trace", trace)
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
    c = Checks("report")
    if why := browser.lacking():
        return c.skip_all(why)
    folder, out = f"{ROOT}/target/pictures", f"{ROOT}/target/report-shots"
    report, trace = f"{folder}/report.html", f"{folder}/trace.json"
    os.makedirs(folder, exist_ok=True)
    os.makedirs(out, exist_ok=True)
    if not (os.path.exists(report) and os.path.exists(trace)):
        if not os.path.exists(pictures.program()):
            return c.skip_all("llama.cpp's tools are missing (scripts/oracle.sh hosts)")
        pictures.run(folder)
    with browser.browser() as visit:
        for dark in (False, True):
            for width, height in SIZES:
                look(c, *visit(f"file://{report}", width, height, dark), trace, f"{width} wide, {'dark' if dark else 'light'}", out, dark)
    return c.finish()


if __name__ == "__main__":
    sys.exit(main())
