#!/usr/bin/env python3
"""Runs the commands of README.md, CONTRIBUTING.md and the book: test_docs.py CACHE [all]

- Every fenced block of shell commands is run in a copy of the top folder, as a new user with an empty home folder. The
word after ```sh says where it is not run:
    by=SUITE     that suite runs the same commands
    needs=TOOL   only if there is such a program; llama-cli and llama-bench are those of the suite `hosts`
    slow, cargo  takes long, or compiles the library: only with `all`, in a clone with the changes that are not
                 committed yet
    hours        takes hours: never run here
    root         changes the system
    last         after all others of its page
- Every block of C is included from a program in docs/examples, or has file=NAME and is compiled by a block of commands.
  Programs are compiled with all warnings and run, on the original, too, if they use its interface only. Blocks of Rust
  are included from the sources, which the unit tests compile.
- Links and anchors; `make help` names every target; docs/DEPENDENCIES.md has every dependency.

Blocks that are not run are listed with the reason. The last line counts.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

from book import check as wrong_links, read
from checks import Checks
from processes import ROOT, output

PAGES = ["README.md", "CONTRIBUTING.md", *sorted(glob.glob("docs/*.md"))]
BLOCK = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```$", re.M | re.S)
INCLUDED = re.compile(r"\{\{#include examples/(\w+)\.c:(\w+)\}\}")
# Pages whose commands need more than one machine or session.
ELSEWHERE = {"docs/DISTRIBUTED.md": "by=rpc"}
# The newest llama.cpp of the suite `hosts` has no llama-cli; its tool for one prompt takes the same options.
HOSTS = {"llama-cli": "llama-completion", "llama-bench": "llama-bench"}
REASONS = {"slow": "takes long: DOCS=all", "cargo": "compiles the library: DOCS=all", "root": "changes the system", "hours": "takes hours"}
# Modules that an example loads: their sources, and flags.
MODULES = {"use_backend": ("docs/examples/backend.c", "-DGGML_BACKEND_DL"), "passes": ("c_tests/plugin/accel.c",)}


def run(command, cwd, env, timeout=300):
    """Runs a command. Returns whether it ended well, and its last lines."""
    try:
        r = subprocess.run(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout)
    except subprocess.TimeoutExpired:
        return False, f"no end after {timeout} s"
    return r.returncode == 0, " | ".join(r.stdout.decode(errors="replace").strip().splitlines()[-3:])[-400:]


def examples(t, out, prefix, original):
    """Compiles and runs docs/examples."""
    os.makedirs(out)
    lib = f"{prefix}/lib"
    compiler = [os.environ.get("CC", "cc"), "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{prefix}/include", f"-L{lib}"]
    libraries = [f"-Wl,-rpath-link,{lib}", "-lggml", "-lggml-cpu", "-lggml-base", "-lm", "-ldl"]
    for source in sorted(glob.glob("docs/examples/*.c")):
        name = os.path.basename(source)[:-2]
        if name == "backend":
            continue
        if name in MODULES:
            module, *flags = MODULES[name]
            ok, said = run([*compiler, *flags, "-shared", "-fPIC", f"{ROOT}/{module}", "-o", f"{name}.so", "-lggml-base"], out, os.environ)
            t.check(ok, f"{module} compiles", said)
        ok, said = run([*compiler, f"{ROOT}/{source}", "-o", name, *libraries], out, os.environ)
        if not t.check(ok, f"{name}.c compiles", said):
            continue
        sides = {"here": lib}
        if os.path.isdir(original) and (name == "errors" or "ggml-rs.h" not in read(source)) and name not in MODULES:
            sides["on the original"] = original
        for side, folder in sides.items():
            ok, said = run([f"./{name}", *([f"./{name}.so"] if name in MODULES else [])], out, dict(os.environ, LD_LIBRARY_PATH=folder, GGML_DISABLE_VULKAN="1"))
            t.check(ok, f"{name}.c {side}", said)


def snippets(t, page):
    """Errors about blocks of C and Rust that no test compiles."""
    for _, language, words, text in BLOCK.findall(read(page)):
        if language == "c":
            there = all(f"// ANCHOR: {anchor}\n" in read(f"docs/examples/{name}.c") for name, anchor in INCLUDED.findall(text))
            good = "file=" in words or there and not INCLUDED.sub("", text).strip()
            t.check(good, f"{page}: a piece of C is from a program in docs/examples", text[:60].replace("\n", " "))
        elif language == "rust":
            t.check(re.fullmatch(r"\s*\{\{#include \.\./src/[^}]+\}\}\s*", text), f"{page}: a piece of Rust is from the sources", text[:60])


def clone(t, work, env):
    """A contributor's clone, so that its builds do not get into this tree's target folder. Contains commits, and
    changes to files that git knows."""
    tree = f"{work}/tree"
    if not os.path.isdir(tree):
        script = 'commit=$(git -C "$1" stash create); git clone -q --shared --no-checkout "$1" "$2" && git -C "$2" -c advice.detachedHead=false checkout -q "${commit:-HEAD}"'
        ok, said = run(["bash", "-euc", script, "clone", ROOT, tree], work, env)
        t.check(ok, "a clone for what compiles", said)
    return tree


def left_out(t, where, words, env, everything, suites):
    """Why a block is not run here, or nothing."""
    for word in words:
        kind, _, value = word.partition("=")
        if kind == "by":
            t.check(value in suites, f"{where}: there is a suite {value}")
            return f"suite {value} runs it"
        if kind == "needs" and not shutil.which(value, path=env["PATH"]):
            return f"{value} is not here"
        if kind in REASONS and not (everything and kind in ("slow", "cargo")):
            return REASONS[kind]
    return None


def commands(t, page, place, work, env, everything, suites):
    """Runs the blocks of a page in order."""
    text = read(page)
    blocks = [(m, m[3].split()) for m in BLOCK.finditer(text)]
    for m, words in sorted(blocks, key=lambda b: "last" in b[1]):
        for name in (w[5:] for w in words if m[2] == "c" and w.startswith("file=")):
            with open(f"{place}/{name}", "w", encoding="utf-8") as f:
                f.write(m[4])
        if m[2] not in ("sh", "bash", "shell"):
            continue
        line = f"{page}:{text.count(chr(10), 0, m.start()) + 1}"
        if reason := left_out(t, line, words or ELSEWHERE.get(page, "").split(), env, everything, suites):
            t.skip(f"{line}: {reason}: {m[4].strip().splitlines()[0].strip()[:70]}")
            continue
        where, settings = place, env
        if {"slow", "cargo"} & set(words):
            # A contributor has the devices of the machine, and no library in use but that of the clone.
            where, settings = clone(t, work, env), {k: v for k, v in env.items() if k not in ("GGML_DISABLE_VULKAN", "LD_LIBRARY_PATH")}
        ok, said = run(["bash", "-euo", "pipefail", "-c", m[4]], where, settings, 3600 if everything else 300)
        t.check(ok, line, said)


def lists(t):
    """`make help`, the dependencies, the links."""
    makefile = read("Makefile")
    targets = set(re.search(r"^\.PHONY: (.*)$", makefile, re.M)[1].split())
    rules = {n for names in re.findall(r"^([a-z][a-z0-9 -]*):(?!=)", makefile, re.M) for n in names.split()}
    t.check(rules == targets, "every target is in .PHONY", f"{sorted(rules ^ targets)}")
    named = set(re.findall(r"^make ([a-z0-9-]+) +\S", output("make", "-s", "help"), re.M))
    t.check(named == targets, "make help names every target", f"{sorted(named ^ targets)}")
    cargo = tomllib.loads(read("Cargo.toml"))
    crates = {n for one in (cargo, *cargo["target"].values()) for s in ("dependencies", "build-dependencies", "dev-dependencies") for n in one.get(s, {})}
    page = set(re.findall(r"`([\w-]+)`", " ".join(re.findall(r"^\| ([^|]*)\|", read("docs/DEPENDENCIES.md"), re.M))))
    t.check(page == crates, "docs/DEPENDENCIES.md has every dependency", f"{sorted(page ^ crates)}")
    t.sound("links of the documentation", wrong_links()[0])


def new_user(cache, work, place):
    """Variables of a new user with an empty home folder, and a folder where commands find the repository's files, and
    may write their own."""
    home, tools = f"{work}/home", f"{work}/bin"
    links = {f"{tools}/{name}": f"{cache}/hosts/bin/{program}" for name, program in HOSTS.items()}
    links |= {f"{place}/{name}": f"{ROOT}/{name}" for name in os.listdir(ROOT) if name not in (".git", "docs")}
    links[f"{place}/model.gguf"] = f"{cache}/models/llama-Q4_0-ours.gguf"
    os.makedirs(home)
    os.makedirs(tools)
    shutil.copytree(f"{ROOT}/docs/examples", place)
    for link, target in links.items():
        if os.path.exists(target):
            os.symlink(target, link)
    unset = ("PREFIX", "DESTDIR", "GGML_TRACE", "GGML_SCHED_REPORT", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    # Rust's own folders are not the new user's. Hosts that are linked to the original find it where they were built.
    # With LD_LIBRARY_PATH they find this library.
    return {"CARGO_HOME": os.path.expanduser("~/.cargo"), "RUSTUP_HOME": os.path.expanduser("~/.rustup")} | {k: v for k, v in os.environ.items() if k not in unset} | {
        "HOME": home, "PATH": tools + os.pathsep + os.environ["PATH"], "GGML_CACHE": cache, "LLAMA_ARG_N_PREDICT": "4", "GGML_DISABLE_VULKAN": "1",
        "LD_LIBRARY_PATH": f"{home}/ggml/lib"}


def main():
    cache, everything = os.path.abspath(sys.argv[1]), sys.argv[2:] == ["all"]
    t = Checks("docs", quiet=True)
    suites = set(re.findall(r"^suite_(\w+)\(\)", read("scripts/test.sh"), re.M))
    with tempfile.TemporaryDirectory() as work:
        examples(t, f"{work}/programs", f"{ROOT}/target/install", f"{cache}/original/lib")
        place = f"{work}/place"
        env = new_user(cache, work, place)
        for page in PAGES:
            snippets(t, page)
            # Commands that the pages take for granted: README has them.
            if not os.path.isdir(f"{env['HOME']}/ggml"):
                ok, said = run(["make", "-s", "install", f"PREFIX={env['HOME']}/ggml"], place, env)
                t.check(ok, f"make install as a new user, for {page}", said)
            commands(t, page, place, work, env, everything, suites)
    lists(t)
    sys.exit(t.finish())


if __name__ == "__main__":
    main()
