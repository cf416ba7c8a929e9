#!/usr/bin/env python3
"""make bench-experts: models larger than a card, on this library and on the original, in turns, by an unmodified
llama-bench on a simulated card (c_tests/card).

usage: bench_experts.py CACHE OURS [--turns N] [--text N] [--prompt N] [--shares 10,30] [--pcie 16,8]
[--load pinned,mmap] [--trace FILE] [--format q4_0|q8_0] [--only WORDS] [--small] [--values] [--verbose]

CACHE is the folder of scripts/oracle.sh (hosts/bin, original/lib, src), OURS the folder of the installed library's lib.
Each line such as `text, cache 10 %: 2.31` has the ratio of the medians of tokens per second, above 1 where this library
is faster. Cases:

text      experts in host memory (-ncmoe 99), the rest on the card; GGML_RS_EXPERT_CACHE is set to the share
prompt    the same with prompts
half      a dense model with half of its layers on the card
batch     the same with prompts of 8 to 96 tokens, and GGML_RS_OFFLOAD=cost
fits      both models on a card that is large enough

--shares has the caches, in per cent of all experts; 0: the variable is not set. --load: whether experts are in pinned
memory (llama-bench -lm none), or pages of the mapped file, which are not pinned (its default). --trace has the experts
that routers choose (c_tests/card/card.c has the format); without it, two are made: one with the figures that others
measured with Qwen3-30B-A3B (profile qwen3 of traces.py, requests of 256 tokens), and for the cases with `Zipf` one that
is harder for a cache: Zipf with exponent 1, where each expert of a token is one of the last token's with probability
0.35. --only: cases whose names contain one of the words.
--small: models of a few MB, to see that everything works. --values: besides, llama-results on the card is compared with
the CPU.

How the card is derived from this machine. The reference is a desktop: memory that its CPU reads at 70 GB/s, a card with
1000 GB/s, 60 TFLOPS and 8 GiB, PCIe 4.0 with 25 GB/s (16 lanes) or 12.5 (8), half of that from pageable memory, 8 us
for a copy, 10 for a graph, 1.5 for a kernel; and Qwen3-30B-A3B in Q4_0: a token needs 8 experts of 2048 x 768 in each
of 48 layers, 21.2 MB a layer, which the CPU reads in 303 us. This machine's CPU reads experts at R, which is measured:
text of the original, with a card that takes no time. All speeds of the card are multiplied by R / 70 GB/s, so that what
a layer costs on the CPU, on the card and on the bus has the proportions of the desktop. All latencies are multiplied by
the time of a layer's experts here by 303 us. The card's memory is 8 GiB by the ratio of all experts' bytes. What is not
scaled: the time of the host's own code, which therefore weighs less than on the desktop; and copies take no bandwidth
of the memory from the CPU.
"""
import argparse
import array
import bisect
import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import gguf_file  # noqa: E402
import random_llama  # noqa: E402
import traces  # noqa: E402
from processes import compiled  # noqa: E402

# Columns, feed-forward columns (of an expert), layers, heads, heads of keys and values, experts, experts used.
EXPERTS, DENSE = (1024, 512, 12, 16, 4, 128, 8), (2048, 5632, 12, 32, 8)
SMALL_EXPERTS, SMALL_DENSE = (256, 128, 4, 4, 2, 128, 8), (256, 704, 4, 4, 2)
# The card's thread needs a processor, which a card does not; with one alone, it shares that with the host.
PROCESSORS = sorted(os.sched_getaffinity(0))
THREADS = max(1, len(PROCESSORS) - 1)
# The desktop: GB/s of the CPU, of the card and of PCIe; TFLOPS; microseconds; and the model's bytes.
CPU_GBPS, CARD_GBPS, PCIE_GBPS, TFLOPS = 70, 1000, {16: 25, 8: 12.5}, 60
# Around those from which devices offer to take over products (32).
BATCHES = 8, 16, 24, 31, 32, 48, 96
LATENCIES = {"CARD_COPY_LATENCY_US": 8, "CARD_LAUNCH_US": 10, "CARD_KERNEL_US": 1.5}
LAYER_BYTES = 8 * 3 * 2048 * 768 * 18 / 32
ALL_BYTES = 48 * 128 / 8 * LAYER_BYTES
MEMORY_MIB = 8192
NO_TIME = {"CARD_H2D_GBPS": "1e6", "CARD_PAGEABLE_GBPS": "1e6", "CARD_MEM_GBPS": "1e6", "CARD_TFLOPS": "1e6", "CARD_MEMORY_MIB": "65536",
           **dict.fromkeys(LATENCIES, "0")}


def write_trace(path, experts, used, layers, tokens=4096, keep=0.35, seed=1):
    """Choices of routers: see above. Each layer has its own order of popularity."""
    r = random.Random(seed)
    weights = list(itertools.accumulate(1 / (i + 1) for i in range(experts)))
    orders = [r.sample(range(experts), experts) for _ in range(layers)]
    last, rows = [[] for _ in range(layers)], array.array("h")
    for _ in range(tokens):
        for layer, order in enumerate(orders):
            chosen = [e for e in last[layer] if r.random() < keep]
            while len(chosen) < used:
                e = order[bisect.bisect_left(weights, r.random() * weights[-1])]
                if e not in chosen:
                    chosen.append(e)
            last[layer] = chosen
            rows.extend(chosen)
    if sys.byteorder == "big":
        rows.byteswap()
    with open(path, "wb") as f:
        f.write(f"experts {experts} used {used} layers {layers} tokens {tokens}\n".encode())
        f.write(rows.tobytes())


class Bench:
    def __init__(self, a):
        self.a, self.libs = a, (a.ours, os.path.join(a.cache, "original/lib"))
        self.bin = os.path.join(a.cache, "hosts/bin")
        *host, last = PROCESSORS
        self.host, self.apart = (host, {"CARD_PROCESSOR": str(last)}) if host else ([last], {})
        self.folder = os.path.join(ROOT, "target/bench")
        self.card = compiled(f"{self.folder}/libcard.so", "card/card.c", "-O2", "-shared", "-fPIC", "-Wl,-z,nodelete", "-lpthread")
        self.shape, dense = (SMALL_EXPERTS, SMALL_DENSE) if a.small else (EXPERTS, DENSE)
        self.experts, self.dense = self.model("experts", self.shape), self.model("dense", dense)
        self.half = dense[2] // 2
        embd, ff, self.layers, _, _, experts, used = self.shape
        size = f"{experts}-{used}-{self.layers}"
        self.trace, self.zipf = a.trace or self.made(f"qwen3-{size}.trace", self.write_qwen3), self.made(f"zipf-{size}.trace", self.write_zipf)
        self.layer_bytes = gguf_file.size((used * 3 * embd * ff,), random_llama.TYPES[a.format])
        self.all_bytes = self.layer_bytes // used * experts * self.layers

    def made(self, name, write):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            write(path + ".part")
            os.replace(path + ".part", path)
        return path

    def write_qwen3(self, path):
        sizes = dict(zip(("layers", "experts", "used"), (self.shape[2], *self.shape[5:])))
        traces.write(path, traces.PROFILES["qwen3"] | sizes, 16, 0, 256, 1)

    def write_zipf(self, path):
        write_trace(path, *self.shape[5:], self.shape[2])

    def model(self, name, shape):
        folder = os.path.join(self.a.cache, "models")
        path = os.path.join(folder, f"card-{name}-{'-'.join(map(str, shape))}-{self.a.format}.gguf")
        if not os.path.exists(path):
            os.makedirs(folder, exist_ok=True)
            random_llama.llama(path + ".part", os.path.join(self.a.cache, "src/llama.cpp/models/ggml-vocab-llama-spm.gguf"), self.a.format, *shape)
            os.replace(path + ".part", path)
        return path

    def environment(self, lib, mode, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("CARD_", "GGML_RS_EXPERT"))}
        return env | {"LD_LIBRARY_PATH": f"{lib}:{self.bin}", "GGML_BACKEND_PATH": self.card, "GGML_DISABLE_VULKAN": "1", "CARD_MODE": mode,
                      "CARD_TRACE": self.trace, "GGML_VK_PIPELINE_CACHE_DIR": ""} | self.apart | more

    def run(self, lib, model, arguments, **variables):
        """Tokens per second of one test of llama-bench."""
        command = [f"{self.bin}/llama-bench", "-m", model, "-o", "json", "-t", str(THREADS), "-r", "3", *map(str, arguments)]
        r = subprocess.run(command, env=self.environment(lib, "timing", **variables), capture_output=True, text=True,
                           preexec_fn=lambda: os.sched_setaffinity(0, self.host))
        if r.returncode != 0 or "[" not in r.stdout:
            sys.exit(f"{' '.join(command)} on {lib}: status {r.returncode}: {r.stderr[-1000:]}")
        self.log = [line for line in r.stderr.splitlines() if line.startswith(("to_card", "from_card", "compute", "memory"))]
        return statistics.median(json.loads(r.stdout[r.stdout.index("["):])[0]["samples_ts"])

    def calibrate(self):
        """What the card is on this machine: variables of c_tests/card."""
        a, tests = self.a, ["-p", 0, "-n", self.a.text, "-ngl", 99, "-ncmoe", 99, "-lm", "none"]
        here, speed = (statistics.median(self.run(lib, self.experts, tests, **NO_TIME) for _ in range(a.turns)) for lib in self.libs)
        gbps = speed * self.layers * self.layer_bytes / 1e9
        rates, times = gbps / CPU_GBPS, self.layer_bytes / gbps / (LAYER_BYTES / CPU_GBPS)
        self.memory = MEMORY_MIB * self.all_bytes / ALL_BYTES
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors (other programs change the results)\n"
              f"this machine: {speed:.1f} tokens/s of text with all experts on the CPU and a card that takes no time ({here:.1f} with this library),\n"
              f"   {self.layers} layers of {self.layer_bytes / 1e6:.2f} MB of experts for a token: {gbps:.2f} GB/s; all experts: {self.all_bytes / 2**20:.0f} MiB\n"
              f"desktop: {CPU_GBPS} GB/s, a layer of {LAYER_BYTES / 1e6:.1f} MB in {LAYER_BYTES / CPU_GBPS / 1e3:.0f} us; here in {self.layer_bytes / gbps / 1e3:.0f} us\n"
              f"the card: speeds times {rates:.4f}: memory {CARD_GBPS * rates:.1f} GB/s, PCIe x16 {25 * rates:.2f} and x8 {12.5 * rates:.2f} GB/s, "
              f"{TFLOPS * rates:.2f} TFLOPS;\n   latencies times {times:.2f}: "
              + ", ".join(f"{k.removeprefix('CARD_').removesuffix('_US').lower().replace('_', ' ')} {v * times:.1f} us" for k, v in LATENCIES.items())
              + f"; {self.memory:.0f} MiB", flush=True)
        self.rates = rates
        return {"CARD_MEM_GBPS": CARD_GBPS * rates, "CARD_TFLOPS": TFLOPS * rates, **{k: v * times for k, v in LATENCIES.items()}}

    def case(self, name, model, arguments, card, trace=None, **only_ours):
        """Runs both libraries in turns, the first one changes; prints the ratio of the medians."""
        if self.a.only and not any(word in name for word in self.a.only):
            return
        card = {k: f"{v:.6g}" for k, v in card.items()} | {"CARD_LOG": "-", "CARD_TRACE": trace or self.trace}
        speeds, logs = ([], []), [[], []]
        for turn in range(self.a.turns):
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                speeds[side].append(self.run(self.libs[side], model, arguments, **card, **(only_ours if side == 0 else {})))
                logs[side] = self.log
        (ours, original), best = map(statistics.median, speeds), [max(side) for side in speeds]
        peaks = [next((int(line.split()[2]) for line in log if line.startswith("memory peak")), 0) / 2**20 for log in logs]
        print(f"{name}: {ours / original:.2f}   (tokens/s: {ours:.2f} here, {original:.2f} the original; best {best[0]:.2f}, {best[1]:.2f}; "
              f"memory of the card: {peaks[0]:.0f} and {peaks[1]:.0f} MiB)", flush=True)
        for side, log in zip(("here", "original"), logs):
            for line in log if self.a.verbose else ():
                print(f"   {side:8} {line}", flush=True)

    def values(self):
        """The largest difference of llama-results on the card from the same library's CPU, as NMSE."""
        prompt = " ".join(["The cat sits outside, and the dog plays in the garden."] * 4)
        for lib, side in zip(self.libs, ("here", "original")):
            def logits(name, *arguments):
                out = f"{self.folder}/card-{side}-{name}.gguf"
                subprocess.run([f"{self.bin}/llama-results", "-m", self.model("values", SMALL_EXPERTS), "-o", out, "-p", prompt, "-t", "2", *arguments],
                               env=self.environment(lib, "values"), check=True, capture_output=True)
                return gguf_file.numbers(out, b"logits")
            cpu = logits("cpu", "-dev", "none", "-ngl", "0", "--no-repack")
            for name, arguments in {"all": (), "experts": ("-ncmoe", "99"), "text": ("-ncmoe", "99", "-ub", "16"), "half": ("-ngl", "3")}.items():
                card = logits(name, "-dev", "CARD0", *(("-ngl", "99") if name != "half" else ()), *arguments)
                print(f"values, {name}, {side}: NMSE {sum((x - y)**2 for x, y in zip(card, cpu)) / sum(y * y for y in cpu):.1e}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("cache")
    p.add_argument("ours")
    p.add_argument("--turns", type=int, default=3)
    p.add_argument("--text", type=int, default=64)
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--shares", default="10,30")
    p.add_argument("--pcie", default="16")
    p.add_argument("--load", default="pinned")
    p.add_argument("--format", default="q4_0", choices=["q4_0", "q8_0"])
    p.add_argument("--trace")
    p.add_argument("--only", type=lambda words: words.split(","))
    for flag in ("--small", "--values", "--verbose"):
        p.add_argument(flag, action="store_true")
    a = p.parse_args()
    a.cache, a.ours = os.path.abspath(a.cache), os.path.abspath(a.ours)
    b = Bench(a)
    if a.values:
        b.values()
    card = b.calibrate()
    text, prompt = ["-p", 0, "-n", a.text], ["-p", a.prompt, "-n", 0]
    large = {"CARD_MEMORY_MIB": 65536}
    lanes = [int(n) for n in a.pcie.split(",")]
    for n, load in itertools.product(lanes, a.load.split(",")):
        bus = card | {"CARD_H2D_GBPS": PCIE_GBPS[n] * b.rates}
        where = f"{', x8' if n == 8 else ''}{', mmap' if load == 'mmap' else ''}"
        options = ["-lm", "none" if load == "pinned" else "mmap"]
        host = ["-ngl", 99, "-ncmoe", 99, *options]
        for share in map(float, a.shares.split(",")):
            cache = {"GGML_RS_EXPERT_CACHE": f"{share:g}%"} if share else {}
            for what, tests in (("text", text), ("text, Zipf", text), ("prompt", prompt)):
                b.case(f"{what}{where}, cache {share:g} %", b.experts, [*host, *tests], bus | {"CARD_MEMORY_MIB": b.memory},
                       trace=b.zipf if "Zipf" in what else b.trace, **cache)
        for what, tests in (("text", text), ("prompt", prompt)):
            b.case(f"half of a dense model, {what}{where}", b.dense, ["-ngl", b.half, *options, *tests], bus | large)
        # Times are kept for later starts: the first of some turns is a first start.
        costs = os.path.join(b.folder, "costs")
        shutil.rmtree(costs, ignore_errors=True)
        for tokens in BATCHES:
            b.case(f"half of a dense model, batch of {tokens}{where}", b.dense, ["-ngl", b.half, *options, "-p", tokens, "-n", 0], bus | large,
                   GGML_RS_OFFLOAD="cost", GGML_VK_PIPELINE_CACHE_DIR=costs)
    for what, tests in (("text", text), ("prompt", prompt)):
        b.case(f"dense model that fits, {what}", b.dense, ["-ngl", 99, *tests], card | large | {"CARD_H2D_GBPS": PCIE_GBPS[lanes[0]] * b.rates})
        b.case(f"experts that fit, {what}", b.experts, ["-ngl", 99, *tests], card | large | {"CARD_H2D_GBPS": PCIE_GBPS[lanes[0]] * b.rates})


if __name__ == "__main__":
    main()
