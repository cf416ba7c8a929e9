#!/usr/bin/env python3
"""Compares the binary interface of this library with that of the original, from the libraries and headers of both
builds.

usage: abi_diff.py ORIGINAL OURS DEBUG [SOURCES]

ORIGINAL   folder with the original's shared libraries, built with debug information (scripts/oracle.sh debug)
OURS       folder with our installed shared libraries
DEBUG      our library once more, built with all debug information
SOURCES    the original's source tree (default: src/ggml beside ORIGINAL)

names      what the shared libraries export, as functions or as data, and their SONAMEs
headers    the headers in include/, all types and functions, by abidiff: with the original's headers, harmless changes
           included, and with the debug information of its libraries
library    signatures and layouts in our library's debug information with those in the original's, by abidw

Intended differences are listed in c_tests/abi/differences.txt (names, library) and in the two files of suppressions for
abidiff beside it, each with its reason. An entry that matches nothing is a failure.
"""
import os
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
from abi import debuginfo, headers, names, selftest
from abi.allowed import Allowed
from checks import Checks

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LISTS = os.path.join(ROOT, "c_tests", "abi")
LIBRARIES = ("libggml", "libggml-base", "libggml-cpu")
checks = Checks("abi")
check = checks.sound


def structs():
    """Every struct that hosts or modules read."""
    with open(os.path.join(LISTS, "layout.txt"), encoding="utf-8") as f:
        return [line.split()[1] for line in f if line.startswith(("struct ", "typedef "))]


def compare_names(original, ours, debug, allowed):
    lists = {name: names.exported(path) for name, path in original.items()}
    exported = names.exported(os.path.join(ours, "libggml-base.so"))
    missing = names.compare(lists, exported, allowed)
    check(f"{len(set().union(*lists.values()))} names of the original", missing)
    # A function that a file of the original takes from another must exist, whatever the list allows.
    inside = set().union(*(lists[name] for name in LIBRARIES))
    taken = sorted((set().union(*map(names.imports, original.values())) & inside) - exported.keys())
    check("what the original's libraries take from each other", [f"{n} is missing" for n in taken])
    for name in LIBRARIES:
        a, b = names.soname(original[name]), names.soname(os.path.join(ours, name + ".so"))
        check(f"the SONAME of {name}.so", a != b and [f"it is {b}, and {a} in the original"])
    other = sorted(names.exported(debug).keys() ^ exported.keys())
    check("the build with debug information exports the same", [f"{n} is in one of them only" for n in other])


def compare_headers(original, theirs, mine, work):
    """Returns the suppressions for two sets of headers."""
    functions = names.exported(mine)
    strict, usual = (headers.sections(os.path.join(LISTS, name)) for name in ("headers.suppr", "libraries.suppr"))
    text = headers.differences(theirs, mine, headers.STRICT, strict, work)
    check(f"our headers and the original's headers: {len(functions)} functions", text and headers.briefly(text))
    check(f"headers.suppr has {len(strict)} entries in use", headers.unused(theirs, mine, headers.STRICT, [], strict, work))
    for name in LIBRARIES:
        exported = names.exported(original[name])
        both = exported.keys() & functions.keys()
        fixed = [headers.only(both, [n for n, letter in exported.items() if letter not in names.FUNCTIONS and n.startswith("ggml_")])]
        text = headers.differences(original[name], mine, ("--no-added-syms",), fixed + usual, work)
        check(f"our headers and {name}.so: {len(both)} functions", text and headers.briefly(text))
        if name == "libggml-base": # the entries are for it
            check(f"libraries.suppr has {len(usual)} entries in use", headers.unused(original[name], mine, ("--no-added-syms",), fixed, usual, work))
    return strict


def compare_library(infos, original, debug, allowed, work):
    ours, seen = debuginfo.DebugInfo(debug, work), set()
    for name, theirs in infos.items():
        both = names.exported(original[name]).keys() & names.exported(debug).keys()
        functions, different = debuginfo.compare_functions(theirs, ours, both, allowed)
        # Both sides must have debug information of all that they export.
        silent = both - set(functions)
        check(f"our library and {name}.so: {len(functions)} functions", different + [f"{n} has no debug information" for n in sorted(silent) if not allowed.has("unseen", n)])
        found = []
        for struct in structs():
            problems = debuginfo.compare_struct(theirs, ours, struct)
            if problems is not None:
                seen.add(struct)
                found += problems
        check(f"our library and {name}.so: structs", found)
    unseen = [f"{s} is not in the debug information of both" for s in structs() if s not in seen and not allowed.has("unseen", s)]
    check(f"{len(seen)} structs were compared", unseen)


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__.strip())
    folder, ours, debug = sys.argv[1:4]
    sources = sys.argv[4] if len(sys.argv) > 4 else os.path.join(folder, "..", "src", "ggml")
    original = {name: os.path.join(folder, name + ".so") for name in (*LIBRARIES, "libggml-rpc")}
    allowed = Allowed(os.path.join(LISTS, "differences.txt"))
    work = tempfile.mkdtemp(prefix="ggml-abi-")
    try:
        compare_names(original, ours, debug, allowed)
        mine = headers.library([os.path.join(ROOT, "include")], os.path.join(work, "ours.so"))
        theirs = headers.library([os.path.join(sources, "include"), os.path.join(sources, "src")], os.path.join(work, "theirs.so"))
        suppressions = compare_headers(original, theirs, mine, work)
        infos = {name: debuginfo.DebugInfo(original[name], work) for name in LIBRARIES}
        compare_library(infos, original, debug, allowed, work)
        check(f"differences.txt has {len(allowed.entries)} entries in use", allowed.unused())
        for name, problem in selftest.run(ROOT, theirs, original["libggml-base"], infos["libggml-base"], suppressions, work):
            check(name, problem)
    finally:
        shutil.rmtree(work)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
