#!/usr/bin/env python3
"""make bench-cpu: llama.cpp's llama-bench on this library and on the original, in turns, with all instructions and with AVX2 only.

usage: cpu.py CACHE OURS [--short|--deep] [--level native|avx2] [--formats F16,Q4_0,...] [--rounds N] [--no-write]

CACHE is the folder of scripts/oracle.sh (hosts/bin, bench-native/lib, bench-avx2/lib, src), OURS the folder of the installed library's
lib. The model is a random llama of 200M parameters, quantized to each format. Each measurement runs with one library, then immediately with
the other; the order changes every round. There are as many threads as processors. Without --level, AVX2 is measured only on x86-64. Writes a
table between the marks of docs/BENCHMARKS.md: medians of tokens per second, and of the ratios of each pair (above 1: this library is faster).
Exit status 1 when a program fails.
"""
import argparse
import datetime
import glob
import json
import os
import platform
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
import page  # noqa: E402

FORMATS = ["F16", "Q8_0", "Q4_0", "Q4_K", "Q6_K", "IQ4_XS", "MXFP4"]
# Columns, feed-forward columns, layers, heads, heads of keys and values.
SIZE = ["1024", "2816", "12", "16", "4"]
LEVELS = {"native": "all instructions", "avx2": "AVX2 only"}
# Names of the results, and arguments of llama-bench: prompts of a few tokens are products with as many columns.
SHORT = [(["prompt 512"], ["-p", "512", "-n", "0"]), (["text"], ["-p", "0", "-n", "64"])]
COLUMNS = (2, 4, 8, 16, 32)
LONG = SHORT + [([f"{n} columns" for n in COLUMNS], ["-p", ",".join(map(str, COLUMNS)), "-n", "0", "-r", "10"])]
# Attention over a long context, in one format and one round: the cache is the same in all, and filling it takes most of the time.
DEEP = [(["prompt 512 at 4096"], ["-p", "512", "-n", "0", "-d", "4096"]), (["text at 4096"], ["-p", "0", "-n", "32", "-d", "4096"])]
DEEPER = [(["text at 16384"], ["-p", "0", "-n", "16", "-d", "16384"])]
DEEP_FORMAT = "Q4_K"


def models(cache, ours, formats):
    """Makes what is missing, and returns the path of each format's file."""
    folder = os.path.join(cache, "models")
    os.makedirs(folder, exist_ok=True)
    whole = os.path.join(folder, "bench-F16.gguf")
    if not os.path.exists(whole):
        vocabulary = os.path.join(cache, "src/llama.cpp/models/ggml-vocab-llama-spm.gguf")
        subprocess.run([sys.executable, os.path.join(page.ROOT, "scripts", "random_llama.py"), vocabulary, whole + ".part", "f16", *SIZE], check=True)
        os.replace(whole + ".part", whole)
    paths = {"F16": whole}
    for name in formats:
        path = paths.setdefault(name, os.path.join(folder, f"bench-{name}.gguf"))
        if not os.path.exists(path):
            # --pure: all matrices in this format; llama.cpp calls MXFP4 by the models that have it.
            kind = {"MXFP4": "MXFP4_MOE", "Q4_K": "Q4_K_S"}.get(name, name)
            subprocess.run([os.path.join(cache, "hosts/bin/llama-quantize"), "--pure", whole, path + ".part", kind],
                           env=dict(os.environ, LD_LIBRARY_PATH=ours), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            os.replace(path + ".part", path)
    return paths


def measure(cache, library, level, model, arguments):
    """Tokens per second of each measurement of one run of llama-bench."""
    env = dict(os.environ, LD_LIBRARY_PATH=library, GGML_DISABLE_VULKAN="1")
    env.pop("GGML_RS_CPU_LEVEL", None)
    if level:
        env["GGML_RS_CPU_LEVEL"] = level
    program = os.path.join(cache, "hosts/bin/llama-bench")
    command = [program, "-m", model, "-t", str(os.cpu_count()), "-o", "json", *arguments]
    if "-r" not in arguments:
        command += ["-r", "1"]
    run = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return [statistics.median(result["samples_ts"]) for result in json.loads(run.stdout)]


def table(level, times, rounds):
    """The results of one level as Markdown."""
    names = list(dict.fromkeys(name for _, name in times))
    at_depth = " (one at depth)" if any(" at " in name for name in names) else ""
    lines = [f"{LEVELS[level]}: tokens per second here / in the original, and the median ratio of {rounds} pairs{at_depth}.\n\n",
             "| | " + " | ".join(names) + " |\n", "|---" * (len(names) + 1) + "|\n"]
    for kind in dict.fromkeys(kind for kind, _ in times):
        cells = []
        for name in names:
            pairs = times.get((kind, name))
            if not pairs:
                cells.append("")
                continue
            ours, theirs = (statistics.median(side) for side in zip(*pairs))
            cells.append(f"{ours:.0f} / {theirs:.0f} = **{statistics.median(a / b for a, b in pairs):.2f}**")
        lines.append(f"| {kind} | " + " | ".join(cells) + " |\n")
    return "".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache")
    parser.add_argument("ours")
    parser.add_argument("--short", action="store_true", help="prompt and text in three formats")
    parser.add_argument("--deep", action="store_true", help="also text at 16384, which takes half an hour more")
    parser.add_argument("--level", choices=LEVELS, action="append")
    parser.add_argument("--formats", type=lambda s: s.split(","))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--no-write", action="store_true")
    a = parser.parse_args()
    formats = a.formats or (["F16", "Q8_0", "Q4_K"] if a.short else FORMATS)
    rounds = a.rounds or (1 if a.short else 3)
    levels = a.level or [level for level in LEVELS if level != "avx2" or platform.machine() == "x86_64"]
    originals = {level: os.path.join(a.cache, f"bench-{level}", "lib") for level in levels}
    for original in originals.values():
        # Without this library, the loader would take ours from the RUNPATH of llama-bench, and compare it with itself.
        if not glob.glob(os.path.join(original, "libggml-base.so*")):
            sys.exit(f"{original} has no libggml-base.so: build the original with scripts/oracle.sh bench")
    paths = models(a.cache, a.ours, formats)
    text = [f"{datetime.date.today().isoformat()}, {page.processor()}, {os.cpu_count()} threads, load {os.getloadavg()[0]:.1f}; `make bench-cpu`.\n\n"]
    for level, original in originals.items():
        times = {}
        for turn in range(rounds):
            for kind in formats:
                deep = DEEP + (DEEPER if a.deep else []) if turn == 0 and kind == DEEP_FORMAT and not a.short else []
                for names, arguments in (SHORT if a.short else LONG) + deep:
                    both = [None, None]
                    for side in (turn % 2, 1 - turn % 2):
                        library, forced = ((a.ours, "" if level == "native" else level), (original, ""))[side]
                        both[side] = measure(a.cache, library, forced, paths[kind], arguments)
                    for name, ours, theirs in zip(names, *both):
                        times.setdefault((kind, name), []).append((ours, theirs))
                        print(f"{level:7} {kind:8} {name:20} {ours:9.1f} {theirs:9.1f} {ours / theirs:6.2f}", flush=True)
        text.append(table(level, times, rounds))
    if a.no_write or a.short:
        print("".join(text), end="")
        return
    page.replace("cpu", "".join(text))


if __name__ == "__main__":
    main()
