#!/usr/bin/env python3
"""Runs gemv.c's program on two libraries in turns: gemv.py PROGRAM OURS_LIB ORIGINAL_LIB [TURNS [k rows columns rounds]]

Prints, for each format, the medians over the turns in microseconds and their ratio (above 1: this library is faster).
"""
import os
import statistics
import subprocess
import sys


def run(program, lib, arguments):
    env = dict(os.environ, LD_LIBRARY_PATH=lib)
    lines = subprocess.run([program, *arguments], env=env, capture_output=True, check=True, text=True).stdout.split("\n")
    return {name: float(us) for name, us in (line.split() for line in lines if line)}


def main():
    program, *libs = sys.argv[1:4]
    turns, arguments = int(sys.argv[4]) if len(sys.argv) > 4 else 5, sys.argv[5:]
    times = [[], []]
    for _ in range(turns):
        for side in (0, 1):
            times[side].append(run(program, libs[side], arguments))
    print(f"{'format':8} {'here us':>9} {'original us':>12} {'original / here':>16}")
    for name in times[0][0]:
        a, b = (statistics.median(t[name] for t in side) for side in times)
        print(f"{name:8} {a:9.0f} {b:12.0f} {b / a:16.2f}")


main()
