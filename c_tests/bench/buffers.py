#!/usr/bin/env python3
"""Bytes of compute buffers for every architecture of llama.cpp's test-llama-archs, against the original and against the
lower bound (the most bytes in use at once): buffers.py CACHE OURS [--write]

CACHE is the folder of scripts/oracle.sh (tests/bin, original/lib, src), OURS the folder of the installed library's lib.
Each host runs twice on each library, with all layers on the CPU, and with two layers on an accelerator
(c_tests/async/module.c); nothing is computed. Writes the table between the marks of docs/measurements/buffers.md with
--write. Exit status 1 when a buffer is larger than the original's."""
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import page  # noqa: E402
from page import ROOT  # noqa: E402
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import test_placement  # noqa: E402 (its devices)
from processes import compiled  # noqa: E402

LINE = re.compile(r"print_info: arch +=\s*(\S+)|buffers: (.*?) end\n")


def run(host, lib, out, name, accelerated):
    """Reservations in their order: architecture, number, and bytes by place of the backend."""
    reports = f"{out}/{name}"
    os.makedirs(reports, exist_ok=True)
    env = dict(os.environ, LD_LIBRARY_PATH=lib, LD_PRELOAD=f"{out}/buffers.so", BUFFERS_OUT=reports)
    command = [host, "-s", "1", "-v", "5"]
    if accelerated:
        env.update(LD_PRELOAD=f"{out}/buffers.so:{out}/preload.so", FAKE_MODULE=f"{out}/module.so", FAKE_LAYERS="2")
        command += ["-b", "FAKE"]
    with open(f"{out}/{name}.log", "w") as log:
        subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=log)
    return read(f"{out}/{name}.log")


def read(log):
    arch, found = "?", []
    for match in LINE.finditer(open(log, errors="replace").read()):
        if match.group(1):
            arch = match.group(1)
        else:
            head, *backends = match.group(2).split(" | ")
            number, nodes, splits = map(int, head.split())
            found.append((arch, number, nodes, splits, [(b.split()[0], int(b.split()[1])) for b in backends]))
    return found


def bound(reports, number):
    """The lower bound of a reservation's graph, over all buffer types."""
    try:
        with open(f"{reports}/{number}.json") as f:
            return sum(m["lower_bound"] for m in json.load(f)["memory"])
    except OSError:
        return 0


def compare(want, got, reports):
    """By architecture: models' graphs, bytes of the original, ours, lower bound, of all graphs; and what is wrong."""
    rows, wrong = {}, []
    if [w[:4] for w in want] != [g[:4] for g in got] or not want:
        wrong.append(f"the hosts reserved other graphs: {len(want)} and {len(got)}")
    for (arch, number, nodes, _, theirs), (*_, ours) in zip(want, got):
        for (kind, a), (_, b) in zip(theirs, ours):
            if b > a:
                wrong.append(f"{arch}, {nodes} nodes, {kind}: {b} bytes, the original {a}")
        row = rows.setdefault(arch, [0, 0, 0, 0])
        for i, n in enumerate((1, sum(a for _, a in theirs), sum(b for _, b in ours), bound(reports, number))):
            row[i] += n
    return rows, wrong


def table(rows):
    text = ["| | graphs | original, KB | here, KB | ratio | here over lower bound |\n|---|---|---|---|---|---|\n"]
    total = [sum(r[i] for r in rows.values()) for i in range(4)]
    for name, (n, theirs, ours, least) in [*sorted(rows.items()), ("**all**", total)]:
        over = f"{ours / least:.3f}" if least else ""
        text.append(f"| {name} | {n} | {theirs / 1024:.0f} | {ours / 1024:.0f} | {ours / max(theirs, 1):.3f} | {over} |\n")
    return "".join(text)


def main():
    cache, ours, *rest = sys.argv[1:]
    out = f"{ROOT}/target/buffers"
    os.makedirs(out, exist_ok=True)
    host, original = f"{cache}/tests/bin/test-llama-archs", f"{cache}/original/lib"
    test_placement.build(out, cache)
    compiled(f"{out}/buffers.so", "bench/buffers.c", "-shared", "-fPIC", "-ldl")
    text, wrong = "", []
    for accelerated, title in ((False, "All on the CPU"), (True, "Two layers on an accelerator")):
        name = "accel" if accelerated else "cpu"
        want = run(host, original, out, f"original-{name}", accelerated)
        got = run(host, ours, out, f"ours-{name}", accelerated)
        rows, bad = compare(want, got, f"{out}/ours-{name}")
        wrong += bad
        text += f"\n{title}:\n\n{table(rows)}"
    print(text)
    if "--write" in rest:
        page.replace("buffers", text, page.BUFFERS)
    for line in wrong:
        print(f"FAIL {line}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
