#!/usr/bin/env python3
"""Runs the library and its hosts under tools that watch memory and threads. docs/TESTS.md says what they must report.

usage: sanitizers.py asan | valgrind [NAME ...] | tsan [ROUNDS]

asan      AddressSanitizer and LeakSanitizer. The library is built with them (a stable compiler is enough:
          RUSTC_BOOTSTRAP; the standard library is not instrumented), and hosts with gcc, whose run-time library serves
          both: ten minutes of processor time. ASAN="units hosts" is the default; with `peers`, programs of the original
          run, too (after scripts/oracle.sh tests). ASAN=rpc: RPC alone, its unit tests and its host.
valgrind  Some minutes. NAMEs: some of the hosts. GGML_PREFIX is the library (default: target/install).
tsan      ThreadSanitizer. The library, fuzz/threads and the standard library are built with it. If the sources of the
          standard library are not available (the component rust-src of rustup), it is built without the sanitizer.
          scripts/tsan.supp says what the sanitizer does not see then, and why that does no harm. TSAN=card: experts
          and choices by cost on a simulated card, whose streams are threads; with these sources only.

Tests with a limit of memory, a replaced malloc or deadlines of milliseconds are left out: robust test_memory,
test_cancel and soak, async test_heap."""
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import processes
from checks import Checks

ROOT = Path(processes.ROOT)
HOSTS, RPC, LOADERS, MODULES = tomllib.loads((ROOT / "c_tests/sanitized.toml").read_text(encoding="utf-8")).values()
RACE = "WARNING: ThreadSanitizer: data race"
HOST = processes.rust_host()


class Tool(Checks):
    """A tool's folder and its checks."""

    def __init__(self, name):
        super().__init__(name)
        self.work = ROOT / "target" / name
        (self.work / "rs").mkdir(parents=True, exist_ok=True)

    def cargo(self, flags, *arguments, **variables):
        """Runs cargo with flags for a sanitizer -> whether it worked, and what it said."""
        env = dict(os.environ, RUSTC_BOOTSTRAP="1", RUSTFLAGS=flags) | variables
        r = subprocess.run(["cargo", *arguments, "--target", HOST], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if r.returncode != 0:
            print(r.stdout[-4000:])
        return r.returncode == 0, r.stdout

    def host(self, lib, name, line, *flags):
        """Compiles a host -> its command; None if that fails."""
        source, *arguments = line.split()
        try:
            return [processes.compiled(self.work / name, source, "-DGGML_RS", *flags, f"-L{lib}", f"-Wl,-rpath,{lib}", "-lggml", "-lggml-cpu", "-lggml-base",
                                       "-lm", "-lpthread", "-ldl"), *arguments]
        except subprocess.CalledProcessError:
            self.check(False, f"{name} compiles")

    def libraries(self, built):
        """A folder in which one library has all names: functions are all in this one."""
        lib = self.work / "lib"
        lib.mkdir(exist_ok=True)
        for name in ("libggml-base.so.0", "libggml.so", "libggml.so.0", "libggml-cpu.so", "libggml-cpu.so.0", "libggml-base.so"):
            (lib / name).unlink(missing_ok=True)
            (lib / name).symlink_to("libggml-base.so.0" if name != "libggml-base.so.0" else built)
        return lib

    def runs(self, name, command, good=lambda status, text: status == 0, **variables):
        """Counts whether a program ends as it must, with its own count, or what it says where it fails."""
        env = dict(os.environ, GGML_NO_BACKTRACE="1", GGML_DISABLE_VULKAN="1") | variables
        r = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        log = self.work / f"{name.replace(' ', '-')}.log"
        log.write_text(r.stdout, encoding="utf-8")
        lines = [l for l in r.stdout.splitlines() if re.search(r"ERROR|SUMMARY|WARNING|^FAIL|error:|^==|    #\d+ ", l)]
        counted = re.search(r"\d+ passed", r.stdout)
        said = f"{r.stdout.count(RACE)} races" if RACE in r.stdout else counted[0] if counted else ""
        passes = good(r.returncode, r.stdout)
        self.check(passes, name, said if passes else "\n".join([f"see {log}", *lines[:20]]))


def asan():
    c, what = Tool("asan"), os.environ.get("ASAN") or "units hosts"
    units, hosts, peers, rpc = (name in what for name in ("units", "hosts", "peers", "rpc"))
    work, lib, options = c.work, c.work / "lib", "allocator_may_return_null=1:exitcode=66:detect_leaks="

    def build(subcommand, *more):
        return c.cargo("-Zsanitizer=address -Cforce-frame-pointers", subcommand, "--release", "--lib", "--manifest-path", ROOT / "Cargo.toml", "--target-dir", work, *more,
                       CARGO_PROFILE_RELEASE_OPT_LEVEL="1")

    print("building with AddressSanitizer ...", flush=True)
    if (hosts or peers or rpc) and not c.check(build("rustc", "--quiet", "--crate-type", "cdylib")[0], "the library is built"):
        return c
    if units or rpc:
        good, text = build("test", "--no-run")
        if not c.check(good, "the unit tests are built"):
            return c
        unit = ROOT / re.search(r"^ *Executable .*\((.*)\)$", text, re.M)[1]
    c.libraries(work / HOST / "release/libggml.so")

    def silent(status, text):
        return status == 0 and not re.search(r"ERROR: (Address|Leak)Sanitizer", text)

    def try_(name, line, good=silent):
        command = c.host(lib, name, line.format(work=work, seeds=40, quick=""), "-fsanitize=address", "-fno-omit-frame-pointer")
        if command:
            c.runs(name, command, good, ASAN_OPTIONS=options + "1")

    # Unit tests: not what forks, limits its memory or ends its process.
    for modules in [["sys::", "capi::"]] * units + [["rpc::"]] * (units or rpc):
        c.runs(f"unit tests of {' '.join(m[:-2] for m in modules)}", [unit, *modules],
               lambda status, text: silent(status, text) and len(re.findall("^test result: ok. [1-9]", text, re.M)) == 1, ASAN_OPTIONS=options + "1")
    if peers:
        # The programs are not instrumented, so the run-time library is loaded before them.
        loaded = processes.output(os.environ.get("CC", "cc"), "-print-file-name=libasan.so").strip()
        c.runs("programs of the original", [sys.executable, ROOT / "scripts/test_peers.py", processes.cache(), lib, "programs"],
               PEERS_RUNNER=f"env LD_PRELOAD={loaded} ASAN_OPTIONS={options}0")
    if hosts or rpc:
        for name, report in (("overflow", "heap-buffer-overflow"), ("leak", "ERROR: LeakSanitizer")):
            try_(f"a seeded {name} is reported", f"asan/seeded.c {name}", lambda status, text: status == 66 and report in text)
        for name, line in ((HOSTS | RPC) if hosts else RPC).items():
            try_(name, line)
    return c


def valgrind(*names):
    c, lib = Tool("valgrind"), Path(os.environ.get("GGML_PREFIX") or ROOT / "target/install", "lib")
    if not c.check(shutil.which("valgrind"), "valgrind is there (the package valgrind)"):
        return c
    for name, flag in MODULES.items():
        processes.compiled(c.work / f"modules/{name}.so", "plugin/accel.c", "-shared", "-fPIC", flag, f"-L{lib}", "-lggml-base")
    (c.work / "modules/text.so").write_text("text\n")
    for name, line in (HOSTS | LOADERS).items():
        if names and name not in names:
            continue
        # Children of these end in the middle of something, with memory of the test.
        leaks = "no" if name in ("random-graphs", "logs") else "full"
        if command := c.host(lib, name, line.format(work=c.work, lib=lib, seeds=25, quick="quick")):
            c.runs(name, ["valgrind", "-q", "--error-exitcode=9", f"--leak-check={leaks}", "--errors-for-leak-kinds=definite", *command])
    return c


def tsan(rounds="300"):
    c, suppressions = Tool("tsan"), ""
    sources = Path(processes.output("rustc", "--print", "sysroot").strip(), "lib/rustlib/src/rust/library/Cargo.lock")

    def build(*more, manifest="fuzz/threads/Cargo.toml", **variables):
        flags = "--cfg ggml_tsan -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
        return c.cargo(flags, more[0], "--quiet", "--release", *more[1:], "--manifest-path", ROOT / manifest, "--target-dir", c.work / "build", **variables)[0]

    if not sources.exists() and shutil.which("rustup"):
        subprocess.run(["rustup", "component", "add", "rust-src"], capture_output=True)
    print("building with ThreadSanitizer ...", flush=True)
    if os.environ.get("TSAN") == "card":
        whole = build("rustc", "--lib", "--crate-type", "cdylib", "--no-default-features", "-Zbuild-std", manifest="Cargo.toml",
                      CARGO_PROFILE_RELEASE_OPT_LEVEL="1", CARGO_PROFILE_RELEASE_LTO="off", CARGO_PROFILE_RELEASE_CODEGEN_UNITS="16",
                      CARGO_PROFILE_RELEASE_DEBUG="line-tables-only")
        if c.check(sources.exists() and whole, "the library is built"):
            card(c, c.libraries(c.work / "build" / HOST / "release/libggml.so"))
        return c
    if not sources.exists() or not build("build", "-Zbuild-std"):
        print("note: the standard library is not built with ThreadSanitizer")
        suppressions = f"suppressions={ROOT}/scripts/tsan.supp"
        if not c.check(build("build"), "the library is built"):
            return c
    for name, argument in (("a seeded race of computations is reported", "tensor"), ("a seeded race of threads is reported", "region"),
                           ("stress", rounds), ("rpc", "rpc")):
        c.runs(name, [c.work / "build" / HOST / "release/libggml-rs-threads", argument],
               (lambda status, text: status == 66 and RACE in text) if "seeded" in name else (lambda status, _: status == 0),
               TSAN_OPTIONS=f"{suppressions} exitcode=66 halt_on_error=0")
    return c


def card(c, lib):
    """Hosts with a simulated card, all of it with ThreadSanitizer."""
    calls = processes.compiled(lib / "libthread_calls.so", "asan/thread_calls.c", "-fno-builtin", "-shared", "-fPIC")
    limits = processes.card(c.work, "-fsanitize=thread")
    reported = lambda status, text: status == 66 and RACE in text
    silent = lambda status, text: status == 0 and RACE not in text
    for name, line, more, good in (("a seeded race is reported", "asan/seeded.c race", {}, reported), ("experts", "card/test_experts.c CARD0", limits, silent),
                                   ("experts for a minute", "card/test_experts.c CARD0 soak 60", limits, silent),
                                   ("experts, lost", "card/test_experts.c CARD0 lost", limits | {"CARD_LOSE_AFTER": "100"}, silent)):
        command = c.host(lib, "card_host", line, "-g", "-fsanitize=thread", str(calls))
        if command:
            c.runs(name, command, good, TSAN_OPTIONS="exitcode=66 halt_on_error=0", **more)


def main():
    tools = {"asan": asan, "valgrind": valgrind, "tsan": tsan}
    if sys.argv[1:2] == [] or sys.argv[1] not in tools:
        sys.exit(__doc__)
    sys.exit(tools[sys.argv[1]](*sys.argv[2:]).finish())


if __name__ == "__main__":
    main()
