#!/usr/bin/env python3
"""Compares the binary interface of this library with that of the original, from the libraries and headers of both.

usage: abi_diff.py CACHE LIB_DIR LIBRARY

CACHE      folder with the original's sources, and its libraries with debug information (scripts/oracle.sh debug)
LIB_DIR    folder with our installed libraries
LIBRARY    our library once more, built with debug information

Compared are facts by name:

names      what the shared libraries export, as functions or as data
headers    functions, types, enums and macros that are numbers, as libclang reads the headers of both
library    functions and structs in the debug information of both libraries, as gdb reads it

Intended differences are listed in c_tests/abi/differences.toml, each with its reason. An entry that matches nothing is
a failure.
"""
import json
import os
import re
import shutil
import sys
import tempfile
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

from checks import Checks
from processes import ROOT, output
from upstream import interface
from upstream.tree import Tree, compared

LISTS = Path(ROOT, "c_tests/abi")
LIBRARIES = ("libggml", "libggml-base", "libggml-cpu")
checks = Checks("abi")


class Allowed:
    """Intended differences: kind -> pattern -> reason."""
    def __init__(self, entries):
        self.entries, self.used = entries, set()

    def has(self, kind, name):
        """Whether an entry allows it; that entry then counts as used. The first that fits counts, so order matters."""
        fits = next((pattern for pattern in self.entries.get(kind, ()) if fnmatchcase(name, pattern)), None)
        self.used.add((kind, fits))
        return fits is not None

    def unused(self):
        return [f"{kind} {pattern}" for kind, patterns in self.entries.items() for pattern in patterns if (kind, pattern) not in self.used]


def differences(kind, theirs, ours, allowed):
    """The items for facts that differ and that the list does not allow."""
    meant = {name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name) and allowed.has(kind, name)}
    return compared(*({name: fact for name, fact in side.items() if name not in meant} for side in (theirs, ours)))


def symbols(library, which="--defined-only"):
    """Name -> whether it is a function or data. Without weak ones: inline functions and templates, of which each file
    that uses them has a copy of its own."""
    lines = map(str.split, output(os.environ.get("NM", "nm"), "-D", which, library).splitlines())
    return {words[-1].split("@")[0]: "function" if words[-2] in "Ti" else "data" for words in lines if words[-2] not in "AWwVvu"}


def names(original, ours, allowed):
    """The items for names: `original` is library -> name -> kind, `ours` name -> kind."""
    theirs = {f"{library} {name}": kind for library, kinds in original.items() for name, kind in kinds.items()}
    mine = {place: ours[place.split()[1]] for place in theirs if place.split()[1] in ours}
    extra = {name: kind for name, kind in ours.items() if not any(name in kinds for kinds in original.values())}
    return differences("missing", theirs, mine, allowed) + differences("extra", {}, extra, allowed)


def headers(folder, *more):
    """The facts about the headers of a folder, and about more headers."""
    with tempfile.TemporaryDirectory(prefix="ggml-abi-") as work:
        shutil.copytree(folder, os.path.join(work, "include"))
        for path in more:
            shutil.copy(path, os.path.join(work, "include"))
        tree = Tree(work)
        found = interface.read(tree)
        functions = {name: f"{interface.header(c)}: {interface.spelled(c.type)}" for name, c in found.functions.items() if interface.shown(c)}
        return {**functions, **interface.types(tree), **interface.enums(tree), **{name: str(number) for name, number in found.numbers.items()}}


def debuginfo(*libraries):
    """The facts that scripts/debuginfo.py prints about libraries."""
    found = {}
    for library in libraries:
        said = output("gdb", "-nx", "-batch", "-x", os.path.join(ROOT, "scripts/debuginfo.py"), library)
        found.update(json.loads(said.splitlines()[-1]))
    return found


def alike(a, b):
    """Whether two types are one; ? may be whatever a pointer leads to."""
    return a == b or a[:1] == b[:1] == "*" and ("?" in (a[1:], b[1:]) or alike(a[1:], b[1:]))


def library_differences(theirs, ours, names, allowed):
    """The items for functions and structs of these names that both have. Facts whose words are alike are the same."""
    known = {name for name in names if name in theirs and name in ours}
    theirs, ours = ({name: fact for name, fact in side.items() if name.split(".")[0] in known} for side in (theirs, ours))
    for name in theirs.keys() & ours.keys():
        words = theirs[name].split(), ours[name].split()
        if len(words[0]) == len(words[1]) and all(map(alike, *words)):
            ours[name] = theirs[name]
    return differences("differs", theirs, ours, allowed)


def selftest(info, work):
    """Whether mistakes are seen in a library of ours, in names and in the list. Suite upstream has those in headers."""
    library, source = os.path.join(work, "libwrong.so"), LISTS / "wrong.rs"
    output(*os.environ.get("RUSTC", "rustc").split(), "--edition", "2021", "-A", "warnings", "-C", "debuginfo=2", source, "-o", library)
    wrong = debuginfo(library)
    seen = library_differences(info, wrong, wrong.keys(), Allowed({}))
    expected = ", ".join(re.findall(r"// (.*)", source.read_text())).split(", ")
    checks.check(sorted(item[2:].split(": ")[0] for item in seen) == sorted(expected), "seen: mistakes in Rust", "; ".join(seen))

    listed = Allowed({"missing": {"libggml ggml_one": "used"}, "extra": {"ggml_two": "not used"}})
    seen = names({"libggml": dict.fromkeys(("ggml_one", "ggml_four", "ggml_five"), "function")}, {"ggml_three": "function", "ggml_five": "data"}, listed)
    expected = ["~ libggml ggml_five: function -> data", "- libggml ggml_four: function", "+ ggml_three: function"]
    checks.check(seen == expected, "seen: names", "; ".join(seen))
    checks.check(listed.unused() == ["extra ggml_two"], "seen: an entry that matches nothing")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    builds, ours, debug = map(Path, sys.argv[1:])
    paths = {name: builds / "debug/lib" / f"{name}.so" for name in (*LIBRARIES, "libggml-rpc")}
    allowed = Allowed(tomllib.loads((LISTS / "differences.toml").read_text()))

    original, exported = {name: symbols(path) for name, path in paths.items()}, symbols(ours / "libggml-base.so")
    everything = set().union(*original.values())
    checks.sound(f"{len(everything)} names of the original", names(original, exported, allowed))
    # A function that a file of the original takes from another must exist, whatever the list allows.
    inside = set().union(*(original[name] for name in LIBRARIES))
    taken = set().union(*(symbols(path, "--undefined-only") for path in paths.values())) & inside
    checks.sound("what the original's libraries take from each other", sorted(taken - exported.keys()))
    checks.sound("the build with debug information exports the same", sorted(symbols(debug).keys() ^ exported.keys()))

    theirs = headers(builds / "src/ggml/include", builds / "src/ggml/src/ggml-backend-impl.h")
    checks.sound(f"our headers and the original's: {len(theirs)} facts", differences("header", theirs, headers(os.path.join(ROOT, "include")), allowed))

    info, mine = debuginfo(*(paths[name] for name in LIBRARIES)), debuginfo(debug)
    # Both sides must have debug information of all functions that they export, and of every struct that hosts or
    # modules read.
    functions = [name for name in inside if exported.get(name) == "function"]
    wanted = functions + [f"struct {name}" for name in re.findall(r"^(?:struct|typedef) (\w+)", (LISTS / "layout.txt").read_text(), re.M)]
    checks.sound(f"our library and the original's: {len(wanted)} functions and structs", library_differences(info, mine, wanted, allowed))
    unseen = [name for name in wanted if not (name in info and name in mine or allowed.has("unseen", name))]
    checks.sound("all of them are in the debug information of both", sorted(unseen))
    checks.sound("differences.toml has no entry that matches nothing", allowed.unused())
    with tempfile.TemporaryDirectory(prefix="ggml-abi-") as work:
        selftest(info, work)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
