#!/usr/bin/env python3
"""Memory, and models that are larger than it, against the original: memory.py CACHE OURS_LIB [options]
For each format, in turns, medians: peak memory of llama-bench (resident), also of the original without repacking; the
time of a process that computes one prompt of 8 or 256 tokens, with and without the file in the system's cache; and
tokens of text per second in memory cgroups of several sizes (in parts of the model's file). Cgroups need root: without
it, a line says that they were left out. Prints a table, as docs/BENCHMARKS.md has it.
"""
import argparse
import contextlib
import datetime
import os
import re
import statistics
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
import cpu  # noqa: E402
import page  # noqa: E402

FORMATS = ["Q8_0", "Q4_K", "IQ4_XS", "MoE64 Q8_0"]
LIMITS = [0.7, 0.85, 1.0, 1.3, 2.0]
# A process that takes longer has no result.
LONGEST = 180
MIB = 1 << 20


class Group:
    """A memory cgroup, version 1 or 2."""

    def __init__(self):
        first, second = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
        self.version = 1 if os.path.isdir(first) else 2
        self.path = os.path.join(first if self.version == 1 else second, "libggml-rs-bench")
        os.makedirs(self.path, exist_ok=True)
        self.limit = os.path.join(self.path, "memory.limit_in_bytes" if self.version == 1 else "memory.max")
        if not os.path.exists(self.limit):
            os.rmdir(self.path)
            raise OSError("no controller of memory")

    def set(self, size):
        if self.version == 1:
            # Pages that an earlier process has left in the cache count for this one.
            with contextlib.suppress(OSError), open(os.path.join(self.path, "memory.force_empty"), "w") as f:
                f.write("1")
        with open(self.limit, "w") as f:
            f.write(str(size))

    def enter(self):
        with open(os.path.join(self.path, "cgroup.procs"), "w") as f:
            f.write(str(os.getpid()))

    def close(self):
        with contextlib.suppress(OSError):
            os.rmdir(self.path)


class Host:
    """llama-bench on one library."""

    def __init__(self, cache, library, level):
        self.program = os.path.join(cache, "hosts/bin/llama-bench")
        self.env = dict(os.environ, LD_LIBRARY_PATH=f"{library}:{os.path.dirname(self.program)}", GGML_RS_CPU_LEVEL=level, GGML_DISABLE_VULKAN="1")

    def run(self, path, arguments, group=None):
        """Returns the speed that it prints (None if there is none), seconds, and peak memory in bytes."""
        begun = time.monotonic()
        process = subprocess.Popen([self.program, "-m", path, "-r", "1", *arguments], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   text=True, preexec_fn=group.enter if group else None)
        watch = threading.Timer(LONGEST, process.kill)
        watch.start()
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        watch.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        speed = re.search(r"\|\s+([\d.]+) ± ", output)
        return float(speed[1]) if speed and process.returncode == 0 else None, time.monotonic() - begun, usage.ru_maxrss << 10


def forget(path):
    """Drops the file from the system's cache."""
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def median(values):
    known = [v for v in values if v is not None]
    return statistics.median(known) if len(known) * 2 > len(values) else None


def cell(ours, theirs, form, less_is_better=False):
    """Both medians and their ratio: how many times as fast, or what part of the memory or the time."""
    a, b = median(ours), median(theirs)
    text = " / ".join("–" if v is None else form.format(v) for v in (a, b))
    if a is None or b is None:
        return text
    return f"{text} = **{a / b:.2f}**" + (" of it" if less_is_better else "")


def in_turns(hosts, rounds, what):
    results = [[] for _ in hosts]
    for turn in range(rounds):
        for side in range(len(hosts)) if turn % 2 == 0 else reversed(range(len(hosts))):
            results[side].append(what(hosts[side]))
    return results


def table(paths, hosts, rounds, group, limits):
    lines = ["| | " + " | ".join(paths) + " |\n|---|" + "---|" * len(paths) + "\n"]

    def row(name, make):
        cells = []
        for kind, path in paths.items():
            cells.append(make(path))
            print(f"{name:44} {kind:12} {cells[-1]}", flush=True)
        lines.append(f"| {name} | " + " | ".join(cells) + " |\n")

    row("model file, MiB", lambda path: f"{os.path.getsize(path) / MIB:.0f}")

    def peak(path, others):
        run = lambda host: host[0].run(path, ["-p", "8", "-n", "8", *host[1]])[2] / MIB
        return cell(*in_turns([(hosts[0], []), (hosts[1], others)], rounds, run), "{:.0f}", True)

    row("peak memory, MiB, with defaults", lambda path: peak(path, []))
    row("the same, the original without repacking", lambda path: peak(path, ["--repack", "0"]))

    def start(path, tokens, is_cold):
        def run(host):
            if is_cold:
                forget(path)
            return 1e3 * host.run(path, ["-p", str(tokens), "-n", "0", "--no-warmup"])[1]

        hosts[0].run(path, ["-p", "1", "-n", "0"])
        return cell(*in_turns(hosts, rounds, run), "{:.0f}", True)

    for tokens in (8, 256):
        for is_cold in (False, True):
            name = f"process that computes {tokens} tokens, file {'not ' if is_cold else ''}in the cache, ms"
            row(name, lambda path, tokens=tokens, is_cold=is_cold: start(path, tokens, is_cold))
    if group is None:
        return "".join(lines) + "\nText in memory cgroups: not measured, it needs root.\n"

    def text(path, limit):
        def run(host):
            group.set(int(limit * os.path.getsize(path)))
            forget(path)
            return host.run(path, ["-p", "0", "-n", "24"], group)[0]

        return cell(*in_turns(hosts, rounds, run), "{:.1f}")

    for limit in limits:
        row(f"text in a cgroup of {limit} times the model, tokens/s", lambda path, limit=limit: text(path, limit))
    return "".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache")
    parser.add_argument("ours")
    parser.add_argument("--formats", type=lambda s: s.split(","), default=FORMATS)
    parser.add_argument("--limits", type=lambda s: [float(x) for x in s.split(",") if x], default=LIMITS)
    parser.add_argument("--level", choices=cpu.LEVELS, default="native")
    parser.add_argument("--rounds", type=int, default=3)
    a = parser.parse_args()
    group = None
    try:
        group = Group()
    except OSError as why:
        print(f"no memory cgroup: {why}")
    paths = cpu.models(a.cache, a.ours, a.formats)
    level = "" if a.level == "native" else a.level
    hosts = [Host(a.cache, a.ours, level), Host(a.cache, os.path.join(a.cache, f"bench-{a.level}", "lib"), "")]
    head = (f"{datetime.date.today().isoformat()}, {page.processor()}, {os.cpu_count()} threads, load {os.getloadavg()[0]:.1f}, {cpu.LEVELS[a.level]}; "
            f"`make bench-memory`; here / the original, medians of {a.rounds}.\n\n")
    try:
        text = head + table(paths, hosts, a.rounds, group, a.limits)
    finally:
        if group:
            group.close()
    print(text, end="")


if __name__ == "__main__":
    main()
