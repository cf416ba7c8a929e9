#!/usr/bin/env python3
"""The graphs of every architecture of llama.cpp's test-llama-archs, some of the layers on an accelerator
(c_tests/async/module.c: a device with a queue that computes with the CPU's kernels): splits, inputs and placement of
every node on this library and on the original.

usage: test_placement.py CACHE OURS [ARCH ...]

CACHE is the folder of scripts/oracle.sh (tests/bin, original/lib, src), OURS the folder of the installed library's lib.
Without ARCH all architectures, three minutes. FAKE_LAYERS: how many layers are on the accelerator (default 2: half of
most graphs, as the output counts as a layer). This library runs with its race checker; the last line counts the
checks."""
import os
import re
import subprocess
import sys

from checks import Checks
from processes import ROOT, compiled

TIME = re.compile(r"\d+\.\d\d\.\d{3}\.\d{3} [A-Z] ?")
CAUSE = re.compile(r"\[\s*(\S+)[^\]]*\]")
ROW = re.compile(r"\|\s*(\S+)\|FAKE\|\s*(\w+)\|")


def placement(path):
    """Lines about splits and nodes, without times, causes and blanks."""
    lines = []
    for line in open(path, errors="replace"):
        at = max(line.find("## SPLIT"), line.find("node #"))
        if at >= 0:
            line = TIME.sub(" ", line[at:]).replace("inputs :", "inputs:")
            if line.startswith("node"):
                line = CAUSE.sub(r"[\1]", line)
            lines.append(re.sub(r"\s+", "", line))
    return lines


def run(host, lib, out, name, arch):
    env = dict(os.environ, LD_LIBRARY_PATH=lib, LD_PRELOAD=f"{out}/preload.so", FAKE_MODULE=f"{out}/module.so", GGML_SCHED_DEBUG="2",
               FAKE_LAYERS=os.environ.get("FAKE_LAYERS", "2"), GGML_SCHED_SANITIZE="1", OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")
    command = [host, "-s", "1", "-v", "5", "-b", "FAKE"] + (["-a", arch] if arch else [])
    log = f"{out}/{name}.{arch or 'all'}.log"
    with open(log, "w") as err:
        text = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=err, text=True, errors="replace").stdout
    return text, placement(log), [l for l in open(log, errors="replace") if "race:" in l]


def main():
    cache, ours, *archs = sys.argv[1:]
    out = f"{ROOT}/target/placement"
    host, original = f"{cache}/tests/bin/test-llama-archs", f"{cache}/original/lib"
    compiled(f"{out}/module.so", "async/module.c", "-shared", "-fPIC", "-lpthread")
    compiled(f"{out}/preload.so", "async/preload.cpp", "-shared", "-fPIC", f"-I{cache}/src/llama.cpp/include", f"-L{original}", "-lggml", "-lggml-base", "-ldl")
    c = Checks("placement")
    for folder in (ours, original):
        # Without it, the loader takes the library of the host's RUNPATH, and the test compares it with itself.
        c.check(os.path.exists(f"{folder}/libggml-base.so"), f"{folder} has libggml-base.so")
    for arch in archs or [None]:
        # The host's log has a thread that the host does not wait for at its end: now and then its last lines are lost,
        # with either library.
        for _ in range(4):
            (want_text, want, _), (text, got, races) = run(host, original, out, "original", arch), run(host, ours, out, "ours", arch)
            if len(want) == len(got):
                break
        rows, there, ok = len(ROW.findall(want_text)), len(ROW.findall(text)), text.count("FAIL")
        # So may the last row.
        cut = 1 - min(want_text.count("Summary:"), text.count("Summary:"))
        first = next((f": {x[:150]} | {y[:150]}" for x, y in zip(want, got) if x != y), "")
        splits = sum(line.startswith("##SPLIT") for line in want)
        c.check(want and want == got, f"{arch or 'all'}: {rows} models, {splits} splits, {len(want) - splits} nodes placed the same{first}")
        c.check(there and abs(there - rows) <= cut and ok == want_text.count("FAIL"),
                f"{arch or 'all'}: {there} results as the original's {rows}, {ok} differ from the CPU's")
        c.check(not races, f"{arch or 'all'}: no races", races[0][:200] if races else "")
    return c.finish()


if __name__ == "__main__":
    sys.exit(main())
