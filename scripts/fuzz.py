#!/usr/bin/env python3
"""Fuzzing with libFuzzer and AddressSanitizer: fuzz.py [-t SECONDS | -h HOURS | -c] [TARGET ...]

Builds the targets of fuzz/ (a stable compiler will do: RUSTC_BOOTSTRAP), then runs each over its seeds and over what earlier runs found
(target/fuzz/corpus). `cargo fuzz run TARGET` does the same where cargo-fuzz is at hand. What fails stays in target/fuzz/findings. With -h all targets run at
once, and what they find is kept outside of the tree (FUZZ_OUT, default ~/.cache/libggml-rs-fuzz), with the number of executions so far; inputs that reach
nothing of their own are left out first. With -c nothing is searched: the inputs that -h has kept, and the seeds, run once in a build that counts lines
(rustup component add llvm-tools), and the tables in docs/TESTS.md are written. FUZZ_BUILT=1: the targets as they were built last. vulkan_node needs a
software driver (the package mesa-vulkan-drivers), which must be the first device of GGML_VK_VISIBLE_DEVICES (0). Without it, that target is left out; with
GGML_TEST_VULKAN=1 it fails. The last line counts the targets."""
import collections
import concurrent.futures
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from checks import Checks, between, replace
from processes import ROOT

TARGETS = ("gguf_read gguf_sources gguf_write_read quantize ops cpu_node scheduler alloc lies opt meta text rpc_message rpc_server rpc_client "
           "vulkan_node").split()
PAGE = f"{ROOT}/docs/TESTS.md"
HOST = re.search(r"^host: (.*)", subprocess.run(["rustc", "-vV"], capture_output=True, text=True).stdout, re.M)[1]
# As cargo-fuzz has it: coverage of branches with counters, and the sanitizer. Comparisons are not traced: that makes the build half
# as long again, and the seeds hold the magic numbers.
COVERAGE = ("--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters "
            "-Cllvm-args=-sanitizer-coverage-pc-table -Cforce-frame-pointers ")


class Fuzz(Checks):
    def __init__(self, targets, seconds, together=False, counts=False):
        super().__init__("fuzz")
        self.targets, self.seconds, self.together = targets, seconds, together
        kept = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "libggml-rs-fuzz")
        self.work = os.environ.get("FUZZ_OUT") or (kept if together or counts else f"{ROOT}/target/fuzz")
        self.build = f"{ROOT}/target/fuzz/build{'-counts' if counts else ''}"
        self.flags, self.features = (COVERAGE + "-Cinstrument-coverage", "vulkan") if counts else (COVERAGE + "-Zsanitizer=address", "leaks,vulkan")
        self.running = set()
        os.makedirs(f"{self.work}/findings", exist_ok=True)

    def compile(self):
        if os.environ.get("FUZZ_BUILT"):
            return True
        print("building the fuzz targets ...", flush=True)
        env = dict(os.environ, RUSTC_BOOTSTRAP="1", RUSTFLAGS=self.flags)
        return subprocess.run(["cargo", "build", "--quiet", "--release", "--manifest-path", f"{ROOT}/fuzz/Cargo.toml", "--target", HOST, "--target-dir", self.build,
                               "--features", self.features, "--bins"], env=env).returncode == 0

    def program(self, target):
        return f"{self.build}/{HOST}/release/{target}"

    def run(self, target, log, *arguments, **variables):
        """Exit status, what a target says, and seconds of processor time."""
        with open(f"{self.work}/{target}{log}", "w+", encoding="utf-8", errors="replace") as f:
            process = subprocess.Popen([self.program(target), *arguments], env=dict(os.environ) | variables, stdout=f, stderr=subprocess.STDOUT)
            self.running.add(process)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.running.discard(process)
            f.seek(0)
            return process.returncode, f.read(), usage.ru_utime + usage.ru_stime

    def one(self, target):
        """What fuzzing finds out about one target: whether all is well, and a text."""
        found, seeds, finding = f"{self.work}/corpus/{target}", f"{ROOT}/fuzz/seeds/{target}", f"{self.work}/findings/{target}-"
        os.makedirs(found, exist_ok=True)
        # A server's threads end beside the next input, and what a thread that is ending owns looks like a leak then: those targets are examined once, at
        # the end of the process. A driver keeps what it has compiled, which is no leak, and compiles for seconds.
        rpc, vulkan = target in ("rpc_client", "rpc_server"), target == "vulkan_node"
        if rpc:
            status, said, _ = self.run(target, ".leak.log", "-runs=1", "-detect_leaks=0", f"-artifact_prefix={self.work}/",
                                       FUZZ_LEAK="1", ASAN_OPTIONS="detect_leaks=1")
            if status == 0 or "ERROR: LeakSanitizer" not in said:
                return False, f"a leak is not found at the end of the process, see {self.work}/{target}.leak.log"
        # libFuzzer's limit for one input is in seconds of the clock, and a long run may have to wait for what else the machine does.
        patience = 900 if self.together or vulkan else 20
        # What a host may be about is memory: a request for more than there is must come back as an error, so it is not the sanitizer's. What is freed is
        # kept for a while, so that its use is seen: 16 MiB of it, which stay in the processor's cache longer than 256. Eight callers name who took it.
        # Frames that have returned are watched in the short form only: each exception that ends a call of the library looks through all of them.
        options = (f"{'detect_stack_use_after_return=0:' * self.together}allocator_may_return_null=1:detect_leaks={int(not vulkan)}:abort_on_error=1:"
                   f"quarantine_size_mb=16:malloc_context_size=8:{os.environ.get('ASAN_OPTIONS', '')}")
        common = ("-max_len=4096", "-rss_limit_mb=3000", f"-timeout={patience}", f"-artifact_prefix={finding}")
        if self.together and os.listdir(found):
            less = f"{found}.less"
            shutil.rmtree(less, ignore_errors=True)
            os.mkdir(less)
            status, _, _ = self.run(target, ".less.log", "-merge=1", less, found, seeds, *common, ASAN_OPTIONS=options)
            if status == 0 and os.listdir(less) and not glob.glob(finding + "*"): # an input that fails is kept: the run below fails on it, too
                shutil.rmtree(found)
                os.rename(less, found)
        # The short form does the same on every machine, as far as it gets; seed 0: another number each time. The choice of inputs by how rare their
        # paths are (-entropic) costs time for each of the many counters.
        status, said, seconds = self.run(target, ".log", found, seeds, f"-max_total_time={self.seconds}", f"-report_slow_units={patience}",
                                         f"-seed={int(not self.together)}", f"-detect_leaks={int(not rpc and not vulkan)}", "-reload=0", "-entropic=0",
                                         "-print_final_stats=1", *common, ASAN_OPTIONS=options)
        runs = int((re.findall(r"^stat::number_of_executed_units: *(\d+)", said, re.M) or [0])[-1])
        # Of processor time: there is other work on the machine, and targets share it.
        speed = int(runs / (seconds or 1))
        if self.together:
            with open(f"{self.work}/{target}.runs", "a", encoding="utf-8") as f:
                f.write(f"{runs} {speed}\n")
        if status == 0 and runs > (10 if vulkan else 100):
            return True, f"{runs} executions, {speed} a second of processor time, {(re.findall(r'cov: [0-9]+ ft: [0-9]+', said) or [''])[-1]}"
        lines = [l for l in said.splitlines() if re.search("ERROR|panicked|SUMMARY|Test unit written", l)]
        return False, "\n".join([f"status {status} after {runs} executions, see {self.work}/{target}.log", *lines[:8]])

    def all(self):
        """All at once, or as many as there are processors. Says every 30 seconds (BEAT) how long is left."""
        at_once = len(self.targets) if self.together else os.cpu_count() or 1
        begin, whole = time.monotonic(), -(-len(self.targets) // at_once) * self.seconds
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            futures = [pool.submit(self.one, target) for target in self.targets]
            try:
                while concurrent.futures.wait(futures, float(os.environ.get("BEAT", 30))).not_done:
                    took = time.monotonic() - begin
                    findings = len(os.listdir(f"{self.work}/findings"))
                    print(f"   ... fuzz: {took:.0f} s, about {max(whole - took, 0):.0f} s left, {findings} findings so far", flush=True)
            except KeyboardInterrupt: # what they have found is kept
                pool.shutdown(wait=False, cancel_futures=True)
                for process in list(self.running):
                    process.kill()
                sys.exit(f"fuzz: interrupted; findings are in {self.work}/findings")
        for target, future in zip(self.targets, futures):
            good, text = future.result()
            self.check(good, f"fuzz {target}", text)

    def count(self):
        """The lines that the inputs of all targets reach, and the executions so far, in docs/TESTS.md."""
        tools = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True).stdout.strip() + f"/lib/rustlib/{HOST}/bin"
        if not self.check(os.path.exists(f"{tools}/llvm-cov"), "llvm-cov is there (rustup component add llvm-tools)"):
            return
        shutil.rmtree(f"{self.work}/profiles", ignore_errors=True)
        for target in self.targets:
            os.makedirs(f"{self.work}/corpus/{target}", exist_ok=True)
            status, _, _ = self.run(target, ".counts.log", f"{self.work}/corpus/{target}", f"{ROOT}/fuzz/seeds/{target}", "-runs=0", "-timeout=60", "-max_len=4096",
                                    LLVM_PROFILE_FILE=f"{self.work}/profiles/{target}.profraw")
            if not self.check(status == 0, f"fuzz {target} runs over what is kept"):
                return
        data, first, *others = f"{self.work}/all.profdata", *map(self.program, self.targets)
        subprocess.run([f"{tools}/llvm-profdata", "merge", "-sparse", *glob.glob(f"{self.work}/profiles/*.profraw"), "-o", data], check=True)
        counted = subprocess.run([f"{tools}/llvm-cov", "export", "-summary-only", f"-instr-profile={data}", first, *(a for o in others for a in ("-object", o))],
                                 check=True, capture_output=True, text=True).stdout
        replace(PAGE, "fuzz", "\n".join(self.executions() + lines(json.loads(counted)["data"][0]["files"])))

    def executions(self):
        """The table of all runs. Those since the page was last written are counted once, whoever writes it next."""
        rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \| ([\d,]*) \| ([\d,]+) \|$", between(PAGE, "fuzz"), re.M)
        known = {target: (int(n.replace(",", "")), speed, kept) for target, n, speed, kept in rows}
        for target in self.targets:
            n, speed, kept = known.get(target, (0, "", "0"))
            if os.path.exists(path := f"{self.work}/{target}.runs"):
                with open(path, encoding="utf-8") as f:
                    runs = [tuple(map(int, line.split())) for line in f]
                n, speed = n + sum(now for now, _ in runs), f"{runs[-1][1]:,}"
                os.rename(path, path + ".counted")
            known[target] = n, speed, f"{len(os.listdir(f'{self.work}/corpus/{target}')):,}"
        return [f"{time.strftime('%Y-%m-%d', time.gmtime())}, all runs of `make fuzz` so far, without a finding that is not mended "
                "(a second: of processor time, in the last run):", "",
                "| target | executions | a second | inputs kept |", "|---|---|---|---|",
                *(f"| `{target}` | {n:,} | {speed} | {kept} |" for target, (n, speed, kept) in known.items()),
                f"| all | {sum(n for n, _, _ in known.values()):,} | | |"]


def lines(files):
    """The table of coverage, from what llvm-cov says."""
    found = collections.defaultdict(lambda: [0, 0])
    for file in files:
        folder, _, name = os.path.relpath(file["filename"], f"{ROOT}/src").rpartition("/")
        if not folder.startswith(".."):
            where = found[folder.split("/")[0] or "."]
            where[0] += file["summary"]["lines"]["covered"]
            where[1] += file["summary"]["lines"]["count"]
    return ["", "Lines of the sources that these inputs and the seeds reach (`scripts/fuzz.py -c`):", "", "| folder of `src/` | lines | reached |", "|---|---|---|",
            *(f"| `{where}` | {n:,} | {100 * covered / max(n, 1):.0f} % |" for where, (covered, n) in sorted(found.items()))]


def without_driver(fuzz):
    """Whether vulkan_node has no software driver, and need not have one."""
    with open(f"{fuzz.work}/none", "wb") as f: # an input that computes nothing
        f.write(b"\0")
    status, said, _ = fuzz.run("vulkan_node", ".log", f"{fuzz.work}/none", ASAN_OPTIONS="detect_leaks=0")
    return status != 0 and "there is no software driver" in said and not os.environ.get("GGML_TEST_VULKAN")


def main():
    mode, arguments, number = sys.argv[1:2], sys.argv[1:], 25
    if mode in (["-t"], ["-h"]):
        number, arguments = float(sys.argv[2]), sys.argv[3:]
    elif mode == ["-c"]:
        arguments = sys.argv[2:]
    fuzz = Fuzz(arguments or TARGETS, int(number * 3600 if mode == ["-h"] else number), together=mode == ["-h"], counts=mode == ["-c"])
    os.environ.setdefault("GGML_VK_VISIBLE_DEVICES", "0")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not fuzz.compile():
        fuzz.check(False, "the fuzz targets are built")
    else:
        if "vulkan_node" in fuzz.targets and mode != ["-c"] and without_driver(fuzz):
            fuzz.skip("vulkan_node: no software driver for Vulkan (install mesa-vulkan-drivers)")
            fuzz.targets = [t for t in fuzz.targets if t != "vulkan_node"]
        fuzz.count() if mode == ["-c"] else fuzz.all()
    sys.exit(fuzz.finish())


if __name__ == "__main__":
    main()
