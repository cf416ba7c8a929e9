#!/usr/bin/env python3
"""Runs the library and its hosts under tools that watch memory and threads.

usage: sanitizers.py asan | valgrind [NAME ...] | tsan [ROUNDS]

asan      AddressSanitizer and LeakSanitizer. The library is built with them (a stable compiler is enough:
          RUSTC_BOOTSTRAP; the standard library is not instrumented), and hosts with gcc, whose run-time library serves
          both. A seeded overflow and a seeded leak, both inside the library, must be reported, so that a set-up which
          finds nothing fails. Then everything fails once in a scheduler (c_tests/async/test_faults.c), and hosts run:
          that must be silent. So must the unit tests of modules that handle pointers of C (`sys`, `capi`), and those of
          RPC's client and server. On demand: the builds take ten minutes of processor time. ASAN="units hosts" is the
          default; with `peers`, programs of the original run, too (after scripts/oracle.sh tests). ASAN=rpc: RPC alone,
          its unit tests and its host. ASAN_BUILT=1: uses the last builds.
valgrind  Invalid accesses, values that were never written, and blocks that are lost, in the library and in hosts of it
          (NAMEs: some of them). GGML_PREFIX is the library (default: target/install). On demand: it takes minutes.
tsan      ThreadSanitizer. The library, fuzz/threads and the standard library are built with it: two seeded races must
          be reported, and the stress test and the RPC server with its clients must not be. If the sources of the
          standard library are not available (the component rust-src of rustup), it is built without the sanitizer.
          scripts/tsan.supp says what the sanitizer does not see then, and why that does no harm.

Tests with a limit of memory, a replaced malloc or deadlines of milliseconds are left out: robust test_memory,
test_cancel and soak, async test_heap. The last line counts the checks."""
import os
import re
import shutil
import subprocess
import sys
import tomllib

from checks import Checks
from processes import ROOT, cache, compiled

with open(f"{ROOT}/c_tests/sanitized.toml", "rb") as table:
    HOSTS, RPC, LOADERS, MODULES = tomllib.load(table).values()
REPORTED = re.compile(r"ERROR: (Address|Leak)Sanitizer")
HOST = re.search(r"^host: (.*)", subprocess.run(["rustc", "-vV"], capture_output=True, text=True).stdout, re.M)[1]


def cargo(flags, *arguments, **variables):
    """Runs cargo with flags for a sanitizer -> whether it worked, and what it said."""
    env = dict(os.environ, RUSTC_BOOTSTRAP="1", RUSTFLAGS=flags) | variables
    r = subprocess.run(["cargo", *arguments, "--target", HOST], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if r.returncode != 0:
        print(r.stdout[-4000:])
    return r.returncode == 0, r.stdout


def said(command, log, **variables):
    """Exit status of a program, and what it said."""
    env = dict(os.environ, GGML_NO_BACKTRACE="1", GGML_DISABLE_VULKAN="1") | variables
    r = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    with open(log, "w", encoding="utf-8") as f:
        f.write(r.stdout)
    return r.returncode, r.stdout


def result(c, good, name, text, log):
    """Counts a program: its own count, or what it says where it fails."""
    passed = re.search(r"\d+ passed", text)
    lines = [l for l in text.splitlines() if re.search(r"ERROR|SUMMARY|WARNING|^FAIL|error:|^==|    #\d+ ", l)]
    c.check(good, name, (passed[0] if passed else "") if good else "\n".join([f"see {log}", *lines[:20]]))


def host(c, work, lib, name, line, *flags):
    """Compiles a host -> its command; None if that fails."""
    source, *arguments = line.split()
    try:
        return [compiled(f"{work}/{name}", source, "-DGGML_RS", *flags, f"-L{lib}", f"-Wl,-rpath,{lib}", "-lggml", "-lggml-cpu", "-lggml-base",
                         "-lm", "-lpthread", "-ldl"), *arguments]
    except subprocess.CalledProcessError:
        c.check(False, f"{name} compiles")


def asan(c):
    work, what = f"{ROOT}/target/asan", os.environ.get("ASAN") or "units hosts"
    flags, lib = "-Zsanitizer=address -Cforce-frame-pointers", f"{work}/lib"
    for folder in (lib, f"{work}/rs"):
        os.makedirs(folder, exist_ok=True)

    def build(subcommand, *more):
        return cargo(flags, subcommand, "--release", "--lib", "--manifest-path", f"{ROOT}/Cargo.toml", "--target-dir", work, *more,
                     CARGO_PROFILE_RELEASE_OPT_LEVEL="1")

    if not os.environ.get("ASAN_BUILT"):
        print("building with AddressSanitizer ...", flush=True)
        if ("hosts" in what or "peers" in what or "rpc" in what) and not c.check(build("rustc", "--quiet", "--crate-type", "cdylib")[0], "the library is built"):
            return
        if "units" in what or "rpc" in what:
            good, text = build("test", "--no-run")
            if not c.check(good, "the unit tests are built"):
                return
            unit = re.search(r"^ *Executable .*\((.*)\)$", text, re.M)[1]
            shutil.copy(os.path.join(ROOT, unit), f"{work}/units")
    # All functions are in this one; the files beside it only lead there.
    for name, target in {"libggml-base.so.0": f"{work}/{HOST}/release/libggml.so",
                         **dict.fromkeys(("libggml.so", "libggml.so.0", "libggml-cpu.so", "libggml-cpu.so.0", "libggml-base.so"), "libggml-base.so.0")}.items():
        if os.path.lexists(f"{lib}/{name}"):
            os.remove(f"{lib}/{name}")
        os.symlink(target, f"{lib}/{name}")
    options = "allocator_may_return_null=1:exitcode=66:detect_leaks="

    def try_(name, line, report=None):
        command, log = host(c, work, lib, name, line.format(work=work, seeds=40, quick=""), "-fsanitize=address", "-fno-omit-frame-pointer"), f"{work}/{name}.log"
        if command:
            status, text = said(command, log, ASAN_OPTIONS=options + "1")
            good = status == 66 and report in text if report else status == 0 and not REPORTED.search(text)
            result(c, good, f"{name} is reported" if report else name, text, log)

    # Unit tests: not what forks, limits its memory or ends its process.
    for modules in [["sys::", "capi::"]] * ("units" in what) + [["rpc::"]] * ("units" in what or "rpc" in what):
        log = f"{work}/units-{modules[0][:-2]}.log"
        status, text = said([f"{work}/units", *modules], log, ASAN_OPTIONS=options + "1")
        good = status == 0 and not REPORTED.search(text) and len(re.findall("^test result: ok. [1-9]", text, re.M)) == 1
        result(c, good, f"unit tests of {' '.join(m[:-2] for m in modules)}", text, log)
    if "peers" in what:
        # The programs are not instrumented, so the run-time library is loaded before them.
        loaded = subprocess.run([os.environ.get("CC", "cc"), "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
        status, text = said([sys.executable, f"{ROOT}/scripts/test_peers.py", cache(), lib, "programs"], f"{work}/peers.log",
                            PEERS_RUNNER=f"env LD_PRELOAD={loaded} ASAN_OPTIONS={options}0")
        result(c, status == 0, "programs of the original", text, f"{work}/peers.log")
    if "hosts" in what or "rpc" in what:
        try_("seeded-overflow", "asan/seeded.c overflow", "heap-buffer-overflow")
        try_("seeded-leak", "asan/seeded.c leak", "ERROR: LeakSanitizer")
        for name, line in ((HOSTS | RPC) if "hosts" in what else RPC).items():
            try_(name, line)


def valgrind(c, *names):
    work, lib = f"{ROOT}/target/valgrind", os.path.join(os.environ.get("GGML_PREFIX") or f"{ROOT}/target/install", "lib")
    if not c.check(shutil.which("valgrind"), "valgrind is there (the package valgrind)"):
        return
    for name, flag in MODULES.items():
        compiled(f"{work}/modules/{name}.so", "plugin/accel.c", "-shared", "-fPIC", flag, f"-L{lib}", "-lggml-base")
    with open(f"{work}/modules/text.so", "w", encoding="utf-8") as f:
        f.write("text\n")
    os.makedirs(f"{work}/rs", exist_ok=True)
    for name, line in (HOSTS | LOADERS).items():
        command, log = not names or name in names, f"{work}/{name}.log"
        if command and (command := host(c, work, lib, name, line.format(work=work, lib=lib, seeds=25, quick="quick"))):
            # Children of these end in the middle of something, with memory of the test.
            leaks = "no" if name in ("random-graphs", "logs") else "full"
            status, text = said(["valgrind", "-q", "--error-exitcode=9", f"--leak-check={leaks}", "--errors-for-leak-kinds=definite", *command], log)
            result(c, status == 0, name, text, log)


def tsan(c, rounds="300"):
    work, flags = f"{ROOT}/target/tsan", "--cfg ggml_tsan -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
    os.makedirs(work, exist_ok=True)
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True).stdout.strip()
    sources, suppressions = f"{sysroot}/lib/rustlib/src/rust/library/Cargo.lock", ""

    def build(*more):
        return cargo(flags, "build", "--quiet", "--release", *more, "--manifest-path", f"{ROOT}/fuzz/threads/Cargo.toml", "--target-dir", f"{work}/build")[0]

    if not os.path.exists(sources) and shutil.which("rustup"):
        subprocess.run(["rustup", "component", "add", "rust-src"], capture_output=True)
    print("building with ThreadSanitizer ...", flush=True)
    if not os.path.exists(sources) or not build("-Zbuild-std"):
        print("note: the standard library is not built with ThreadSanitizer")
        suppressions = f"suppressions={ROOT}/scripts/tsan.supp"
        if not c.check(build(), "the library is built"):
            return
    for name, loud, argument in (("seeded race of computations", True, "tensor"), ("seeded race of threads", True, "region"),
                                 ("stress", False, rounds), ("rpc", False, "rpc")):
        log = f"{work}/{argument}.log"
        status, text = said([f"{work}/build/{HOST}/release/libggml-rs-threads", argument], log, TSAN_OPTIONS=f"{suppressions} exitcode=66 halt_on_error=0")
        races = text.count("WARNING: ThreadSanitizer: data race")
        result(c, status == 66 and races > 0 if loud else status == 0, f"{name}: {races} races reported, {'some' if loud else 'none'} expected", text, log)


def main():
    tools = {"asan": asan, "valgrind": valgrind, "tsan": tsan}
    if sys.argv[1:2] == [] or sys.argv[1] not in tools:
        sys.exit(__doc__)
    c = Checks(sys.argv[1])
    tools[sys.argv[1]](c, *sys.argv[2:])
    sys.exit(c.finish())


if __name__ == "__main__":
    main()
