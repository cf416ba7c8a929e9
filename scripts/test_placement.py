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
import sys

from hosts import Hosts
from processes import ROOT, compiled

TIME = re.compile(r"\d+\.\d\d\.\d{3}\.\d{3} [A-Z] ?")
CAUSE = re.compile(r"\[\s*(\S+)[^\]]*\]")
ROW = re.compile(r"\|\s*(\S+)\|FAKE\|\s*(\w+)\|")


def build(folder, cache):
    """The accelerator, and a library that puts layers of an unmodified host on it."""
    compiled(f"{folder}/module.so", "async/module.c", "-shared", "-fPIC", "-lpthread")
    compiled(f"{folder}/preload.so", "async/preload.cpp", "-shared", "-fPIC", f"-I{cache}/src/llama.cpp/include", f"-L{cache}/original/lib", "-lggml", "-lggml-base", "-ldl")


def placement(log):
    """Lines about splits and nodes, without times, causes and blanks."""
    lines = []
    for line in log.splitlines():
        at = max(line.find("## SPLIT"), line.find("node #"))
        if at >= 0:
            line = TIME.sub(" ", line[at:]).replace("inputs :", "inputs:")
            if line.startswith("node"):
                line = CAUSE.sub(r"[\1]", line)
            lines.append(re.sub(r"\s+", "", line))
    return lines


class Placement(Hosts):
    tests, timeout = "tests/bin", 3600

    def placed(self, side, out, arch):
        """How many models ran, how many failed, where their nodes were placed, and races."""
        _, text, _ = self.start(side, "test-llama-archs", "-s", 1, "-v", 5, "-b", "FAKE", *(("-a", arch) if arch else ()),
                                LD_PRELOAD=f"{self.preload}:{out}/preload.so", FAKE_MODULE=f"{out}/module.so", GGML_SCHED_DEBUG="2",
                                FAKE_LAYERS=os.environ.get("FAKE_LAYERS", "2"), GGML_SCHED_SANITIZE="1", OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")
        with open(f"{out}/{side}.{arch or 'all'}.log", "w") as f:
            f.write(self.stderr)
        return len(ROW.findall(text)), text.count("FAIL"), placement(self.stderr), [l for l in self.stderr.splitlines() if "race:" in l]


def main():
    (cache, ours), archs = map(os.path.abspath, sys.argv[1:3]), sys.argv[3:]
    out = f"{ROOT}/target/placement"
    build(out, cache)
    t = Placement("placement", cache, ours)
    for folder in t.libs.values():
        # Without it, the loader takes the library of the host's RUNPATH, and the test compares it with itself.
        t.check(os.path.exists(f"{folder}/libggml-base.so"), f"{folder} has libggml-base.so")
    for arch in archs or [None]:
        (rows, bad, want, _), (there, wrong, got, races) = t.placed("original", out, arch), t.placed("ours", out, arch)
        first = next((f": {x[:150]} | {y[:150]}" for x, y in zip(want, got) if x != y), "")
        splits = sum(line.startswith("##SPLIT") for line in want)
        t.check(want and want == got, f"{arch or 'all'}: {rows} models, {splits} splits, {len(want) - splits} nodes placed the same{first}")
        t.check(there and there == rows and wrong == bad, f"{arch or 'all'}: {there} results as the original's {rows}, {wrong} differ from the CPU's")
        t.check(not races, f"{arch or 'all'}: no races", races[0][:200] if races else "")
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
