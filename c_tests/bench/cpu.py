#!/usr/bin/env python3
"""make bench-cpu: llama.cpp's llama-bench on this library and on the original, in turns, with all instructions, with
AVX2 only, and with AVX2 and AVX-VNNI where the processor has it.

usage: cpu.py CACHE OURS [--short|--deep] [--level native|avx2|avx_vnni] [--formats F16,Q4_0,...] [--rounds N]
[--no-write]

CACHE is the folder of scripts/oracle.sh (hosts/bin, bench-native/lib, bench-avx2/lib, src), OURS the folder of the
installed library's lib. The model is a random llama of 200M parameters, quantized to each format; "MoE" is one of 490M
parameters with 16 experts, of which a token uses 4; "1.1B" is larger than the caches, and its text shows how much of
the memory's speed is used. Products of 2048 x 2048 by 512 columns, on one thread, show how much of the processor's
speed the kernels use (gemv.c, built in target/bench, and ggml-info --peaks). encoders.c times the shapes of MiniLM and
of Whisper's encoder, and llama-completion a whole process from its start to the first token. Each measurement runs with
one library, then immediately with the other; the order changes every round. There are as many threads as processors.
Without --level, all levels are measured of which there is a build of the original. Writes a table between the marks of
docs/measurements/cpu.md: medians of tokens per second, and of the ratios of each pair (above 1: this library is
faster). Exit status 1 when a program fails.
"""
import argparse
import datetime
import glob
import json
import os
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import page  # noqa: E402
import turns  # noqa: E402

LARGE = "1.1B Q8_0"
FORMATS = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q6_K", "IQ4_XS", "MXFP4", "MoE Q8_0", "MoE Q4_K", "MoE IQ4_XS", LARGE]
# Columns, feed-forward columns, layers, heads, heads of keys and values.
SIZE = ["1024", "2816", "12", "16", "4"]
LARGE_SIZE = ["2048", "5632", "22", "32", "4"]
EXPERTS = ["1024", "1024", "8", "16", "4", "16", "4"]
MANY_EXPERTS = ["768", "384", "6", "12", "4", "64", "4"]
LEVELS = {"native": "all instructions", "avx2": "AVX2 only", "avx_vnni": "AVX2 and AVX-VNNI"}
# Names of the results, and arguments of llama-bench: prompts of a few tokens are products with as many columns.
SHORT = [(["prompt 512"], ["-p", "512", "-n", "0"]), (["text"], ["-p", "0", "-n", "64"])]
COLUMNS = (2, 4, 8, 16, 32)
LONG = SHORT + [([f"{n} columns" for n in COLUMNS], ["-p", ",".join(map(str, COLUMNS)), "-n", "0", "-r", "10"])]
# Attention over a long context, in one format and one round: the cache is the same in all, and filling it takes most of
# the time.
DEEP = [(["prompt 512 at 4096"], ["-p", "512", "-n", "0", "-d", "4096"]), (["text at 4096"], ["-p", "0", "-n", "32", "-d", "4096"])]
DEEPER = [(["prompt 512 at 16384"], ["-p", "512", "-n", "0", "-d", "16384"]), (["text at 16384"], ["-p", "0", "-n", "16", "-d", "16384"])]
DEEP_FORMAT = "Q4_K"


def models(cache, ours, formats):
    """Makes what is missing, and returns the path of each format's file."""
    folder = os.path.join(cache, "models")
    os.makedirs(folder, exist_ok=True)
    vocabulary = os.path.join(cache, "src/llama.cpp/models/ggml-vocab-llama-spm.gguf")
    paths = {}
    for model in formats:
        *kind, name = model.split()
        stem, size = {"MoE": ("bench-moe", EXPERTS), "MoE64": ("bench-moe64", MANY_EXPERTS), "1.1B": ("bench-large", LARGE_SIZE)}.get("".join(kind), ("bench", SIZE))
        whole = os.path.join(folder, stem + "-F16.gguf")
        if not os.path.exists(whole):
            subprocess.run([sys.executable, os.path.join(page.ROOT, "scripts", "random_llama.py"), vocabulary, whole + ".part", "f16", *size], check=True)
            os.replace(whole + ".part", whole)
        path = paths.setdefault(model, os.path.join(folder, f"{stem}-{name}.gguf"))
        if not os.path.exists(path):
            # --pure: all matrices in this format; llama.cpp calls MXFP4 by the models that have it.
            kind = {"MXFP4": "MXFP4_MOE", "Q4_K": "Q4_K_S"}.get(name, name)
            subprocess.run([os.path.join(cache, "hosts/bin/llama-quantize"), "--pure", whole, path + ".part", kind],
                           env=dict(os.environ, LD_LIBRARY_PATH=ours), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            os.replace(path + ".part", path)
    return paths


# The kinds of products by level, as ggml-info names them, the fastest first: of floats, of bfloat16s, of bytes.
# With AMX a product of halves is four of bfloat16s.
AMX_F16 = "AMX BF16, 4 for one"
PRODUCTS = {"native": (["FMA 512", "FMA 256"], ["AMX BF16", "BF16 512"], ["VNNI 512", "VNNI 256", "bytes 256"], [AMX_F16]),
            "avx2": (["FMA 256"], [], ["bytes 256"], []), "avx_vnni": (["FMA 256"], [], ["VNNI 256"], [])}
KERNELS = {"f32": 0, "f16": 3, "bf16": 1, "q8_0": 2, "q4_0": 2, "q5_0": 2, "q2_K": 2, "q3_K": 2, "q4_K": 2, "q5_K": 2, "q6_K": 2, "iq4_xs": 2, "mxfp4": 2}
PRODUCT = (2048, 2048, 512)


def lines(program, library, level, *arguments):
    """The numbers that a program of this folder prints, by name."""
    return turns.run(os.path.join(page.ROOT, "target/bench", program), library, map(str, arguments), GGML_RS_CPU_LEVEL=level, GGML_DISABLE_VULKAN="1")


def kernels(ours, original, level, peaks):
    """The products of one level, alone, as Markdown."""
    forced = "" if level == "native" else level
    both = [lines("gemv", library, f, *PRODUCT, 7) for library, f in ((ours, forced), (original, ""))]
    k, m, n = PRODUCT
    text = [f"Products of {k} x {m} by {n} columns, one thread: 10^9 operations per second, per cent of the processor's peak, and of that in the original.\n\n",
            "| | here | of the peak | the original | of the peak |\n|---|---|---|---|---|\n"]
    for name, kind in KERNELS.items():
        known = [p for p in PRODUCTS[level][kind] + PRODUCTS[level][0] * (kind in (1, 3)) if p in peaks]
        here, there = (2e-3 * k * m * n / side[name] for side in both)
        share = lambda speed: f"{100 * speed / peaks[known[0]]:.0f} % ({known[0]})"
        text.append(f"| {name.upper()} | {here:.0f} | {share(here)} | {there:.0f} | {share(there)} |\n")
        print("".join(text[-1]), end="", flush=True)
    return "".join(text) + "\n"


def median_table(head, names, pairs, number):
    """A table of medians and of the median ratio of each pair (there / here: times)."""
    text = [head, "| | here | the original | original / here |\n|---|---|---|---|\n"]
    for name in names:
        here, there = (statistics.median(side) for side in zip(*pairs[name]))
        ratio = statistics.median(b / a for a, b in pairs[name])
        text.append(f"| {name} | {number(here)} | {number(there)} | **{ratio:.2f}** |\n")
        print(text[-1], end="", flush=True)
    return "".join(text) + "\n"


def in_turns(rounds, measure):
    """What `measure(side)` returns by name, for this library (0) and the original (1), in pairs by name."""
    pairs = {}
    for turn in range(rounds):
        both = [None, None]
        for side in (turn % 2, 1 - turn % 2):
            both[side] = measure(side)
        for name in both[0]:
            pairs.setdefault(name, []).append((both[0][name], both[1][name]))
    return pairs


def encoders(ours, original, level, rounds):
    """MiniLM and Whisper's encoder, as Markdown."""
    sides = (ours, "" if level == "native" else level), (original, "")
    pairs = in_turns(rounds, lambda side: lines("encoders", *sides[side], os.cpu_count()))
    return median_table(f"Encoders with random weights, {os.cpu_count()} threads, milliseconds.\n\n", list(pairs), pairs, lambda us: f"{1e-3 * us:.1f}")


STARTS = ["F16", "Q8_0", "Q4_K"]


def starts(cache, ours, original, level, paths, rounds):
    """Seconds from the start of a process to its first token, with the file in the page cache, as Markdown."""
    def seconds(side):
        forced = "" if level == "native" or side == 1 else level
        env = dict(os.environ, LD_LIBRARY_PATH=(ours, original)[side], GGML_DISABLE_VULKAN="1", GGML_RS_CPU_LEVEL=forced)
        times = {}
        for name in (name for name in STARTS if name in paths):
            command = [os.path.join(cache, "hosts/bin/llama-completion"), "-m", paths[name], "-p", "Once", "-n", "1", "-no-cnv", "--no-warmup",
                       "-t", str(os.cpu_count())]
            start = time.monotonic()
            subprocess.run(command, env=env, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            times[name] = time.monotonic() - start
        return times
    pairs = in_turns(max(3, rounds), seconds)
    return median_table("llama-completion from its start to its end with one token, milliseconds (weights are interleaved while they are loaded).\n\n", list(pairs), pairs,
                        lambda s: f"{1e3 * s:.0f}")


def bandwidth(paths, times, peaks):
    """How fast the text of the large model reads its weights, as a sentence."""
    pairs = times.get((LARGE, "text"))
    if not pairs:
        return ""
    size, peak = os.path.getsize(paths[LARGE]), peaks["read, all threads"]
    here, there = (1e-9 * size * statistics.median(side) for side in zip(*pairs))
    return (f"Text of {LARGE} ({size / 1e9:.2f} GB) reads {here:.1f} GB/s of weights, the original {there:.1f}; this machine reads {peak:.1f} GB/s "
            f"({100 * here / peak:.0f} % and {100 * there / peak:.0f} %).\n\n")


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
    parser.add_argument("--deep", action="store_true", help="also prompts and text at 16384, which takes ten minutes more")
    parser.add_argument("--level", choices=LEVELS, action="append")
    parser.add_argument("--formats", type=lambda s: s.split(","))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--no-write", action="store_true")
    a = parser.parse_args()
    formats = a.formats or (["F16", "Q8_0", "Q4_K"] if a.short else FORMATS)
    rounds = a.rounds or (1 if a.short else 3)
    # Not every processor has all levels: scripts/oracle.sh builds those of this one.
    levels = a.level or [level for level in LEVELS if level == "native" or os.path.isdir(os.path.join(a.cache, f"bench-{level}"))]
    originals = {level: os.path.join(a.cache, f"bench-{level}", "lib") for level in levels}
    for original in originals.values():
        # Without this library, the loader would take ours from the RUNPATH of llama-bench, and compare it with itself.
        if not glob.glob(os.path.join(original, "libggml-base.so*")):
            sys.exit(f"{original} has no libggml-base.so: build the original with scripts/oracle.sh bench")
    paths = models(a.cache, a.ours, formats)
    peaks = lines("peak", a.ours, "")
    if "AMX BF16" in peaks:
        peaks[AMX_F16] = peaks["AMX BF16"] / 4
    known = ", ".join(f"{name} {number:.0f}" for name, number in peaks.items() if not name.startswith("read"))
    text = [f"{datetime.date.today().isoformat()}, {page.processor()}, {os.cpu_count()} threads, load {os.getloadavg()[0]:.1f}; `make bench-cpu`.\n\n"
            f"Peaks of one thread (ggml-info --peaks), 10^9 operations per second: {known}. Reading: {peaks['read, 1 thread']:.1f} GB/s with one thread, "
            f"{peaks['read, all threads']:.1f} with all.\n\n"]
    for level, original in originals.items():
        times = {}
        for turn in range(rounds):
            for kind in formats:
                deep = DEEP + (DEEPER if a.deep else []) if turn == 0 and kind == DEEP_FORMAT and not a.short else []
                for names, arguments in SHORT[1:] if kind == LARGE else (SHORT if a.short else LONG) + deep:
                    both = [None, None]
                    for side in (turn % 2, 1 - turn % 2):
                        library, forced = ((a.ours, "" if level == "native" else level), (original, ""))[side]
                        both[side] = measure(a.cache, library, forced, paths[kind], arguments)
                    for name, ours, theirs in zip(names, *both):
                        times.setdefault((kind, name), []).append((ours, theirs))
                        print(f"{level:7} {kind:8} {name:20} {ours:9.1f} {theirs:9.1f} {ours / theirs:6.2f}", flush=True)
        text.append(table(level, times, rounds) + bandwidth(paths, times, peaks))
        text.append(kernels(a.ours, original, level, peaks))
        text.append(encoders(a.ours, original, level, rounds))
        text.append(starts(a.cache, a.ours, original, level, paths, rounds))
    if a.no_write or a.short:
        print("".join(text), end="")
        return
    page.replace("cpu", "".join(text), page.CPU)


if __name__ == "__main__":
    main()
