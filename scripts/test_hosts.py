#!/usr/bin/env python3
"""Runs unmodified llama.cpp hosts on this library and on the original ggml and compares what they give.

The hosts are built once, against this library, and run on the original with LD_LIBRARY_PATH alone. The original's own
test programs, built against the original, run on this library the same way: the swap works both ways.
"""
import glob
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import gguf_file
import processes
import random_llama
from hosts import LONG_PROMPT, PROMPT, SENTENCES, alike, main, nmse

FORMATS = ["Q8_0", "Q4_0", "Q4_K", "Q6_K", "IQ4_XS"]
# What the original gives for the first sentence (MiniLM F32).
KNOWN = (0.1393, 0.0029, 0.0470)


def warnings(t):
    """Files that warned when they were built are compiled against the original's headers, too. What they say only with
    ours is a warning of ours."""
    for tree, what in (("hosts", "llama.cpp 0.8.0's tools build"), ("tests", "the older llama.cpp's tests and server build")):
        with open(os.path.join(t.cache, tree, "all.log"), errors="replace") as f:
            named = set(re.findall(r"^(/[^:\n]+):\d+:\d+: warning:", f.read(), re.M))
        with open(os.path.join(t.cache, tree, "compile_commands.json")) as f:
            commands = [c for c in json.load(f) if c["file"] in named]
        ours = [f"{path}: warns" for path in named if path.startswith(os.path.join(t.cache, "ours/"))]
        for command in commands:
            said = []
            for include in ("ours/include", "original/include"):
                line = re.sub(r" -o \S+", " -o /dev/null", command["command"].replace(os.path.join(t.cache, "ours/include"), os.path.join(t.cache, include)))
                r = subprocess.run(line, shell=True, cwd=command["directory"], capture_output=True, text=True)
                said.append(set(re.findall(r"warning:.*", r.stderr)))
            ours += [f"{os.path.basename(command['file'])}: {w}" for w in said[0] - said[1]]
        t.check(not ours, f"{what} against the installed headers without a warning of theirs", "; ".join(ours[:5]))


def embedding(t):
    ours, original = (t.embeddings(side) for side in t.libs)
    if not ours or not original:
        return
    t.check(all(abs(a - b) < 1e-4 for a, b in zip(ours[0], KNOWN)), f"llama-embedding of \"{SENTENCES[0]}\"",
            ", ".join(f"{x:.4f}" for x in ours[0][:3]) + ", ...")
    t.check(alike(ours, original) >= 0.99999, "cosine with the original on ten sentences", f"at least {alike(ours, original):.7f}")


def results(t):
    for kind in ("f32", "f16"):
        for writer, checker in (("original", "ours"), ("ours", "original")):
            arguments = ("-m", t.random_llama(kind), "-o", t.model(f"results-{kind}-{writer}"), "-p", PROMPT, "-t", 2)
            if t.run(writer, "llama-results", *arguments) is not None:
                t.results(checker, f"{kind.upper()}, written by {writer}, checked by {checker}", *arguments)


def quantized(t):
    """llama-quantize gives the original's file. The logits of a file are as near to those of the dequantized model as
    the original's."""
    for kind in FORMATS:
        ours, model, plain = t.quantized("ours", kind, again=True), t.quantized("original", kind), t.dequantized("original", kind)
        if not (ours and model and plain):
            continue
        with open(ours, "rb") as a, open(model, "rb") as b:
            a, b = a.read(), b.read()
        same = sum(x == y for x, y in zip(a[::7], b[::7])) / len(b[::7])
        t.check(len(a) == len(b) and same > 0.99, f"llama-quantize to {kind} gives the original's file",
                f"{'byte for byte' if a == b else f'{100 * same:.3f} % of the bytes'}")
        logits = [t.logits(side, path, prompt=LONG_PROMPT) for side, path in (("original", plain), ("original", model), ("ours", model))]
        if all(logits):
            reference, original, ours = (numbers[::13] for numbers in logits)
            a, b = nmse(reference, ours), nmse(reference, original)
            t.check(a <= b * 1.01, f"{kind}: logits as near to those of the dequantized model as the original's",
                    f"NMSE {a:.3e}, original {b:.3e}")


def alignments(t):
    """Hosts that copy the keys of a file and pad the data themselves, to 32 bytes whatever the file had: what they
    write reads back."""
    noise = random.Random(3)
    # Sizes that are a multiple of no alignment above 4.
    shapes = {b"a": [5], b"b": [7, 3], b"c": [9, 5, 3], b"d": [1], b"e": [331]}
    tensors = {name: (dims, 0, noise.randbytes(4 * math.prod(dims))) for name, dims in shapes.items()}
    pairs = gguf_file.values({"general.architecture": "llama"})

    def have(paths, wanted, what):
        """Checks that some files have these tensors and no others."""
        try:
            found = {name: tensor for path in paths for name, tensor in gguf_file.read(path)[1].items()}
            t.sound(what, [n.decode() for n in {*found, *wanted} if found.get(n) != wanted.get(n)])
        except (OSError, ValueError, KeyError) as e:
            t.check(False, what, str(e))

    model, small = gguf_file.read(t.random_llama("f32")), gguf_file.read(t.quantized("ours", "Q8_0"))[1]
    for alignment in (8, 16, 32, 64, 256, 4096, 1 << 21):
        with tempfile.TemporaryDirectory(dir=t.models) as folder:
            source, split, merged, llama, quantized = (os.path.join(folder, f"{name}.gguf") for name in ("source", "split", "merged", "llama", "quantized"))
            gguf_file.write(llama, *model, alignment)
            if t.run("ours", "llama-quantize", llama, quantized, "Q8_0", 2) is not None:
                have([quantized], small, f"llama-quantize: from a file aligned to {alignment} as from any other")
            gguf_file.write(source, pairs, tensors, alignment)
            if t.run("ours", "llama-gguf-split", "--split", "--split-max-tensors", 3, source, split) is None:
                continue
            pieces = sorted(glob.glob(split + "-*"))
            t.check(len(pieces) == 2, f"llama-gguf-split: a file aligned to {alignment} in two pieces")
            have(pieces, tensors, f"llama-gguf-split: a file aligned to {alignment} in pieces has its data")
            if t.run("ours", "llama-gguf-split", "--merge", pieces[0], merged) is not None:
                have([merged], tensors, f"llama-gguf-split: merged again from {alignment}")


def text_of(t, model, *arguments, **variables):
    """What llama-completion writes."""
    return t.run("ours", "llama-completion", "-m", model, "-p", "Once upon a time", "--temp", 0, "-no-cnv", "--no-display-prompt", *arguments, **variables)


def completion(t):
    texts = [text_of(t, t.random_llama("f16"), "-n", 32, "--no-warmup", "-t", threads) for threads in (2, 2, 1)]
    if None not in texts:
        t.check(len(texts[0].strip()) > 20, "llama-completion generates text", repr(texts[0].strip()[:40]))
        t.check(texts[0] == texts[1], "llama-completion at temperature 0 gives the same text in two runs")
        t.check(texts[0] == texts[2], "llama-completion gives the same text with 1 and 2 threads")


def reported(path, limit):
    """Whether a placement report says where the weights of a mapped model are, and why: all in memory, or half of
    them."""
    with open(path, encoding="utf-8") as f:
        weights = json.load(f)["weights"]
    os.remove(path)
    of = {b["buffer_type"]: b for b in weights["buffers"]}
    repacked, memory = of.get("CPU_REPACK", {}), weights["memory"] or {}
    parts = ("mapped_bytes", "copied_bytes", "interleaved_bytes", "device_bytes")
    good = repacked.get("interleaved_bytes") == repacked.get("bytes") and any(b["mapped_bytes"] for b in of.values())
    good = good and all(sum(b[p] for p in parts) == b["bytes"] and 0 <= b["resident_bytes"] <= b["bytes"] for b in of.values())
    # Small tensors are copied.
    good = good and memory["away_bytes"] + memory["in_memory_bytes"] == repacked["from_file_bytes"] >= 0.9 * repacked["bytes"]
    # Without a limit, a process may end before it has interleaved anything.
    good = good and memory.get("limit_bytes") == limit and (memory["read_bytes"] > 0 or limit is None) and memory["waited_seconds"] >= 0
    if limit is not None:
        # What is not in memory is said; large pages may have a little more than that.
        good = good and memory["away_bytes"] > 0 and memory["in_memory_bytes"] <= limit and "GGML_RS_CPU_COPIES" in memory["decision"]
    if not good:
        print(json.dumps(weights, indent=1))
    return good, f"a placement report says where weights are, {'with a limit' if limit else 'without a limit'}"


def copies(t):
    """Weights that do not fit into memory are read again for each token, and give the same text."""
    for kind in ("Q8_0", "Q4_K"):
        model = t.quantized("ours", kind)
        if not model:
            continue
        report, half = os.path.join(t.models, f"weights-{kind}.json"), str(os.path.getsize(model) // 2)

        def text(mode, **variables):
            return text_of(t, model, "-n", 16, "-t", 2, "-lm", mode, **variables)

        usual = text("mmap", GGML_SCHED_REPORT=report)
        t.check(*reported(report, None))
        others = {"none of the weights stays in memory": text("mmap", GGML_RS_CPU_COPIES="0"),
                  "half of the weights stay in memory": text("mmap", GGML_RS_CPU_COPIES=half, GGML_SCHED_REPORT=report),
                  "the file is not mapped": text("none", GGML_RS_CPU_COPIES="0")}
        t.check(*reported(report, int(half)))
        for name, other in others.items():
            t.check(usual is not None and other == usual, f"llama-completion with {kind} gives the same text when {name}")


def perplexity(t):
    """How well the model foretells a text, by llama-perplexity, with and without a LoRA adapter: the same number from
    both libraries."""
    text, adapter = os.path.join(t.models, "text.txt"), t.made("lora-f16", lambda out: random_llama.lora(out, "f16", 8))
    with open(text, "w") as f:
        f.write(" ".join(SENTENCES * 24))

    def estimate(side, *arguments):
        out = t.run(side, "llama-perplexity", "-f", text, "-c", 128, "-b", 128, "-t", 2, *arguments)
        said = re.search(r"Final estimate: PPL = ([0-9.]+)", (out or "") + t.stderr)
        return said and float(said[1])

    for kind in ("f16", "Q4_0"):
        model, plain = t.quantized("original", kind), None
        for what, more in (("", ()), (", LoRA", ("--lora", adapter))):
            found = {side: model and estimate(side, "-m", model, *more) for side in t.libs}
            good = all(found.values()) and abs(found["ours"] / found["original"] - 1) < 2e-3
            # An adapter that is not applied changes nothing.
            t.check(good and found["original"] != plain, f"llama-perplexity, {kind}{what}: as with the original",
                    ", ".join(f"{side} {value:.4f}" for side, value in found.items() if value))
            plain = found["original"]


def python(t):
    """llama-cpp-python: its modules as in the package, and in its folder `lib` its llama.cpp with the files of one
    library or the other."""
    packages, why = processes.packages("python", "numpy", "diskcache", "jinja2", "typing-extensions")
    if why:
        t.skip(f"llama-cpp-python: {why}")
        return
    said = {}
    for side, libraries in t.libs.items():
        with tempfile.TemporaryDirectory(dir=t.models) as place:
            shutil.copytree(os.path.join(t.cache, "src/llama_cpp"), os.path.join(place, "llama_cpp"))
            lib = os.path.join(place, "llama_cpp/lib")
            os.mkdir(lib)
            for path in glob.glob(f"{libraries}/libggml*.so*") + glob.glob(f"{t.cache}/tests/bin/libllama*.so*"):
                shutil.copy(path, lib, follow_symlinks=False)
            # libllama.so knows the folder that it was linked in; one from pip finds its own.
            printed = t.run(side, sys.executable, f"{processes.ROOT}/c_tests/foreign/python_host.py", t.random_llama("f32"), PROMPT,
                            LD_LIBRARY_PATH=lib, PYTHONPATH=place + os.pathsep + packages)
        if printed is None:
            return
        said[side] = json.loads(printed.strip().splitlines()[-1])
    ours, original = said["ours"], said["original"]
    t.check(ours["ours"] and not original["ours"], "llama-cpp-python loads the library in its folder")
    error = nmse(original["numbers"], ours["numbers"])
    t.check(len(ours["numbers"]) == len(original["numbers"]) and ours["tokens"] > 10 and error < 1e-6, "llama-cpp-python, F32: logits as with the original",
            f"NMSE {error:.1e}, {ours['tokens']} tokens")
    t.check(len(ours["text"].strip()) > 10, "llama-cpp-python completes a text", repr(ours["text"][:40]))


def peers(t):
    """Test programs that were built against the original; the suite `peers` has those that were built against this
    library."""
    for name in ("gguf", "alloc", "rope", "quantize-fns", "barrier"):
        start = time.time()
        if t.run("ours", f"test-{name}") is not None:
            t.check(True, f"test-{name} (built against the original) runs on this library", f"{time.time() - start:.1f} s")
    expected, got = (len(re.findall(r"\bOK$", t.run(side, "test-opt") or "", re.M)) for side in ("original", "ours"))
    t.check(expected == got > 100, "test-opt (built against the original) passes what the original passes", f"{got} of {expected}")


SECTIONS = {"warnings": warnings, "embedding": embedding, "results": results, "quantized": quantized, "alignments": alignments,
            "completion": completion, "copies": copies, "perplexity": perplexity, "python": python, "peers": peers}


if __name__ == "__main__":
    main(__doc__, "hosts", SECTIONS)
