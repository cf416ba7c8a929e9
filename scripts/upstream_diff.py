#!/usr/bin/env python3
"""What changed in the original ggml since the version that this library follows, and facts about that version.

usage: CRATE=llama-cpp-sys-4 VERSION=0.11.0 upstream_diff.py      a crate's ggml, which cargo fetches
       DIR=path upstream_diff.py                                  a tree of ggml, or of llama.cpp
       upstream_diff.py facts          writes the lists in c_tests/abi (upstream/facts.py), from the version that
                                       scripts/fetch.py pins, or from the one that these variables name

In the environment: BASE=path, or BASE_CRATE=name and BASE_VERSION=number, is compared with instead of what
scripts/fetch.py pins. CHECK=1 makes any change a failure, and writes nothing. Fetched trees and libclang are kept in
GGML_CACHE (default: target/cache).

Prints sections of one item a line: + is new, - is gone, ~ changed. The same trees give the same text. Status: 0; 1 with
CHECK=1 if anything changed; 2 for a wrong call; 3 if a tree or libclang is not available. See docs/UPSTREAM.md.
"""
import contextlib
import os
import re
import signal
import sys
from functools import partial

import fetch
from processes import cache
from upstream import clang, facts, interface, sources
from upstream.tree import Tree, compared


def usage(message):
    print(f"upstream-diff: {message}\n\n{__doc__.strip()}", file=sys.stderr)
    sys.exit(2)


def fetched(name, version):
    """The folder of a crate's ggml."""
    root = os.path.join(os.path.abspath(cache()), "upstream")
    with contextlib.redirect_stdout(sys.stderr), fetch.locked(root):
        fetch.ggml(root, name, version, fetch.CRATE[2] if (name, version) == fetch.CRATE[:2] else None, f"{name}-{version}")
    return os.path.join(root, f"{name}-{version}")


def had(folder, crate, version, otherwise):
    """A tree; `otherwise` is the crate where none is named. Ends with status 3 where it, or libclang, cannot be had."""
    if folder and (crate or version) or crate and not version:
        usage("name a folder, or the version of a crate")
    if not folder and not version:
        crate, version = otherwise or usage("no version and no folder")
    try:
        clang.cindex()
        roots = [folder, os.path.join(folder, "ggml")] if folder else [fetched(crate or fetch.CRATE[0], version)]
    except (SystemExit, OSError) as e: # fetch.py ends with what is wrong
        print(e, file=sys.stderr)
        sys.exit(3)
    found = [os.path.abspath(root) for root in roots if os.path.isfile(os.path.join(root, "include/ggml.h"))]
    return Tree(found[0]) if found else usage(f"{roots[0]} holds no include/ggml.h")


def section(named, *limit):
    return lambda old, new: compared(named(old), named(new), *limit)


# title -> the items about two trees
SECTIONS = {
    "version": section(lambda tree: {"ggml": tree.version()}),
    "functions in headers": section(interface.functions),
    "types": section(interface.types),
    "enums": section(interface.enums),
    "macros": section(interface.macros),
    "comments in public headers": section(interface.remarks),
    "exported names": section(interface.exported),
    "tables": section(partial(sources.declared, ["table"]), 12),
    "types and lines between functions": section(partial(sources.declared, ["type", "rest"]), 12),
    "environment variables": section(sources.variables),
    "functions looked up by name": section(partial(sources.called, r'\bstrcmp ?\(\w+, (?="ggml_)', "src/")),
    "operations": lambda *trees: compared(*sources.functions(True, *trees), 0),
    "other functions": lambda *trees: compared(*sources.functions(False, *trees), 0),
    "assertions in functions": section(partial(sources.called, r"\bGGML_ASSERT ?\(", r"src/[^/]+$|src/ggml-cpu/[^/]+\.c(pp)?$")),
    "op_params": section(partial(sources.called, r"\b(ggml_[gs]et_op_params\w*\(|params\[\w*\] ?= ?\{)", r"src/[^/]+$")),
    "log lines": section(partial(sources.called, r"(?:\b|_)LOG_([A-Z]+ ?\()", r"src/(ggml-\w+/)?[^/]+$")),
    "cmake": section(sources.cmake),
    "files": section(sources.files, 0),
}


def main():
    folder, crate, version, check = (os.environ.get(name, "") for name in ("DIR", "CRATE", "VERSION", "CHECK"))
    check = check not in ("", "0")
    if sys.argv[1:] == ["facts"]:
        facts.write(had(folder, crate, version, fetch.CRATE[:2]), check)
        return
    if len(sys.argv) > 1:
        usage("it takes variables, and the argument facts")
    new = had(folder, crate, version, None)
    old = had(*(os.environ.get(name, "") for name in ("BASE", "BASE_CRATE", "BASE_VERSION")), fetch.CRATE[:2])
    numbers = [[int(number) for number in re.findall(r"\d+", tree.version())] for tree in (old, new)]
    if [] != numbers[1] < numbers[0]:
        print(f"upstream-diff: {new.version()} is older than {old.version()}: + is gone since it, and - is new since it. Name the older one as BASE.",
              file=sys.stderr)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL) # the reader may have seen enough
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    total = full = 0
    for title, items in SECTIONS.items():
        found = [" ".join(item.split()) for item in items(old, new)]
        total, full = total + len(found), full + bool(found)
        print(f"== {title}: {len(found) or 'nothing'}", *found, *[""] * bool(found), sep="\n")
    print(f"{total} items in {full} of {len(SECTIONS)} sections")
    sys.exit(bool(total and check))


if __name__ == "__main__":
    fetch.quiet_ending(main)
