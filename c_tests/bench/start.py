#!/usr/bin/env python3
"""How long a host takes to find its devices, and how damaged files end: start.py OURS_LIB ORIGINAL_LIB.

Builds start.c and mutate.c against our headers and runs them on both libraries in turns, without Vulkan devices. Prints
the median and the fastest of 101 starts of the process in milliseconds, and the counts of 5,000 damaged files.
"""
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    libs = [os.path.abspath(p) for p in sys.argv[1:]]
    out = os.path.join(HERE, "../../target/bench-start")
    os.makedirs(out, exist_ok=True)
    for name in ("start", "mutate"):
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-O2", "-Wall", "-Wextra", "-I" + os.path.join(libs[0], "../include"), f"{HERE}/{name}.c",
                        "-o", f"{out}/{name}", "-L" + libs[0], "-Wl,-rpath-link," + libs[0], "-lggml", "-lggml-base"], check=True)
    times = {lib: [] for lib in libs}
    for _ in range(101):
        for lib in libs:
            env = dict(os.environ, LD_LIBRARY_PATH=lib, GGML_DISABLE_VULKAN="1")
            began = time.perf_counter()
            subprocess.run([f"{out}/start"], env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            times[lib].append(1e3 * (time.perf_counter() - began))
    for name, lib in zip(("here", "the original"), libs):
        damaged = subprocess.run([f"{out}/mutate", "5000"], env=dict(os.environ, LD_LIBRARY_PATH=lib), capture_output=True, text=True).stdout.strip()
        print(f"{name}: start {statistics.median(times[lib]):.1f} ms, fastest {min(times[lib]):.1f} ms; damaged files: {damaged}")


if __name__ == "__main__":
    main()
