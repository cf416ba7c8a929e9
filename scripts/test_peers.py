#!/usr/bin/env python3
"""Runs the original's own test programs, built unmodified against this library, on this library. If their output
depends on the machine or on random models, they run on the original too, and both outputs are compared.

Only on demand (make test-peers-all): gradients against finite differences, states of models, samplers, and `ops-all`,
`grad-all`, `models-all`: every case of test-backend-ops (hours) and every architecture.
"""
import math
import os
import re
import shutil
import zlib

from hosts import Hosts, main
from processes import compiled

# What a case of test-backend-ops may cost to be in the sample: the product of its sizes.
SAMPLE_COST = 3e6
# Dense and mixed models that test-llama-archs finds OK with the original.
ARCHITECTURES = 133
# Architectures whose states CI saves and restores: one of every kind of memory, recurrent and hybrid ones above all.
STATES = "^(llama|gemma3|deepseek2|t5|mamba2?|rwkv[67]|arwkv7|jamba|falcon-h1|lfm2|qwen3next|kimi-linear|granitehybrid|nemotron_h|plamo2)$"
# Bytes of names that fit into one argument of a program.
ARGUMENT = 100_000
# Cases that differ in random numbers only repeat a name.
CASE = re.compile(r"^\s+([A-Z0-9_]+\(.*\)): (.*)$")


class Peers(Hosts):
    """The programs of llama.cpp's tests folder."""

    tests, timeout = "tests/bin", 3600
    starter = os.environ.get("PEERS_RUNNER", "").split() # valgrind -q --error-exitcode=9

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.folder = os.path.join(self.cache, "peer-models")
        os.makedirs(self.folder, exist_ok=True)

    def runs(self, program, *arguments, what=None):
        """A program that checks by itself."""
        status, out, seconds = self.start("ours", program, *arguments)
        return self.check(status == 0, what or program, f"{seconds:.1f} s" if status == 0 else self.why(status, out))


def programs(t):
    for name in ("test-c", "test-quantize-fns", "test-rope", "test-barrier", "test-col2im-1d", "test-tiled-mulmat", "test-opt"):
        t.runs(name)


def results(out):
    """What test-backend-ops says of each case."""
    found = {}
    for m in filter(None, map(CASE.match, out.splitlines())):
        found.setdefault(m[1], []).append(m[2].strip())
    return found


def answered(t, side, mode, device, **variables):
    """What test-backend-ops says of each case, of which there must be many."""
    status, out, _ = t.start(side, "test-backend-ops", mode, "-b", device, **variables)
    found = results(out)
    if status != 0 or len(found) < 1000:
        t.check(False, f"test-backend-ops {mode} -b {device} on {side}", f"status {status}, {len(found)} cases")
    return found


def supported(t, side, device="CPU"):
    """What a side supports of the cases of test-backend-ops: name -> whether."""
    return {name: said[-1] == "SUPPORTED" for name, said in answered(t, side, "support", device).items()}


def listed(t):
    """Every case of test-backend-ops test by name. `support` leaves out those that compute a whole graph (fusions,
    TOPK_QSA ...), so the program runs with a device that supports nothing: it names each case and computes none."""
    module = compiled(os.path.join(t.folder, "toy.so"), "modules/toy_module.c", "-shared", "-fPIC", "-DBACKEND", '-DNAME="Toy"')
    found = answered(t, "ours", "test", "Toy0", GGML_BACKEND_PATH=module)
    return [name for name, said in found.items() if said[-1].startswith("not supported")]


def support(t):
    ours, original = supported(t, "ours"), supported(t, "original")
    lost = sorted(name for name, yes in original.items() if yes and not ours.get(name))
    t.check(not lost and ours.keys() == original.keys(), "everything that the original supports is supported",
            f"{sum(ours.values())} of {len(ours)} cases, original {sum(original.values())}" + "".join("; " + n for n in lost[:5]))


def parts(case):
    op, rest = case.split("(", 1)
    return op, re.findall(r"(\w+)=(\[[^\]]*\]|[^,]*)", rest[:-1])


def cost(values):
    """A guess: the largest tensor, or the product of the sizes that are given one by one."""
    product = largest = 1
    for key, value in values:
        if value.startswith("["):
            largest = max(largest, math.prod(max(1, int(n)) for n in re.findall(r"\d+", value)))
        elif value.isdigit() and "type" not in key:
            product *= max(1, int(value))
    return max(product, largest)


def kind(case):
    """The operation of a case and the types that its name gives."""
    op, values = parts(case)
    return op, tuple(v for v in values if "type" in v[0])


def sample(cases, rounds, most=SAMPLE_COST):
    """Cases that cover, for each op, every combination of types and every value of every parameter (sizes of dimensions
    aside) `rounds` times. Cases that cost more than `most` are left out. If an op has types in expensive cases only,
    the cheapest of them is taken. Cases are chosen in the order of a checksum, so that the choice stays the same if
    cases are added or removed."""
    seen, chosen, dear = {}, [], []
    for case in sorted(cases, key=lambda c: zlib.crc32(c.encode())):
        op, values = parts(case)
        if cost(values) > most:
            dear.append((cost(values), case))
            continue
        new = {kind(case)} | {(op, v) for v in values if not v[0].startswith("ne") and v[0] not in ("m", "n", "k", "kv")}
        if any(seen.get(n, 0) < rounds for n in new):
            chosen.append(case)
            for n in new:
                seen[n] = seen.get(n, 0) + 1
    for _, case in sorted(dear):
        if kind(case) not in seen:
            chosen.append(case)
            seen[kind(case)] = 1
    return chosen


def chunks(names):
    """Comma-separated lists that fit into an argument."""
    line = []
    for name in names:
        if line and sum(map(len, line)) + len(line) + len(name) > ARGUMENT:
            yield ",".join(line)
            line = []
        line.append(name)
    yield ",".join(line)


def judge(t, what, status, out, expected, seconds):
    """Of the output of test-backend-ops: every expected case was computed and is right."""
    found = results(out)
    good = {name for name, said in found.items() if all(s.endswith("OK") for s in said)}
    wrong = sorted(name for name, said in found.items() if any("FAIL" in s for s in said))
    missing = sorted(expected - good - set(wrong))
    t.check(status == 0 and not wrong and not missing, what,
            f"{len(good)} cases in {seconds:.0f} s" + (f", status {status}" if status else "")
            + "".join("; wrong: " + n for n in wrong[:5]) + "".join("; not computed: " + n for n in missing[:5]))


def ops(t):
    can, every = supported(t, "original"), listed(t)
    usable = [c for c in every if can.get(c, True)]
    chosen = sample(usable, 1)
    covered = set(map(kind, chosen))
    graphs = {parts(c)[0] for c in every if c not in can}
    t.check(covered == set(map(kind, usable)) and can.keys() <= set(every) and "TOPK_QSA" in graphs, "the sample covers every kind of case on all its types",
            f"{len(chosen)} of {len(every)} cases: {len({op for op, _ in covered} - graphs)} ops, {len(graphs)} kinds of graphs, {len(covered)} with their types")
    for i, names in enumerate(chunks(chosen), 1):
        status, out, seconds = t.start("ours", "test-backend-ops", "test", "-b", "CPU", "-o", names)
        judge(t, f"test-backend-ops test -b CPU, sample, part {i}", status, out, {c for c in chosen if c in names}, seconds)


def every_case(t, device, expected):
    """Every case in one run without a filter."""
    status, out, seconds = t.start("ours", "test-backend-ops", "test", "-b", device, timeout=12 * 3600)
    with open(os.path.join(t.folder, f"backend-ops-{device}.txt"), "w") as f:
        f.write(out)
    judge(t, f"test-backend-ops test -b {device}, all of it", status, out, expected, seconds)


def ops_all(t):
    """What is OK with the original must be OK here."""
    can = supported(t, "original")
    every_case(t, "CPU", {c for c in listed(t) if can.get(c, True)})


def grad(t, every=False):
    """Gradients by backpropagation against finite differences, for a sample or all: what is right with the original
    must be right here."""
    chosen = (c for c in sample(supported(t, "original"), 2) if "type=f32" in c or "type" not in c)
    for i, names in enumerate([()] if every else [("-o", some) for some in chunks(chosen)], 1):
        said = {}
        for side in ("original", "ours"):
            _, out, seconds = t.start(side, "test-backend-ops", "grad", "-b", "CPU", *names, timeout=6 * 3600)
            said[side] = {case: lines[-1] for case, lines in results(out).items()}
        good = {c for c, line in said["original"].items() if line.endswith("OK")}
        lost = sorted(c for c in good if not said["ours"].get(c, "").endswith("OK"))
        wrong = sorted(c for c, line in said["ours"].items() if "FAIL" in line and "FAIL" not in said["original"].get(c, ""))
        t.check(good and not lost and not wrong, f"test-backend-ops grad -b CPU, part {i}",
                f"{len(good)} gradients in {seconds:.0f} s" + "".join("; lost: " + c for c in (lost + wrong)[:5]))


def table(text):
    """Rows of test-llama-archs: (architecture, device, configuration) -> its verdict, or nothing if the row ends
    early."""
    rows = {}
    for line in text.splitlines():
        cells = [c.strip() for c in line.split("|")]
        if len(cells) >= 4 and cells[3] in ("Dense", "MoE"):
            rows[tuple(cells[1:4])] = cells[4:6] if len(cells) >= 6 else []
    return rows


def architectures(t, device, expected, *arguments, **more):
    """Architectures that llama.cpp knows, with random weights: logits of two runs, and of a model written and read
    back. Returns how many are right, which must be those that are expected."""
    status, out, seconds = t.start("ours", "test-llama-archs", "-s", 1, "-b", device, *arguments, **more)
    rows = table(out)
    good = sum(bool(said) and said[0].startswith("OK") and "FAIL" not in said[1] for said in rows.values())
    wrong = [" ".join((k[0], k[2])) for k, said in rows.items() if any("FAIL" in s for s in said)]
    t.check(status == 0 and not wrong and good >= expected, f"test-llama-archs -b {device}",
            f"{good} OK, at least {expected} expected, in {seconds:.0f} s" + (f", status {status}" if status else "") + "".join("; " + a for a in wrong))
    return good


def archs(t):
    """Every architecture that is OK with the original. Only here: the original's threads wait for each other in loops,
    and it takes half an hour if there are fewer cores than threads."""
    architectures(t, "CPU", ARCHITECTURES)


def models(t, which=STATES):
    """Small random models of some architectures, saved; the programs that save and restore states run over all of
    them."""
    folder = os.path.join(t.folder, f"archs-{zlib.crc32(which.encode()):08x}")
    if not os.path.isdir(folder):
        os.makedirs(folder + ".part", exist_ok=True)
        if not t.runs("test-llama-archs", "-s", 1, "-a", which, "-o", folder + ".part", what="test-llama-archs writes models"):
            shutil.rmtree(folder + ".part")
            return
        os.replace(folder + ".part", folder)
    t.check(len(os.listdir(folder)) > 10, "random models to save the states of", f"{len(os.listdir(folder))}")
    for program in ("test-save-load-state", "test-recurrent-state-rollback"):
        said, rc = {}, {}
        for side in ("original", "ours"):
            rc[side], out, seconds = t.start(side, program, "--models", folder)
            rows = (line.split() for line in out.splitlines())
            said[side] = {row[0]: row[1:] for row in rows if row and row[0].endswith(".gguf")}
        ours = said["ours"]
        worse = sorted(m for m, results in said["original"].items()
                       if len(ours.get(m, [])) != len(results) or any(a == "PASS" != b for a, b in zip(results, ours[m])))
        passed, failed = (sum(r.count(word) for r in ours.values()) for word in ("PASS", "FAIL"))
        t.check(passed > 0 and not worse and rc["ours"] in (0, rc["original"]), f"{program} over these models",
                f"{len(ours)} models, {passed} passed, {failed} failed, in {seconds:.0f} s" + "".join("; worse than the original: " + m for m in worse[:5]))


def hosts(t):
    """Programs that need one model: contexts on many threads, states in pieces, the operations of a graph."""
    model = t.random_llama("f16")
    t.runs("test-thread-safety", "-m", model, "-p", "The meaning of life is", "-n", 32, "-c", 256, "-ub", 32, "-np", 4, "-t", 2)
    t.runs("test-state-restore-fragmented", "-m", model)
    lists = {}
    for side in ("original", "ours"):
        path = os.path.join(t.folder, f"graph-ops-{side}.txt")
        if t.run(side, "test-export-graph-ops", "-m", model, "-o", path) is None:
            return
        with open(path) as f:
            lists[side] = f.read().splitlines()
    n = len(lists["ours"])
    t.check(lists["ours"] == lists["original"] and n > 10, "test-export-graph-ops gives the original's list", f"{n} ops")
    # With a list the program fills the sources only. It compares the guards around them and the rows that SET_ROWS
    # skips as they came from malloc, and any NaN among them is a failure (with the original too). So malloc must return
    # zeros: glibc fills with the complement.
    status, out, seconds = t.start("ours", "test-backend-ops", "test", "-b", "CPU", "--test-file", path, MALLOC_PERTURB_="255")
    good = out.count("): OK")
    t.check(status == 0 and "FAIL" not in out and good == n, "test-backend-ops on the ops of that list", f"{good} of {n} OK in {seconds:.0f} s")


def sampler(t):
    """Samplers in the graph; slow with the original too."""
    model = t.random_llama("f16")
    status = {}
    for side in ("original", "ours"):
        status[side], _, seconds = t.start(side, "test-backend-sampler", "--model", model)
    t.check(status["ours"] in (0, status["original"]), "test-backend-sampler ends as with the original",
            f"status {status['ours']}, original {status['original']}, {seconds:.0f} s")


SECTIONS = {"programs": programs, "support": support, "ops": ops, "archs": archs, "hosts": hosts}
DEMAND = {"grad": grad, "models": models, "sampler": sampler, "ops-all": ops_all,
          "grad-all": lambda t: grad(t, True), "models-all": lambda t: models(t, ".")}


if __name__ == "__main__":
    main(__doc__, "peers", SECTIONS | DEMAND, len(SECTIONS), Peers)
