"""The lists of facts in c_tests/abi: the public functions of the headers that functions.txt lists, the other C names
that libggml-base exports (plugin.txt), the structs, enums and macros as libclang reads them (layout.txt), and the
environment variables that the sources read. signatures.txt: c_tests/abi/abi.py."""
import re
import sys
import textwrap
from pathlib import Path

from processes import ROOT

from . import interface, sources

FOLDER = Path(ROOT, "c_tests/abi")
BACKENDS = ("ggml-impl.h", "ggml-backend-impl.h") # backends also read what these declare


def public(tree, headers):
    """header -> names"""
    declared = interface.read(tree).functions.items()
    return {h: sorted(name for name, c in declared if interface.header(c) == h and interface.shown(c)) for h in headers}


def functions(tree, headers):
    yield f"# The public functions of ggml {tree.version()}, by header."
    for h, names in public(tree, headers).items():
        yield from ("", f"[{h}]  {len(names)}", *names)


def plugin(tree, headers):
    yield f"# Names outside the public headers that libggml-base of ggml {tree.version()} exports: loadable backends and tools take them."
    defined = {name for path, name, _ in tree.pieces("function") if path.count("/") == 1} # backends have folders
    yield from sorted((interface.exported(tree).keys() & defined).difference(*public(tree, headers).values()))


def layout(tree, headers):
    found = interface.read(tree)
    if found.errors:
        sys.exit("libclang does not understand the headers: " + found.errors[0])

    def of(declared, more=BACKENDS):
        return [(h, name, c) for h in (*headers, *more) for name, c in declared.items() if interface.header(c) == h]

    yield f"# Layout facts of ggml {tree.version()}'s C interface on LP64 Linux: sizes, alignments and offsets in bytes; values of enums and macros."
    yield ""
    for h, name, c in of(found.records):
        yield f"{'struct' if ' ' in c.type.spelling else 'typedef'} {name} size {c.type.get_size()} align {c.type.get_align()}  [{h}]"
        yield from (f"  {at:6} {size:6} {field}" for field, at, size, _ in interface.fields(c.type) if "." not in field)
    yield ""
    for h, name, c in of(found.enums):
        yield f"enum {name}  [{h}]"
        yield from (f"  {value:6} {enumerator}" for enumerator, value in interface.values(c))
    macros = ", ".join(f"{name} {found.numbers[name]}" for _, name, _ in of(found.macros, BACKENDS[1:]) if name in found.numbers)
    yield from ("", "macros", *textwrap.wrap(macros, 150, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))


def environment(tree, _headers):
    yield f"# Environment variables that the sources of ggml {tree.version()} read, and the files that do. scripts/environment.rs compares."
    yield from (f"{name} {paths}" for name, paths in sources.variables(tree).items())


def write(tree, check):
    """Writes the lists, or, to check, ends with a failure if one is not up to date."""
    lists = {"functions.txt": functions, "plugin.txt": plugin, "layout.txt": layout, "environment.txt": environment}
    headers = re.findall(r"^\[(.*)\]", (FOLDER / "functions.txt").read_text(), re.M)
    made = {FOLDER / name: "\n".join(lines(tree, headers)) + "\n" for name, lines in lists.items()}
    stale = [path for path, text in made.items() if text != path.read_text()]
    names = ", ".join(path.name for path in stale)
    if stale and check:
        sys.exit(f"not as in the sources of ggml {tree.version()}: {names}; run make upstream-facts")
    for path in stale:
        path.write_text(made[path])
    print(f"ggml {tree.version()}: {names + ' written' if stale else 'nothing has changed'}")
