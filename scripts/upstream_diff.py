#!/usr/bin/env python3
"""What changed in the original ggml since the version that this library follows, and facts about that version.

usage: CRATE=llama-cpp-sys-4 VERSION=0.11.0 upstream_diff.py      a crate's ggml, which cargo fetches
       DIR=path upstream_diff.py                                  a tree of ggml, or of llama.cpp
       upstream_diff.py facts          writes the lists in c_tests/abi (upstream/facts.py), from the version that
                                       scripts/fetch.py pins, or from the one that these variables name

In the environment: BASE=path, or BASE_CRATE=name and BASE_VERSION=number, is compared with instead of what
scripts/fetch.py pins. CHECK=1 makes any change a failure, and writes nothing. Fetched trees and libclang are kept in GGML_CACHE (default:
target/cache).

Prints sections of one item a line: + is new, - is gone, ~ changed. The same trees give the same text. Status: 0; 1 with
CHECK=1 if anything changed; 2 for a wrong call; 3 if a tree or libclang is not available. See docs/UPSTREAM.md.
"""
import contextlib
import os
import sys
from functools import partial

sys.dont_write_bytecode = True
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


def given(path):
    found = [folder for folder in (path, os.path.join(path, "ggml")) if os.path.isfile(os.path.join(folder, "include", "ggml.h"))]
    return os.path.abspath(found[0]) if found else usage(f"{path} holds no include/ggml.h")


def had(folder, crate, version, otherwise):
    """A tree; `otherwise` is the crate where none is named. Ends with status 3 where it, or libclang, cannot be had."""
    if folder and (crate or version) or crate and not version:
        usage("name a folder, or the version of a crate")
    if not folder and not version:
        crate, version = otherwise or usage("no version and no folder")
    path = given(folder) if folder else None
    try:
        clang.cindex()
        return Tree(path or fetched(crate or fetch.CRATE[0], version))
    except (SystemExit, OSError) as e: # fetch.py ends with what is wrong
        print(e, file=sys.stderr)
        sys.exit(3)


def backwards(old, new):
    """Whether the tree that should be newer is the older one, as far as both say their versions."""
    numbers = [t.version().split(".") for t in (old, new)]
    return all(n.isdigit() for v in numbers for n in v) and [int(n) for n in numbers[1]] < [int(n) for n in numbers[0]]


def section(named, *limit):
    return lambda old, new: list(compared(named(old), named(new), *limit))


def functions(concerned):
    return lambda old, new: section(partial(sources.functions, concerned, old, new), 0)(old, new)


# title -> the items about two trees
SECTIONS = {
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
    "operations": functions(True),
    "other functions": functions(False),
    "assertions in functions": section(partial(sources.called, r"\bGGML_ASSERT ?\(", r"src/[^/]+$|src/ggml-cpu/[^/]+\.c(pp)?$")),
    "op_params": section(partial(sources.called, r"\b(ggml_[gs]et_op_params\w*\(|params\[\w*\] ?= ?\{)", r"src/[^/]+$")),
    "log lines": section(partial(sources.called, r"(?:\b|_)LOG_([A-Z]+ ?\()", r"src/(ggml-\w+/)?[^/]+$")),
    "cmake": section(sources.cmake),
    "files": section(sources.files, 0),
}


def sections(old, new):
    """[(title, items)]; an item is a line."""
    version = [] if old.version() == new.version() else [f"~ {old.version()} -> {new.version()}"]
    if backwards(old, new):
        version[0] += " backwards: the other tree is the older one, so + is gone since it and - is new since it"
    return [("version", version)] + [(title, items(old, new)) for title, items in SECTIONS.items()]


def main():
    folder, crate, version, check = (os.environ.get(name, "") for name in ("DIR", "CRATE", "VERSION", "CHECK"))
    if sys.argv[1:] == ["facts"]:
        facts.write(had(folder, crate, version, fetch.CRATE[:2]), check not in ("", "0"))
        return
    if len(sys.argv) > 1:
        usage("it takes variables, and the argument facts")
    new = had(folder, crate, version, None)
    old = had(*(os.environ.get(name, "") for name in ("BASE", "BASE_CRATE", "BASE_VERSION")), fetch.CRATE[:2])
    if backwards(old, new):
        print(f"upstream-diff: {new.version()} is older than {old.version()}, with which it is compared; to see what is new, name the older one as BASE",
              file=sys.stderr)
    found = sections(old, new)
    total = sum(len(items) for _, items in found)
    lines = [line for title, items in found for line in (f"== {title}: {len(items) or 'nothing'}", *(" ".join(item.split()) for item in items), *[""] * bool(items))]
    lines.append(f"{total} items in {sum(bool(items) for _, items in found)} of {len(found)} sections")
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    try:
        print("\n".join(lines), flush=True)
    except BrokenPipeError: # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1 if total and check not in ("", "0") else 0)


if __name__ == "__main__":
    fetch.quiet_ending(main)
