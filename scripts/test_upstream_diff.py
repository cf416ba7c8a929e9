#!/usr/bin/env python3
"""Tests of upstream_diff.py: every section on small trees, and facts about ggml 0.26.0 and 0.28.0, which cargo fetches.
The cases are in upstream/tests.toml. pip fetches libclang. Also checks that the lists in c_tests/abi are those of the
original's sources."""
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import fetch
import upstream_diff
from checks import Checks
from upstream import clang
from upstream.tree import Tree, differing, until

checks = Checks("upstream", quiet=True)
CASES = tomllib.loads(Path(__file__).with_name("upstream").joinpath("tests.toml").read_text())
WORK = tempfile.TemporaryDirectory(prefix="upstream-test-")


def same(what, found, expected):
    checks.check(found == expected, what, "" if found == expected else f"{found!r} instead of {expected!r}")


def tree(files):
    """The folder of a new tree."""
    root = tempfile.mkdtemp(dir=WORK.name)
    for name, text in files.items():
        path = Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def edited(edits):
    """The folder of the base tree with replacements."""
    files = dict(CASES["base"])
    for file, *texts in edits:
        if len(texts) == 2:
            checks.check(files[file].count(texts[0]) == 1, f"{file} has {texts[0]!r} once")
            files[file] = files[file].replace(*texts)
        elif texts:
            files[file] = texts[0]
        else:
            del files[file]
    return tree(files)


def ran(*arguments, **variables):
    """The status, the output and the messages of the program."""
    none = dict.fromkeys(("CRATE", "VERSION", "DIR", "BASE", "BASE_CRATE", "BASE_VERSION", "CHECK"), "")
    command = [sys.executable, upstream_diff.__file__, *arguments]
    r = subprocess.run(command, env={**os.environ, **none, **variables}, capture_output=True, text=True)
    return r.returncode, r.stdout, r.stderr


def readers(base):
    source = 'a /* b\n"c */ "// d" \'"\' // e "f\nR"x(//")x" 1\'000 // g'
    same("comments", Tree(tree({"a.c": source})).plain("a.c"), 'a  \n "// d" \'"\'  \nR"x(//")x" 1\'000  ')
    same("brackets", [until('a, (b, ")") + c) d'), until("a { ; } b; c", ";"), until("a ( b")], ['a, (b, ")") + c', "a { ; } b", "a ( b"])
    same("lines", differing(["a", "b ", "c", "a"], ["a", "b", "d"]), (["c", "a"], ["d"]))
    found = Tree(tree({"src/gguf.cpp": CASES["pieces"]["source"]})).pieces("function")
    same("pieces", sorted(name for _, name, _ in found), CASES["pieces"]["functions"])
    for row in CASES["rows"]:
        trees = Tree(base), Tree(edited(row["edits"]))
        for section, expected in row["found"].items():
            same(section, upstream_diff.SECTIONS[section](*trees), expected)


def program(base, both):
    llama = tempfile.mkdtemp(dir=WORK.name)
    os.symlink(base, os.path.join(llama, "ggml"))
    status, out, said = ran(BASE=base, DIR=llama, CHECK="1")
    same("no change in a whole llama.cpp", (status, out.splitlines()[-1], said), (0, "0 items in 0 of 18 sections", ""))
    status, out, said = ran(CHECK="0", **both)
    same("a change", (status, out.splitlines()[:2], out.splitlines()[-1], said), (0, ["== version: 1", "~ ggml: 0.1.0 -> 0.2.0"], "5 items in 4 of 18 sections", ""))
    same("CHECK, and the same text again", ran(CHECK="1", PYTHONHASHSEED="7", **both), (1, out, ""))
    status, out, said = ran(BASE=both["DIR"], DIR=base)
    checks.check(status == 0 and "0.1.0 is older than 0.2.0" in said and "~ ggml: 0.2.0 -> 0.1.0\n" in out, "backwards", said)
    for arguments, variables in (([], {}), (["x"], both), ([], {**both, "DIR": "/nowhere"}), ([], {**both, "CRATE": "some"}),
                                 ([], {"CRATE": "some"}), ([], {**both, "BASE_VERSION": "1"})):
        status, out, said = ran(*arguments, **variables)
        same(f"wrong call: {arguments} {variables}", (status, out, "usage:" in said), (2, "", True))


def what_cannot_be_had(both):
    """A version that does not exist, with a fake cargo that prints cargo's message; a crate and libclang without
    network."""
    for case in CASES["causes"]:
        same(f"cause: {case['said']}", fetch.cause("some", "9", case["said"]), case.get("cause"))
    work = tempfile.mkdtemp(dir=WORK.name)
    cargo = Path(work, "cargo")
    cargo.write_text("#!/bin/sh\necho \"candidate versions found which didn't match: 2.0.0, 1.0.0\" >&2\nexit 101\n")
    cargo.chmod(0o755)
    os.symlink(os.path.join(os.path.abspath(upstream_diff.cache()), "tools"), os.path.join(work, "tools"))
    nowhere = {"GGML_CACHE": work, "CARGO_HOME": work, "PIP_NO_INDEX": "1", "CARGO_NET_OFFLINE": "true"}
    for variables, pattern in (
            ({"VERSION": "9.9.9", "PATH": f"{work}:{os.environ['PATH']}"}, r"llama-cpp-sys-4 has no version 9.9.9; the newest are 2.0.0, 1.0.0\n$"),
            ({"VERSION": "0.0.0-none"}, "cannot fetch|cargo is missing"),
            ({**both, "GGML_CACHE": tempfile.mkdtemp(dir=WORK.name)}, r"^fetching libclang .*\nfetch: pip cannot fetch libclang.*python3-pip\n$")):
        status, out, said = ran(**{**nowhere, **variables})
        checks.check((status, out) == (3, "") and re.search(pattern, said), f"not to be had: {pattern}", said)


def facts():
    trees = [Tree(upstream_diff.fetched(*crate)) for crate in (("llama-cpp-sys-2", "0.1.161"), ("llama-cpp-sys-4", "0.11.0"))]
    found = {title: items(*trees) for title, items in upstream_diff.SECTIONS.items()}
    for title, expected in CASES["facts"].items():
        checks.sound(f"facts: {title}", [item for item in expected if item not in found[title]])
    same("numbers of items", {title: len(found[title]) for title in CASES["counts"]}, CASES["counts"])
    status, _, said = ran("facts", CHECK="1")
    checks.check(status == 0, "the lists in c_tests/abi are those of the sources", said)


clang.cindex() # ends with one line if it cannot be had
with WORK:
    whole = tree(CASES["base"])
    pair = {"BASE": whole, "DIR": edited([["src/ggml.c", "LIMIT 4", "LIMIT 5"], ["CMakeLists.txt", "MINOR 1", "MINOR 2"]])}
    readers(whole)
    program(whole, pair)
    what_cannot_be_had(pair)
    facts()
sys.exit(checks.finish())
