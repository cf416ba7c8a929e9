"""Functions, types, enums, macros and exported names: the interface that hosts and modules are compiled against, as
libclang reads the headers for x86-64 Linux. Each section is a dictionary of facts by name."""
import functools
import os
import re
from types import SimpleNamespace

from . import clang
from .tree import COMMENT

_KINDS = {"FUNCTION_DECL": "functions", "VAR_DECL": "variables", "STRUCT_DECL": "records", "UNION_DECL": "records", "ENUM_DECL": "enums",
          "TYPEDEF_DECL": "typedefs", "MACRO_DEFINITION": "macros"}
_DEFINED = ("STRUCT_DECL", "UNION_DECL", "ENUM_DECL")


def _parse(tree, text, options):
    """The declarations, and the errors."""
    unit = clang.parse("/interface.c", text, options | clang.NO_BODIES, tree.root)
    wrong = [d for d in unit.diagnostics if d.severity >= 3 and d.location.file and not d.spelling.endswith("file not found")]
    return [c for c in unit.cursor.get_children() if c.location.file], wrong


@functools.cache
def read(tree):
    """What the headers declare, in their order: kind -> name -> libclang's cursor. `numbers` are the macros that are
    numbers, `errors` what libclang does not understand."""
    text = "".join(f'#include "{tree.root}/{h}"\n' for h in tree.interface())
    cursors, wrong = _parse(tree, text, clang.MACROS)
    found = SimpleNamespace(numbers={}, **{kind: {} for kind in _KINDS.values()})
    found.errors = [f"{d.location.file.name.replace(tree.root + '/', '')}: {d.spelling}" for d in wrong]
    for c in cursors:
        kind = c.kind.name
        if kind in _KINDS and c.location.file.name.startswith(tree.root + "/") and (kind not in _DEFINED or c.is_definition()):
            getattr(found, _KINDS[kind]).setdefault("enum" if "(unnamed" in c.spelling else c.spelling, c)
    # Each macro becomes an enumerator; those that are no numbers are errors.
    cursors, wrong = _parse(tree, text + "".join(f"enum {{ number_{name} = ({name}) }};\n" for name in found.macros), 0)
    lines = {d.location.line for d in wrong if d.location.file.name == "/interface.c"}
    for c in cursors:
        if c.location.file.name == "/interface.c" and c.location.line not in lines:
            number = next(c.get_children())
            found.numbers[number.spelling.removeprefix("number_")] = number.enum_value
    return found


def header(c):
    return os.path.basename(c.location.file.name)


def spelled(kind):
    """A type without the words that only C needs, and without places in files."""
    return re.sub(r"\b(struct|union|enum) (?=\w)", "", re.sub(r"\S*\((unnamed|anonymous)[^()]*\)", "(unnamed)", kind.spelling))


def shown(c):
    """Whether it is marked as exported."""
    return any(x.kind.name == "VISIBILITY_ATTR" and x.spelling == "default" for x in c.get_children())


def functions(tree):
    found = {}
    for name, c in read(tree).functions.items():
        params = [f"{spelled(a.type)} {a.spelling}".strip() for a in c.get_arguments()] + ["..."] * c.type.is_function_variadic()
        marks = {"[exported]": shown(c), "[static]": c.storage_class.name == "STATIC", "[deprecated]": c.availability.name == "DEPRECATED"}
        text = f"{header(c)}: {spelled(c.result_type)} ({', '.join(params) or 'void'})"
        found[name] = " ".join([text, *(mark for mark, marked in marks.items() if marked)])
    return found


def fields(kind, before="", offset=0):
    """(name, offset, size, type) of members; a.b is the member b of the member a, which is a struct without a name.
    Members of nameless members count as the outer struct's."""
    for f in kind.get_fields():
        at, inner = offset + f.get_field_offsetof() // 8, f.type.get_declaration()
        name = "" if "(" in f.spelling else f.spelling
        if name:
            yield before + name, at, f.type.get_size(), spelled(f.type)
        if inner.kind.name in _DEFINED and inner.is_anonymous():
            yield from fields(f.type, f"{before}{name}." if name else before, at)


def types(tree):
    found = {"not understood": read(tree).errors}
    for name, c in read(tree).records.items():
        found[name] = f"{header(c)}, {c.type.get_size()} bytes, aligned to {c.type.get_align()}"
        found.update({f"{name}.{field}": f"{kind} at {at}, {size} bytes" for field, at, size, kind in fields(c.type)})
    return {**found, **{f"typedef {name}": f"{header(c)}: {spelled(c.underlying_typedef_type)}" for name, c in read(tree).typedefs.items()}}


def values(enum):
    return [(c.spelling, c.enum_value) for c in enum.get_children() if c.kind.name == "ENUM_CONSTANT_DECL"]


def enums(tree):
    return {f"{name}: {enumerator}": str(value) for name, c in read(tree).enums.items() for enumerator, value in values(c)}


def macros(tree):
    found = read(tree)
    return {f"{header(c)}: {name}": str(found.numbers.get(name, " ".join(t.spelling for t in list(c.get_tokens())[1:])))
            for name, c in found.macros.items()}


def remarks(tree):
    """What the public headers say about themselves: rules that no type states."""
    comments = {path: "\n".join(m["comment"] or "" for m in COMMENT.finditer(tree.text(path))) for path in tree.interface() if path.startswith("include/")}
    return {os.path.basename(path): re.findall(r"[^\s/*].*?(?=[\s/*]*$)", text, re.M) for path, text in comments.items()}


def exported(tree):
    """The C names of the headers that a shared library exports -> the header: the marked ones, or all if the libraries
    hide nothing."""
    hidden = "C_VISIBILITY_PRESET hidden" in " ".join(tree.text("src/CMakeLists.txt").split())
    declared = {**read(tree).functions, **read(tree).variables}
    names = {name: header(c) for name, c in declared.items() if c.storage_class.name != "STATIC" and (shown(c) or not hidden)}
    return {"visibility": "hidden" if hidden else "default", **names}
