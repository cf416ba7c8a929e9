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
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

from checks import Checks

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = ["README.md", "CONTRIBUTING.md"] + sorted(os.path.join("docs", n) for n in os.listdir(os.path.join(ROOT, "docs")) if n.endswith(".md"))
BLOCK = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```$", re.M | re.S)
# Pages whose commands need more than one machine or session.
ELSEWHERE = {"docs/DISTRIBUTED.md": "by=rpc"}
# The newest llama.cpp of the suite `hosts` has no llama-cli; its tool for one prompt takes the same options.
HOSTS = {"llama-cli": "llama-completion", "llama-bench": "llama-bench"}
SUITES = re.compile(r"^suite_(\w+)\(\)", re.M)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def run(command, cwd, env, timeout=300):
    """Runs a command. Returns whether it ended well, and its last lines."""
    try:
        r = subprocess.run(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout)
    except subprocess.TimeoutExpired:
        return False, f"no end after {timeout} s"
    return r.returncode == 0, " | ".join(r.stdout.decode(errors="replace").strip().splitlines()[-3:])[-400:]


def examples(t, work, prefix, original):
    """Compiles and runs docs/examples."""
    out, lib = os.path.join(work, "programs"), os.path.join(prefix, "lib")
    os.makedirs(out)
    cc = os.environ.get("CC", "cc")
    flags = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{prefix}/include"]
    modules = {"use_backend": ("docs/examples/backend.c", ["-DGGML_BACKEND_DL"]), "passes": ("c_tests/plugin/accel.c", [])}
    names = sorted(n[:-2] for n in os.listdir(os.path.join(ROOT, "docs/examples")) if n.endswith(".c"))
    for name in names:
        if name == "backend":
            continue
        argument = []
        if name in modules:
            source, more = modules[name]
            argument = [f"./{name}.so"]
            ok, said = run([cc, *flags, *more, "-shared", "-fPIC", os.path.join(ROOT, source), "-o", f"{name}.so", f"-L{lib}", "-lggml-base"], out, os.environ)
            t.check(ok, f"{source} compiles", said)
        ok, said = run([cc, *flags, os.path.join(ROOT, "docs/examples", name + ".c"), "-o", name, f"-L{lib}", f"-Wl,-rpath-link,{lib}", "-lggml", "-lggml-cpu", "-lggml-base", "-lm", "-ldl"],
                       out, os.environ)
        if not t.check(ok, f"{name}.c compiles", said):
            continue
        sides = [("here", lib)]
        if os.path.isdir(original) and (name == "errors" or "ggml-rs.h" not in read(f"docs/examples/{name}.c")) and not argument:
            sides.append(("on the original", original))
        for side, libs in sides:
            ok, said = run([f"./{name}", *argument], out, dict(os.environ, LD_LIBRARY_PATH=libs, GGML_DISABLE_VULKAN="1"))
            t.check(ok, f"{name}.c {side}", said)
    return set(names)


def snippets(t, page, known):
    """Errors about blocks of C and Rust that no test compiles."""
    for m in BLOCK.finditer(read(page)):
        language, words, text = m[2], m[3].split(), m[4]
        if language == "c":
            rest = re.sub(r"\{\{#include examples/(\w+)\.c:\w+\}\}", lambda i: "" if i[1] in known else i[0], text).strip()
            anchors = re.findall(r"\{\{#include examples/(\w+)\.c:(\w+)\}\}", text)
            there = all(f"// ANCHOR: {a}\n" in read(f"docs/examples/{n}.c") for n, a in anchors)
            t.check(any(w.startswith("file=") for w in words) or not rest and there, f"{page}: a piece of C is from a program in docs/examples", text[:60].replace("\n", " "))
        elif language == "rust":
            t.check(re.fullmatch(r"\s*\{\{#include \.\./src/[^}]+\}\}\s*", text), f"{page}: a piece of Rust is from the sources", text[:60])


def clone(t, work, env):
    """A contributor's clone, so that its builds do not get into this tree's target folder. Contains commits, and
    changes to files that git knows."""
    tree = os.path.join(work, "tree")
    if not os.path.isdir(tree):
        changed = subprocess.run(["git", "stash", "create"], cwd=ROOT, capture_output=True, text=True).stdout.strip() or "HEAD"
        commit = subprocess.run(["git", "rev-parse", changed], cwd=ROOT, capture_output=True, text=True).stdout.strip()
        script = 'git clone -q --shared --no-checkout "$1" "$2" && git -C "$2" -c advice.detachedHead=false checkout -q "$3"'
        ok, said = run(["bash", "-euc", script, "clone", ROOT, tree, commit], work, env)
        t.check(ok, "a clone for what compiles", said)
    return tree


def commands(t, page, place, work, env, everything, suites):
    """Runs the blocks of a page in order."""
    blocks = [(m, m[3].split()) for m in BLOCK.finditer(read(page))]
    for m, words in sorted(blocks, key=lambda b: "last" in b[1]):
        line = read(page)[:m.start()].count("\n") + 1
        if m[2] == "c" and (name := next((w[5:] for w in words if w.startswith("file=")), None)):
            with open(os.path.join(place, name), "w", encoding="utf-8") as f:
                f.write(m[4])
        if m[2] not in ("sh", "bash", "shell"):
            continue
        words = words or ELSEWHERE.get(page, "").split()
        reason = None
        for word in words:
            if word.startswith("by="):
                reason = f"suite {word[3:]} runs it"
                t.check(word[3:] in suites, f"{page}:{line}: there is a suite {word[3:]}")
            elif word.startswith("needs=") and not shutil.which(word[6:], path=env["PATH"]):
                reason = f"{word[6:]} is not here"
            elif word in ("slow", "cargo") and not everything:
                reason = {"slow": "takes long: DOCS=all", "cargo": "compiles the library: DOCS=all"}[word]
            elif word in ("root", "hours"):
                reason = {"root": "changes the system", "hours": "takes hours"}[word]
        if reason:
            first = m[4].strip().splitlines()[0].strip()
            t.skip(f"{page}:{line}: {reason}: {first[:70]}")
            continue
        where, settings = place, env
        if {"slow", "cargo"} & set(words):
            # A contributor has the devices of the machine, and no library in use but that of the clone.
            where, settings = clone(t, work, env), {k: v for k, v in env.items() if k not in ("GGML_DISABLE_VULKAN", "LD_LIBRARY_PATH")}
        ok, said = run(["bash", "-euo", "pipefail", "-c", m[4]], where, settings, 3600 if everything else 300)
        t.check(ok, f"{page}:{line}", said)


def lists(t):
    """`make help`, the dependencies, the links."""
    makefile = read("Makefile")
    targets = set(re.search(r"^\.PHONY: (.*)$", makefile, re.M)[1].split())
    rules = {n for names in re.findall(r"^([a-z][a-z -]*):(?!=)", makefile, re.M) for n in names.split()}
    t.check(rules == targets, "every target is in .PHONY", f"{sorted(rules ^ targets)}")
    help_text = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True).stdout
    named = set(re.findall(r"^make ([a-z-]+) +\S", help_text, re.M))
    t.check(named == targets, "make help names every target", f"{sorted(named ^ targets)}")
    cargo = tomllib.loads(read("Cargo.toml"))
    crates = {n for s in ("dependencies", "build-dependencies", "dev-dependencies") for n in cargo.get(s, {})}
    page = set(re.findall(r"`([\w-]+)`", " ".join(re.findall(r"^\| ([^|]*)\|", read("docs/DEPENDENCIES.md"), re.M))))
    t.check(page == crates, "docs/DEPENDENCIES.md has every dependency", f"{sorted(page ^ crates)}")
    ok, said = run([sys.executable, "-B", os.path.join(ROOT, "scripts/book.py"), "check"], ROOT, os.environ)
    t.check(ok, "links of the documentation", said)


def main():
    cache, everything = os.path.abspath(sys.argv[1]), sys.argv[2:] == ["all"]
    prefix, t = os.path.join(ROOT, "target", "install"), Checks("docs", quiet=True)
    suites = set(SUITES.findall(read("scripts/test.sh")))
    with tempfile.TemporaryDirectory() as work:
        known = examples(t, work, prefix, os.path.join(cache, "original", "lib"))
        home, tools = os.path.join(work, "home"), os.path.join(work, "bin")
        os.makedirs(home)
        os.makedirs(tools)
        for name, program in HOSTS.items():
            path = os.path.join(cache, "hosts/bin", program)
            if os.path.exists(path):
                os.symlink(path, os.path.join(tools, name))
        env = dict(os.environ, HOME=home, PATH=tools + os.pathsep + os.environ["PATH"], GGML_CACHE=cache, LLAMA_ARG_N_PREDICT="4", GGML_DISABLE_VULKAN="1")
        for name in ("PREFIX", "DESTDIR", "GGML_TRACE", "GGML_SCHED_REPORT", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
            env.pop(name, None)
        # Rust's own folders are not the new user's.
        env.setdefault("CARGO_HOME", os.path.expanduser("~/.cargo"))
        env.setdefault("RUSTUP_HOME", os.path.expanduser("~/.rustup"))
        # Where the commands find the repository's files, and may write their own.
        place = os.path.join(work, "place")
        os.makedirs(place)
        for name in os.listdir(ROOT):
            if name not in (".git", "docs"):
                os.symlink(os.path.join(ROOT, name), os.path.join(place, name))
        for name in os.listdir(os.path.join(ROOT, "docs/examples")):
            shutil.copy(os.path.join(ROOT, "docs/examples", name), place)
        model = os.path.join(cache, "models", "llama-Q4_0-ours.gguf")
        if os.path.exists(model):
            os.symlink(model, os.path.join(place, "model.gguf"))
        # Commands that the pages take for granted: README has them.
        ok, said = run(["make", "-s", "install", f"PREFIX={home}/ggml"], place, env)
        t.check(ok, "make install as a new user", said)
        # Hosts that are linked to the original find it where they were built. With LD_LIBRARY_PATH they find this
        # library.
        env["LD_LIBRARY_PATH"] = f"{home}/ggml/lib"
        for page in PAGES:
            snippets(t, page, known)
            commands(t, page, place, work, env, everything, suites)
            if not os.path.isdir(f"{home}/ggml"):
                run(["make", "-s", "install", f"PREFIX={home}/ggml"], place, env)
    lists(t)
    sys.exit(t.finish())


if __name__ == "__main__":
    main()
