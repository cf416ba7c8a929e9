#!/usr/bin/env python3
"""Writes the table of fuzz targets and the coverage of lines into docs/TESTS.md: fuzz_table.py FOLDER TARGET ...

FOLDER is where scripts/fuzz.sh keeps its findings: TARGET.runs has the executions of each run, counts.json is what llvm-cov says."""
import collections
import json
import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = f"{ROOT}/docs/TESTS.md"
BEGIN, END = "<!-- fuzz: begin -->\n", "<!-- fuzz: end -->\n"


def executions(folder, target):
    """Of all runs, and how many inputs are kept."""
    try:
        with open(f"{folder}/{target}.runs", encoding="utf-8") as f:
            n = sum(int(line) for line in f)
    except FileNotFoundError:
        n = 0
    return n, len(os.listdir(f"{folder}/corpus/{target}"))


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
    out = [f"{time.strftime('%Y-%m-%d', time.gmtime())}, all runs of `make fuzz` so far, without a finding that is not mended:", "",
           "| target | executions | inputs kept |", "|---|---|---|"]
    total = 0
    for target in targets:
        runs, kept = executions(folder, target)
        total += runs
        out.append(f"| `{target}` | {runs:,} | {kept:,} |")
    out.append(f"| all | {total:,} | |")
    found = coverage(folder)
    if found is not None:
        out += lines_of(found)
    with open(PAGE, encoding="utf-8") as f:
        before, rest = f.read().split(BEGIN)
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(before + BEGIN + "\n".join(out) + "\n" + END + rest.split(END)[1])
    counted = f", {sum(c for c, _ in found.values())} of {sum(n for _, n in found.values())} lines" if found else ""
    print(f"fuzz: {len(targets)} passed, 0 failed ({total} executions{counted})")


def lines_of(found):
    """The table of coverage."""
    out = ["", "Lines of the sources that these inputs and the seeds reach (`scripts/fuzz.sh -c`; the build has no Vulkan):", "",
            "| folder of `src/` | lines | reached |", "|---|---|---|"]
    for where in sorted(found):
        covered, lines = found[where]
        out.append(f"| `{where}` | {lines:,} | {100 * covered / max(lines, 1):.0f} % |")
    return out


main()
