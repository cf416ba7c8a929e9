#!/usr/bin/env python3
"""Checks the files of test_rs: check.py FOLDER [trace.json ...]; with files, checks only these timelines.

A timeline must be the "JSON object" form of the Chrome trace event format, strictly: known phases, numbers for all
numeric fields, names for all lines, and on each line events that are nested or apart (which Perfetto's importer
requires)."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
from checks import Checks  # noqa: E402

checks = Checks()
check = checks.sound


def number(v):
    return isinstance(v, (int, float)) and not isinstance(v, bool)


def timeline(path, least):
    try:
        with open(path, encoding="utf-8") as f:
            doc = json.load(f)
    except (OSError, ValueError) as e:
        return str(e)
    if not isinstance(doc, dict) or not isinstance(doc.get("traceEvents"), list) or doc.get("displayTimeUnit") not in ("ms", "ns"):
        return "no object with traceEvents and displayTimeUnit"
    lines, named, count = {}, set(), 0
    for e in doc["traceEvents"]:
        if not isinstance(e, dict) or e.get("ph") not in ("X", "M") or not isinstance(e.get("pid"), int) or not isinstance(e.get("tid"), int):
            return f"a bad event: {e}"
        if not isinstance(e.get("name"), str) or not isinstance(e.get("args", {}), dict):
            return f"a bad name or bad args: {e}"
        if e["ph"] == "M":
            if e["name"] == "process_name" and isinstance(e["args"].get("name"), str) and e["tid"] == 0:
                continue
            if e["name"] != "thread_name" or not isinstance(e["args"].get("name"), str) or e["tid"] in named:
                return f"a bad line: {e}"
            named.add(e["tid"])
            continue
        if not number(e.get("ts")) or not number(e.get("dur")) or e["ts"] < 0 or e["dur"] < 0 or not isinstance(e.get("cat"), str):
            return f"bad times or category: {e}"
        if e["tid"] not in named:
            return f"a line without a name: {e}"
        count += 1
        # Whole nanoseconds, so that ends compare exactly.
        start = round(e["ts"] * 1000)
        lines.setdefault(e["tid"], []).append((start, -round(e["dur"] * 1000), e["name"]))
    for events in lines.values():
        open_until = []
        for start, negative, name in sorted(events):
            end = start - negative
            while open_until and open_until[-1] <= start:
                open_until.pop()
            if open_until and end > open_until[-1]:
                return f"'{name}' stands half over another event"
            open_until.append(end)
    return None if count >= least else f"{count} events, expected {least} or more"


def overlap(blocks):
    """Two tensors that are needed at the same step must not share a byte."""
    for i, a in enumerate(blocks):
        for b in blocks[:i]:
            if a["buffer"] == b["buffer"] and max(a["from"], b["from"]) <= min(a["to"], b["to"]) and \
                    max(a["offset"], b["offset"]) < min(a["offset"] + a["bytes"], b["offset"] + b["bytes"]):
                return f"{a['tensor']} and {b['tensor']} share memory"
    return None


def report(doc, allocated):
    n, m = len(doc["backends"]), len(doc["nodes"])
    if [b["name"] for b in doc["backends"]] != ["Accel0", "CPU"] or m != 9:
        return "other backends or nodes"
    if sum(s["nodes"] for s in doc["splits"]) != m or doc["splits"][0]["first"] != 0:
        return "the splits do not contain all nodes"
    for node in doc["nodes"]:
        if not 0 <= node["backend"] < n or doc["splits"][node["split"]]["backend"] != node["backend"] or not node["cause"]:
            return f"a node out of place: {node}"
    if [node["backend"] for node in doc["nodes"]] != [0, 1] * 4 + [1]:
        return "placed otherwise"
    copies = [c for s in doc["splits"] for c in s["copies"]]
    if len(copies) != 8 or any(c["bytes"] != 16 * 3 * 4 for c in copies) or len(doc["steps"]) != m + 8:
        return f"copies: {copies}"
    if {c["kind"] for c in copies} != {"input", "result"}:
        return "kinds of copies"
    if [f["cause"] for f in doc["fallbacks"]] != ["unsupported"] * 5:
        return f"fallbacks: {doc['fallbacks']}"
    if not allocated:
        return None if doc["memory"] == [] else "memory without an allocation"
    if {x["buffer_type"] for x in doc["memory"]} != {"Accel0", "CPU"}:
        return "memory of other types"
    for x in doc["memory"]:
        if not 0 < x["lower_bound"] <= x["used_bytes"] <= sum(x["buffers"]) or abs(x["ratio"] - x["used_bytes"] / x["lower_bound"]) > 1e-9:
            return f"sizes: {x['lower_bound']}, {x['used_bytes']}, {x['buffers']}, {x['ratio']}"
        if x["planned_for_this_graph"] is not True:
            return "another plan"
        problem = overlap(x["blocks"])
        if problem:
            return problem
    return None


def main():
    folder = sys.argv[1]
    if len(sys.argv) > 2:
        for path in sys.argv[2:]:
            check(f"{path} is a timeline", timeline(os.path.join(folder, path), 1))
    else:
        load = lambda name: json.load(open(os.path.join(folder, name), encoding="utf-8"))
        check("the report of a split graph", report(load("split.json"), False))
        check("the report of an allocated graph", report(load("report.json"), True))
        page = open(os.path.join(folder, "report.html"), encoding="utf-8").read()
        inside = re.search(r'<script type="application/json" id="report">(.*?)</script>', page, re.S)
        check("the page holds the same report", None if inside and json.loads(inside[1]) == load("report.json") else "another one")
        outside = re.findall(r'(?:src|href)\s*=|https?://|@import|url\(', page)
        check("the page fetches nothing", str(outside) if outside else None)
        for name, least in (("trace.json", 3 * (5 + 8 + 8 + 1)), ("trace-way0.json", 9), ("trace-way1.json", 9), ("trace-way2.json", 0)):
            check(f"{name} is a timeline", timeline(os.path.join(folder, name), least))
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
