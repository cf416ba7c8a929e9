#!/usr/bin/env python3
"""Fuzzing with libFuzzer and AddressSanitizer: fuzz.py [-t SECONDS | -h HOURS | -c] [TARGET ...]

Builds the targets of fuzz/ (a stable compiler is enough: RUSTC_BOOTSTRAP), then runs each over its seeds and over the
inputs that earlier runs found (target/fuzz/corpus). `cargo fuzz run TARGET` does the same if cargo-fuzz is installed.
Inputs that fail stay in target/fuzz/findings.

-t: seconds for each target (25). -h: all targets run at once. Their inputs are kept outside of the tree (FUZZ_OUT,
default ~/.cache/libggml-rs-fuzz), with the number of executions so far; inputs that reach nothing of their own are left
out first. -c: no search. The inputs that -h has kept, and the seeds, run once in a build that counts lines (rustup
component add llvm-tools), and the tables in docs/measurements/fuzz.md are written.

vulkan_node needs a software driver (the package mesa-vulkan-drivers), which must be the first device of
GGML_VK_VISIBLE_DEVICES (0). Without it, that target is left out; with GGML_TEST_VULKAN=1 it fails."""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import processes
from checks import Checks, markdown

ROOT = Path(processes.ROOT)
SEEDS, PAGE = ROOT / "fuzz/seeds", ROOT / "docs/measurements/fuzz.md"
TARGETS = sorted(folder.name for folder in SEEDS.iterdir())
HOST = processes.rust_host()
# As cargo-fuzz has it: coverage of branches with counters, and the sanitizer. Comparisons are not traced: that makes
# the build half as long again, and the seeds contain the magic numbers.
COVERAGE = ("--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters "
            "-Cllvm-args=-sanitizer-coverage-pc-table -Cforce-frame-pointers ")


class Fuzz(Checks):
    def __init__(self, targets, seconds, together=False, counts=False):
        super().__init__("fuzz")
        self.targets, self.seconds, self.together = targets, seconds, together
        kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "libggml-rs-fuzz")
        self.work = Path(os.environ.get("FUZZ_OUT") or (kept if together or counts else ROOT / "target/fuzz"))
        self.build = ROOT / f"target/fuzz/build{'-counts' if counts else ''}"
        self.flags, self.features = (COVERAGE + "-Cinstrument-coverage", "vulkan") if counts else (COVERAGE + "-Zsanitizer=address", "leaks,vulkan")
        self.running = set()
        for folder in ("findings", *(f"corpus/{target}" for target in targets)):
            (self.work / folder).mkdir(parents=True, exist_ok=True)

    def compile(self):
        print("building the fuzz targets ...", flush=True)
        env = dict(os.environ, RUSTC_BOOTSTRAP="1", RUSTFLAGS=self.flags)
        return subprocess.run(["cargo", "build", "--quiet", "--release", "--manifest-path", ROOT / "fuzz/Cargo.toml", "--target", HOST, "--target-dir", self.build,
                               "--features", self.features, "--bins"], env=env).returncode == 0

    def program(self, target):
        return self.build / HOST / "release" / target

    def run(self, target, log, *arguments, **variables):
        """Exit status, what a target says, and seconds of processor time."""
        with open(self.work / f"{target}{log}", "w+", encoding="utf-8", errors="replace") as f:
            process = subprocess.Popen([self.program(target), *arguments], env=dict(os.environ) | variables, stdout=f, stderr=subprocess.STDOUT)
            self.running.add(process)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.running.discard(process)
            f.seek(0)
            return process.returncode, f.read(), usage.ru_utime + usage.ru_stime

    def one(self, target):
        """What fuzzing finds out about one target: whether all is well, and a text."""
        found, seeds, findings = self.work / "corpus" / target, SEEDS / target, self.work / "findings"
        # A server's threads end while the next input runs, and the memory of a thread that is ending looks like a leak
        # then. So those targets are examined once, at the end of the process. A driver keeps what it has compiled,
        # which is no leak, and compiles for seconds.
        rpc, vulkan = target in ("rpc_client", "rpc_server"), target == "vulkan_node"
        if rpc:
            status, said, _ = self.run(target, ".leak.log", "-runs=1", "-detect_leaks=0", f"-artifact_prefix={self.work}/", FUZZ_LEAK="1", ASAN_OPTIONS="detect_leaks=1")
            if status == 0 or "ERROR: LeakSanitizer" not in said:
                return False, f"a leak is not found at the end of the process, see {self.work}/{target}.leak.log"
        # libFuzzer's limit for one input is in seconds of the clock, and a long run may have to wait for other programs
        # of the machine.
        patience = 900 if self.together or vulkan else 20
        # A request for more memory than there is must return an error of the library, so the sanitizer does not report
        # it. Freed memory is kept for a while, so that its use is seen: 16 MiB of it, which stay in the processor's
        # cache longer than 256. Each allocation is reported with eight callers. Frames that have returned are watched
        # in the short form only: each exception that ends a call of the library looks through all of them.
        options = (f"{'detect_stack_use_after_return=0:' * self.together}allocator_may_return_null=1:detect_leaks={int(not vulkan)}:abort_on_error=1:"
                   f"quarantine_size_mb=16:malloc_context_size=8:{os.environ.get('ASAN_OPTIONS', '')}")
        common = ("-max_len=4096", "-rss_limit_mb=3000", f"-timeout={patience}", f"-artifact_prefix={findings}/{target}-")
        if self.together and any(found.iterdir()):
            less = found.with_name(f"{target}.less")
            shutil.rmtree(less, ignore_errors=True)
            less.mkdir()
            status, _, _ = self.run(target, ".less.log", "-merge=1", less, found, seeds, *common, ASAN_OPTIONS=options)
            # An input that fails is kept: the run below fails on it, too.
            if status == 0 and any(less.iterdir()) and not any(findings.glob(f"{target}-*")):
                shutil.rmtree(found)
                less.rename(found)
        # The short form does the same on every machine, as far as it gets; with seed 0, libFuzzer takes another number
        # each time. The choice of inputs by how rare their paths are (-entropic) costs time for each of the many
        # counters.
        status, said, seconds = self.run(target, ".log", found, seeds, f"-max_total_time={self.seconds}", f"-report_slow_units={patience}", f"-seed={int(not self.together)}",
                                         f"-detect_leaks={int(not rpc and not vulkan)}", "-reload=0", "-entropic=0", "-print_final_stats=1", *common, ASAN_OPTIONS=options)
        runs = int((re.findall(r"^stat::number_of_executed_units: *(\d+)", said, re.M) or [0])[-1])
        # Of processor time: there is other work on the machine, and targets share it.
        speed = int(runs / (seconds or 1))
        if self.together:
            with open(self.work / f"{target}.runs", "a", encoding="utf-8") as f:
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
                    print(f"   ... fuzz: {took:.0f} s, about {max(whole - took, 0):.0f} s left, {len(list((self.work / 'findings').iterdir()))} findings so far", flush=True)
            except KeyboardInterrupt: # what they have found is kept
                pool.shutdown(wait=False, cancel_futures=True)
                for process in list(self.running):
                    process.kill()
                sys.exit(f"fuzz: interrupted; findings are in {self.work}/findings")
        for target, future in zip(self.targets, futures):
            good, text = future.result()
            self.check(good, f"fuzz {target}", text)

    def count(self):
        """The lines that the inputs of all targets reach, and the executions so far, in docs/measurements/fuzz.md."""
        tools = Path(processes.output("rustc", "--print", "sysroot").strip(), "lib/rustlib", HOST, "bin")
        if not self.check((tools / "llvm-cov").exists(), "llvm-cov is there (rustup component add llvm-tools)"):
            return
        profiles, data = self.work / "profiles", self.work / "all.profdata"
        shutil.rmtree(profiles, ignore_errors=True)
        for target in self.targets:
            status, _, _ = self.run(target, ".counts.log", self.work / "corpus" / target, SEEDS / target, "-runs=0", "-timeout=60", "-max_len=4096",
                                    LLVM_PROFILE_FILE=str(profiles / f"{target}.profraw"))
            if not self.check(status == 0, f"fuzz {target} runs over what is kept"):
                return
        subprocess.run([tools / "llvm-profdata", "merge", "-sparse", *profiles.iterdir(), "-o", data], check=True)
        first, *others = map(self.program, self.targets)
        counted = processes.output(tools / "llvm-cov", "export", "-summary-only", f"-instr-profile={data}", first, *(f"-object={other}" for other in others))
        before, known, after = re.split(r"(?<=<!-- fuzz: begin -->\n)|(?=<!-- fuzz: end -->)", PAGE.read_text(encoding="utf-8"))
        PAGE.write_text("\n".join([before + self.executions(known), coverage(json.loads(counted)["data"][0]["files"]) + after]), encoding="utf-8")

    def executions(self, page):
        """The table of all runs. Runs since the last update of the page are counted once."""
        rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \| ([\d,]*) \| ([\d,]+) \|$", page, re.M)
        known = {target: (int(n.replace(",", "")), speed, kept) for target, n, speed, kept in rows}
        for target in self.targets:
            n, speed, _ = known.get(target, (0, "", ""))
            log = self.work / f"{target}.runs"
            if log.exists():
                runs = [tuple(map(int, line.split())) for line in log.read_text().splitlines()]
                n, speed = n + sum(now for now, _ in runs), f"{runs[-1][1]:,}"
                log.rename(f"{log}.counted")
            known[target] = n, speed, f"{len(list((self.work / 'corpus' / target).iterdir())):,}"
        head = f"{time.strftime('%Y-%m-%d', time.gmtime())}, all runs of `make fuzz` so far, without a finding that is not mended (a second: of processor time, in the last run):\n\n"
        rows = [(f"`{target}`", f"{n:,}", speed, kept) for target, (n, speed, kept) in known.items()]
        return head + markdown(("target", "executions", "a second", "inputs kept"), [*rows, ("all", f"{sum(n for n, _, _ in known.values()):,}", "", "")])


def coverage(files):
    """The table of coverage, from what llvm-cov says."""
    found = collections.Counter()
    for file in files:
        if (path := Path(file["filename"])).is_relative_to(ROOT / "src"):
            folder = path.relative_to(ROOT / "src").parts[:-1] or ["."]
            found[folder[0], "count"] += file["summary"]["lines"]["count"]
            found[folder[0], "covered"] += file["summary"]["lines"]["covered"]
    rows = [(f"`{folder}`", f"{n:,}", f"{100 * found[folder, 'covered'] / max(n, 1):.0f} %") for (folder, what), n in sorted(found.items()) if what == "count"]
    return "Lines of the sources that these inputs and the seeds reach (`scripts/fuzz.py -c`):\n\n" + markdown(("folder of `src/`", "lines", "reached"), rows)


def without_driver(fuzz):
    """Whether vulkan_node has no software driver, and need not have one."""
    nothing = fuzz.work / "none" # an input that computes nothing
    nothing.write_bytes(b"\0")
    status, said, _ = fuzz.run("vulkan_node", ".log", nothing, ASAN_OPTIONS="detect_leaks=0")
    return status != 0 and "there is no software driver" in said and not os.environ.get("GGML_TEST_VULKAN")


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("-t", type=float, default=25)
    parser.add_argument("-h", type=float)
    parser.add_argument("-c", action="store_true")
    parser.add_argument("targets", nargs="*")
    o = parser.parse_args()
    fuzz = Fuzz(o.targets or TARGETS, int(o.h * 3600 if o.h else o.t), together=bool(o.h), counts=o.c)
    os.environ.setdefault("GGML_VK_VISIBLE_DEVICES", "0")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not fuzz.compile():
        fuzz.check(False, "the fuzz targets are built")
    else:
        if "vulkan_node" in fuzz.targets and not o.c and without_driver(fuzz):
            fuzz.skip("vulkan_node: no software driver for Vulkan (install mesa-vulkan-drivers)")
            fuzz.targets.remove("vulkan_node")
        fuzz.count() if o.c else fuzz.all()
    sys.exit(fuzz.finish())


if __name__ == "__main__":
    main()
