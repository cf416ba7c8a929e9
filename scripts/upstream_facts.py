#!/usr/bin/env python3
"""Writes the facts about the original's binary interface: c_tests/abi/functions.txt, plugin.txt, layout.txt and
environment.txt.

usage: upstream_facts.py

They are taken from the sources of the version that scripts/fetch.py pins, or of CRATE and VERSION, or DIR (as for
upstream_diff.py): the public functions of the headers that functions.txt lists, the other C names that libggml-base
exports, the structs, enums and macros as a C compiler for x86-64 sees them, and the environment variables that the
sources read. CHECK=1 writes nothing; files that are not up to date are a failure. signatures.txt: c_tests/abi/abi.py.
"""
import os
import sys
import textwrap

sys.dont_write_bytecode = True
import fetch
from upstream.exports import shown
from upstream.layout import layout, run
from upstream.tables import variables
from upstream.tree import SOURCES
from upstream.values import Constants
from upstream_diff import had

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "c_tests", "abi")
# Headers whose types backends read.
INTERNAL = ("src/ggml-impl.h", "src/ggml-backend-impl.h")


def read(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as f:
        return f.read()


def listed_headers():
    return [line[1:line.index("]")] for line in read("functions.txt").splitlines() if line.startswith("[")]


def public(tree, header):
    return sorted({f.name for f in tree.parse("include/" + header).functions if f.exported})


def functions(tree, headers):
    parts = [f"# The public functions of ggml {tree.version()}, by header.\n"]
    for header in headers:
        names = public(tree, header)
        parts.append(f"\n[{header}]  {len(names)}\n" + "".join(n + "\n" for n in names))
    return "".join(parts)


def plugin(tree, headers):
    names = shown(tree, "ggml-base")[0] - {n for h in headers for n in public(tree, h)}
    return f"# Names outside the public headers that libggml-base of ggml {tree.version()} exports: loadable backends and tools take them.\n" + \
        "".join(n + "\n" for n in sorted(names))


def _structs(tree, path, facts):
    """An untagged struct is a typedef: C has only that name for it."""
    text = " ".join(tree.text(path).split())
    for a in tree.parse(path).aggregates.values():
        if a.name in facts:
            size, align = facts[a.name]
            yield f"{'struct' if f'struct {a.name} {{' in text else 'typedef'} {a.name} size {size} align {align}  [{path.rsplit('/', 1)[1]}]"
            for member in dict.fromkeys(n.split(".")[0] for n, _ in a.fields):
                size, offset = facts[f"{a.name}.{member}"]
                yield f"  {offset:6} {size:6} {member}"


def _enums(tree, path):
    numbers = Constants([tree.parse(h) for h in tree.interface()]).enums
    for name in tree.parse(path).enums:
        yield f"enum {name}  [{path.rsplit('/', 1)[1]}]"
        yield from (f"  {value:6} {n}" for n, value in numbers[name])


def _macros(tree, paths):
    """Macros whose every definition is a number, with the one that this compiler uses."""
    names = []
    for path in paths:
        d = tree.parse(path)
        for name, entries in d.macros.items():
            others = [tree.parse(h) for h in tree.interface() if h != path]
            if entries[0][0] is None and None not in [Constants([*others, _one(d, name, entry)]).macro(name) for entry in entries]:
                names.append(name)
    lines = [f'#ifdef {n}\n    printf("{n} %lld\\n", (long long) ({n}));\n#endif' for n in names]
    return ", ".join(run(tree, lines)[0].splitlines())


class _one:
    """A header in which a macro is defined in one way only."""

    def __init__(self, d, name, entry):
        self.macros, self.enums = {**d.macros, name: [entry]}, d.enums


def structs_enums_macros(tree, headers):
    facts, why = layout(tree)
    if why:
        fetch.die(why)
    paths = ["include/" + h for h in headers]
    lines = [f"# Layout facts of ggml {tree.version()}'s C interface on LP64 Linux: sizes, alignments and offsets in bytes; values of enums and macros.", ""]
    for path in [*paths, *INTERNAL]:
        lines += _structs(tree, path, facts)
    lines.append("")
    for path in [*paths, *INTERNAL]:
        lines += _enums(tree, path)
    macros = _macros(tree, [*paths, "src/ggml-backend-impl.h"])
    lines += ["", "macros", *textwrap.wrap(macros, 150, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)]
    return "\n".join(lines) + "\n"


def environment(tree, _headers):
    found = variables(tree, [p for p in tree.files if p.startswith("src/") and p.endswith(SOURCES)])
    return f"# Environment variables that the sources of ggml {tree.version()} read, and the files that do. scripts/environment.rs compares.\n" + \
        "".join(f"{name} {' '.join(sorted(found[name]))}\n" for name in sorted(found))


LISTS = (("functions.txt", functions), ("plugin.txt", plugin), ("layout.txt", structs_enums_macros), ("environment.txt", environment))


def main():
    env = {name: os.environ.get(name, "") for name in ("CRATE", "VERSION", "DIR", "CHECK")}
    tree = had(env["DIR"], env["CRATE"], env["VERSION"], fetch.CRATE[:2])
    headers, stale = listed_headers(), []
    for name, make in LISTS:
        text = make(tree, headers)
        if text != read(name):
            stale.append(name)
            if env["CHECK"] in ("", "0"):
                with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as f:
                    f.write(text)
    if stale and env["CHECK"] not in ("", "0"):
        sys.exit(f"not as in the sources of ggml {tree.version()}: {', '.join(stale)}; run make upstream-facts")
    print(f"ggml {tree.version()}: {', '.join(stale) + ' written' if stale else 'nothing has changed'}")


if __name__ == "__main__":
    fetch.quiet_ending(main)
