#!/usr/bin/env python3
"""Writes the table of fuzz targets and the coverage of lines into docs/measurements/fuzz.md: fuzz_table.py FOLDER TARGET ...

FOLDER is where scripts/fuzz.sh keeps its findings: TARGET.runs has the executions of each run since the page was last
written, and how many there were for a second of processor time; counts.json is the report of llvm-cov."""
import collections
import json
import os
import re
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = f"{ROOT}/docs/measurements/fuzz.md"
LINES = "Lines of the sources that these inputs and the seeds reach"
BEGIN, END = "<!-- fuzz: begin -->\n", "<!-- fuzz: end -->\n"


def executions(folder, target, before):
    """All runs, the executions of the last run for each second of processor time, and how many inputs are kept. Each
    run is counted once, in whichever page is written next."""
    n, speed, kept = before.get(target, (0, "", 0))
    runs = f"{folder}/{target}.runs"
    if os.path.exists(runs):
        with open(runs, encoding="utf-8") as f:
            for line in f:
                now, *rest = line.split()
                n += int(now)
                speed = f"{int(rest[0]):,}" if rest else speed
        os.rename(runs, f"{runs}.counted")
    if os.path.isdir(f"{folder}/corpus/{target}"):
        kept = len(os.listdir(f"{folder}/corpus/{target}"))
    return n, speed, kept


def written(page):
    """Target -> executions, speed and inputs, from the page."""
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|(?: ([\d,]*) \|)? ([\d,]+) \|$", page, re.MULTILINE)
    number = lambda text: int(text.replace(",", ""))
    return {target: (number(n), speed, number(kept)) for target, n, speed, kept in rows}


def coverage(folder):
    """Folder of the sources -> lines that ran, lines. None if `fuzz.sh -c` has not counted them."""
    if not os.path.exists(f"{folder}/counts.json"):
        return None
    with open(f"{folder}/counts.json", encoding="utf-8") as f:
        files = json.load(f)["data"][0]["files"]
    found = collections.defaultdict(lambda: [0, 0])
    for file in files:
        path = os.path.relpath(file["filename"], f"{ROOT}/src")
        if path.startswith(".."):
            continue
        lines = file["summary"]["lines"]
        where = path.split("/")[0] if "/" in path else "."
        found[where][0] += lines["covered"]
        found[where][1] += lines["count"]
    return found


def main():
    folder, targets = sys.argv[1], sys.argv[2:]
    with open(PAGE, encoding="utf-8") as f:
        top, rest = f.read().split(BEGIN)
    before, bottom = rest.split(END)
    known = written(before.split(LINES)[0])
    out = [f"{time.strftime('%Y-%m-%d', time.gmtime())}, all runs of `make fuzz` so far, without a finding that is not mended (a second: of processor time, in the last run):", "",
           "| target | executions | a second | inputs kept |", "|---|---|---|---|"]
    total = 0
    for target in targets + [t for t in known if t not in targets]:
        runs, speed, kept = executions(folder, target, known)
        total += runs
        out.append(f"| `{target}` | {runs:,} | {speed} | {kept:,} |")
    out.append(f"| all | {total:,} | | |")
    found = coverage(folder)
    if found is not None:
        out += lines_of(found)
    elif LINES in before:
        out += ["", LINES + before.split(LINES)[1].rstrip("\n")]
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(top + BEGIN + "\n".join(out) + "\n" + END + bottom)
    counted = f", {sum(c for c, _ in found.values())} of {sum(n for _, n in found.values())} lines" if found else ""
    print(f"fuzz: {len(targets)} passed, 0 failed ({total} executions{counted})")


def lines_of(found):
    """The table of coverage."""
    out = ["", LINES + " (`scripts/fuzz.sh -c`):", "",
            "| folder of `src/` | lines | reached |", "|---|---|---|"]
    for where in sorted(found):
        covered, lines = found[where]
        out.append(f"| `{where}` | {lines:,} | {100 * covered / max(lines, 1):.0f} % |")
    return out


main()
