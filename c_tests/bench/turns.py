#!/usr/bin/env python3
"""Runs ops.cpp's or gemv.c's program on two libraries in turns: turns.py PROGRAM OURS_LIB ORIGINAL_LIB [--turns N]
[arguments of the program]

Prints, for each line "NAME<tab>MICROSECONDS" of the program, the medians over the turns in microseconds and their ratio
(above 1: this library is faster), the slowest ratios first.
"""
import os
import statistics
import subprocess
import sys


def run(program, lib, arguments, **environment):
    env = dict(os.environ, LD_LIBRARY_PATH=lib, **environment)
    lines = subprocess.run([program, *arguments], env=env, capture_output=True, check=True, text=True).stdout.splitlines()
    return {name: float(us) for name, us in (line.split("\t") for line in lines)}


def main():
    program, *libs = sys.argv[1:4]
    arguments, turns = sys.argv[4:], 3
    if arguments[:1] == ["--turns"]:
        turns, arguments = int(arguments[1]), arguments[2:]
    times = [[], []]
    for turn in range(turns):
        # The first one changes: changes of the clock, and other programs, favour neither.
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            times[side].append(run(program, libs[side], arguments))
    rows = []
    for name in times[0][0]:
        if name not in times[1][0]:
            print(f"{name}: not in the original")
            continue
        here, there = (statistics.median(t[name] for t in side) for side in times)
        rows.append((there / here, name, here, there))
    print(f"{'':40} {'here us':>10} {'original us':>12} {'original / here':>16}")
    for ratio, name, here, there in sorted(rows):
        print(f"{name:40} {here:10.1f} {there:12.1f} {ratio:16.2f}")
    slower = sum(ratio < 1 for ratio, *_ in rows)
    print(f"{len(rows)} cases, {slower} of them slower than in the original")


if __name__ == "__main__":
    main()
