#!/usr/bin/env python3
"""Writes the facts about the original's binary interface: c_tests/abi/functions.txt, plugin.txt, layout.txt and
environment.txt.

usage: upstream_facts.py

They are taken from the sources of the version that scripts/fetch.py pins, or of CRATE and VERSION, or DIR (as for
upstream_diff.py): the public functions of the headers that functions.txt lists, the other C names that libggml-base
exports, the structs, enums and macros as libclang reads them for x86-64, and the environment variables that the sources
read. CHECK=1 writes nothing; files that are not up to date are a failure. signatures.txt: c_tests/abi/abi.py.
"""
import os
import sys
import textwrap

sys.dont_write_bytecode = True
import fetch
from upstream import interface, texts
from upstream_diff import had

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "c_tests", "abi")
# Backends read what these declare.
INTERNAL = ("src/ggml-impl.h", "src/ggml-backend-impl.h")


def read(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as f:
        return f.read()


def listed_headers():
    return [line[1:line.index("]")] for line in read("functions.txt").splitlines() if line.startswith("[")]


def public(tree, header):
    return sorted(name for name, f in interface.read(tree).functions.items() if f.path == "include/" + header and f.shown)


def functions(tree, headers):
    parts = [(h, public(tree, h)) for h in headers]
    return f"# The public functions of ggml {tree.version()}, by header.\n" + "".join(f"\n[{h}]  {len(names)}\n" + "".join(n + "\n" for n in names) for h, names in parts)


def plugin(tree, headers):
    defined = {name for path in texts.sources(tree, "ggml-base") for name in tree.functions(path)}
    names = (interface.exported(tree).keys() & defined) - {n for h in headers for n in public(tree, h)}
    return f"# Names outside the public headers that libggml-base of ggml {tree.version()} exports: loadable backends and tools take them.\n" + \
        "".join(n + "\n" for n in sorted(names))


def layout(tree, headers):
    found, paths = interface.read(tree), ["include/" + h for h in headers]
    if found.errors:
        fetch.die("libclang does not understand the headers: " + found.errors[0])

    def of(entries, paths):
        return [(name, entry, interface.short(path)) for path in paths for name, entry in entries.items() if entry.path == path]

    lines = [f"# Layout facts of ggml {tree.version()}'s C interface on LP64 Linux: sizes, alignments and offsets in bytes; values of enums and macros.", ""]
    for name, r, header in of(found.records, [*paths, *INTERNAL]):
        lines.append(f"{'struct' if r.tagged else 'typedef'} {name} size {r.size} align {r.align}  [{header}]")
        lines += [f"  {at:6} {size:6} {member}" for member, (_, size, at) in r.fields.items() if "." not in member]
    lines.append("")
    for name, e, header in of(found.enums, [*paths, *INTERNAL]):
        lines += [f"enum {name}  [{header}]", *(f"  {value:6} {n}" for n, value in e.values)]
    macros = ", ".join(f"{name} {m.number}" for name, m, _ in of(found.macros, [*paths, INTERNAL[1]]) if m.number is not None)
    lines += ["", "macros", *textwrap.wrap(macros, 150, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)]
    return "\n".join(lines) + "\n"


def environment(tree, _headers):
    return f"# Environment variables that the sources of ggml {tree.version()} read, and the files that do. scripts/environment.rs compares.\n" + \
        "".join(f"{name} {' '.join(sorted(paths))}\n" for name, paths in sorted(texts.variables(tree).items()))


LISTS = (("functions.txt", functions), ("plugin.txt", plugin), ("layout.txt", layout), ("environment.txt", environment))


def main():
    folder, crate, version, check = (os.environ.get(name, "") for name in ("DIR", "CRATE", "VERSION", "CHECK"))
    tree, headers, check = had(folder, crate, version, fetch.CRATE[:2]), listed_headers(), check not in ("", "0")
    lists = {name: make(tree, headers) for name, make in LISTS}
    stale = [name for name, text in lists.items() if text != read(name)]
    for name in [] if check else stale:
        with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as f:
            f.write(lists[name])
    if stale and check:
        sys.exit(f"not as in the sources of ggml {tree.version()}: {', '.join(stale)}; run make upstream-facts")
    print(f"ggml {tree.version()}: {', '.join(stale) + ' written' if stale else 'nothing has changed'}")


if __name__ == "__main__":
    fetch.quiet_ending(main)
