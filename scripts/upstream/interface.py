"""Functions, types, enums, macros and exported names: the interface that hosts and modules are compiled against, as
libclang reads the headers for x86-64 Linux."""
import functools
import re
from os.path import basename as short
from types import SimpleNamespace

from . import clang
from .tree import COMMENT, changed, differing, mark, signed


def spelled(kind):
    """A type without the words that only C needs, and without places in files."""
    return re.sub(r"\b(struct|union|enum) (?=\w)", "", re.sub(r"\S*\((unnamed|anonymous)[^()]*\)", "(unnamed)", kind.spelling))


@functools.cache
def read(tree):
    """name -> header, text and more of functions, records, enums, typedefs and macros; `errors` are what libclang does
    not understand."""
    def parse(text, options):
        unit = clang.parse("/interface.c", text, options | clang.NO_BODIES, f"-I{tree.root}/include", f"-I{tree.root}/src")
        wrong = [d for d in unit.diagnostics if d.severity >= 3 and d.location.file and not d.spelling.endswith("file not found")]
        return [c for c in unit.cursor.get_children() if c.location.file], [(d.location.file.name, d.location.line, d.spelling) for d in wrong]

    text = "".join(f'#include "{tree.root}/{h}"\n' for h in tree.interface())
    cursors, wrong = parse(text, clang.MACROS)
    found = SimpleNamespace(functions={}, records={}, enums={}, typedefs={}, macros={}, exported={})
    found.errors = [f"{file.replace(tree.root + '/', '')}: {said}" for file, _, said in wrong]
    for c in cursors:
        if c.location.file.name.startswith(tree.root + "/"):
            _note(found, c, c.location.file.name[len(tree.root) + 1:])
    # Macros that are numbers: each becomes an enumerator, and those that are none are errors.
    cursors, wrong = parse(text + "".join(f"enum {{ number_{name} = ({name}) }};\n" for name, m in found.macros.items() if m.text and not m.takes), 0)
    lines = {line for file, line, _ in wrong if file == "/interface.c"}
    for c in cursors:
        if c.location.file.name == "/interface.c" and c.location.line not in lines:
            number = next(c.get_children())
            found.macros[number.spelling[7:]].number = number.enum_value
    return found


def _note(found, c, path):
    kind, children = c.kind.name, list(c.get_children())
    shown = any(x.kind.name == "VISIBILITY_ATTR" and x.spelling == "default" for x in children)
    local = c.storage_class.name == "STATIC"
    if kind == "FUNCTION_DECL" and not c.spelling.startswith("ggml_unused_vars"):
        params = [f"{spelled(a.type)} {a.spelling}".strip() for a in c.get_arguments()] + ["..."] * c.type.is_function_variadic()
        marks = ["exported"] * shown + ["static"] * local + ["deprecated"] * (c.availability.name == "DEPRECATED")
        text = f"{short(path)}: {spelled(c.result_type)} {c.spelling}({', '.join(params) or 'void'})" + (f" [{', '.join(marks)}]" if marks else "")
        found.functions.setdefault(c.spelling, SimpleNamespace(path=path, text=text, shown=shown))
    if kind in ("FUNCTION_DECL", "VAR_DECL") and not local:
        found.exported[c.spelling] = (path, shown)
    elif kind in ("STRUCT_DECL", "UNION_DECL") and c.is_definition():
        fields = dict(_fields(c.type, "", 0))
        found.records[c.spelling] = SimpleNamespace(path=path, size=c.type.get_size(), align=c.type.get_align(), fields=fields, tagged=" " in c.type.spelling)
    elif kind == "ENUM_DECL" and c.is_definition():
        values = [(e.spelling, e.enum_value) for e in children if e.kind.name == "ENUM_CONSTANT_DECL"]
        found.enums["enum" if "(unnamed" in c.spelling else c.spelling] = SimpleNamespace(path=path, values=values)
    elif kind == "TYPEDEF_DECL" and not any(x.kind.name in ("STRUCT_DECL", "UNION_DECL", "ENUM_DECL") and x.is_definition() for x in children):
        found.typedefs[c.spelling] = f"{short(path)}: {spelled(c.underlying_typedef_type)}"
    elif kind == "MACRO_DEFINITION":
        tokens = list(c.get_tokens())
        takes = len(tokens) > 1 and tokens[1].spelling == "(" and tokens[1].extent.start.offset == tokens[0].extent.end.offset
        found.macros[c.spelling] = SimpleNamespace(path=path, text=" ".join(t.spelling for t in tokens[1:]), takes=takes, number=None)


def _fields(kind, before, offset):
    """(name, (type, size, offset)) of members; a.b is the member b of the member a, which is a struct without a name.
    Members of nameless members count as the outer struct's."""
    for f in kind.get_fields():
        at, inner = offset + f.get_field_offsetof() // 8, f.type.get_declaration()
        name = "" if "(" in f.spelling else f.spelling
        if name:
            yield before + name, (spelled(f.type), f.type.get_size(), at)
        if inner.kind.name in ("STRUCT_DECL", "UNION_DECL") and inner.is_anonymous():
            yield from _fields(f.type, f"{before}{name}." if name else before, at)


def functions(old, new):
    a, b = ({name: f.text for name, f in read(tree).functions.items()} for tree in (old, new))
    return [line.replace(f" {line.split(' ', 2)[1][:-1]}:", "", 1) if line[0] != "~" else line for line in changed(a, b)]


def types(old, new):
    a, b = read(old), read(new)
    items = [f"! not understood: {error}" for error in dict.fromkeys(a.errors + b.errors) if error not in a.errors or error not in b.errors]
    for name in sorted({*a.records, *b.records}):
        sides = [side.records.get(name) for side in (a, b)]
        if None in sides:
            r = sides[0] or sides[1]
            fields = ", ".join(f"{n}: {text}" for n, (text, _, _) in r.fields.items())
            items.append(f"{mark(*sides)} {short(r.path)}: {name}, {r.size} bytes: {fields or 'no members'}")
        else:
            facts = [{name: f"{short(r.path)}, {r.size} bytes, aligned to {r.align}",
                      **{f"{name}.{n}": f"{text} at {at}, {size} bytes" for n, (text, size, at) in r.fields.items()}} for r in sides]
            items += changed(*facts, order=list({**facts[1], **facts[0]}).index)
    return items + list(changed(*({f"typedef {n}": text for n, text in side.typedefs.items()} for side in (a, b))))


def enums(old, new):
    items, (a, b) = [], (read(tree).enums for tree in (old, new))
    for name in sorted({*a, *b}):
        if name not in a or name not in b:
            items.append(f"{mark(name in a, name in b)} enum {name}: {', '.join(f'{n} {v}' for n, v in (a.get(name) or b[name]).values)}")
            continue
        before, after = dict(a[name].values), dict(b[name].values)
        items += [f"+ {name}: {n} {v}" for n, v in after.items() if n not in before] + [f"- {name}: {n} {v}" for n, v in before.items() if n not in after]
        moved = [(n, v, after[n]) for n, v in before.items() if after.get(n, v) != v]
        while moved: # neighbours that move by the same are one line
            count = next((i for i, (_, v, w) in enumerate(moved) if w - v != moved[0][2] - moved[0][1]), len(moved))
            (first, v, w), (last, x, y) = moved[0], moved[count - 1]
            items.append(f"~ {name}: {first} {v} -> {w}" if count == 1 else f"~ {name}: {first} .. {last}: {count} numbers {w - v:+}, {v} .. {x} -> {w} .. {y}")
            moved = moved[count:]
    return items


def macros(old, new):
    sides = ({f"{short(m.path)}: {name}": str(m.text if m.number is None else m.number) for name, m in read(tree).macros.items()} for tree in (old, new))
    return list(changed(*sides))


def remarks(old, new):
    """What the public headers say about themselves: rules that no type states."""
    items = []
    for path in sorted(p for p in {*old.interface(), *new.interface()} if p.startswith("include/")):
        sides = [[line.strip(" /*\t") for m in COMMENT.finditer(tree.text(path)) for line in (m["comment"] or "").split("\n")] for tree in (old, new)]
        items += signed(short(path), differing(*sides))
    return items


def exported(tree):
    """The C names of the headers that a shared library exports -> the header: the marked ones, or all if the libraries
    hide nothing."""
    hidden = "C_VISIBILITY_PRESET hidden" in " ".join(tree.text("src/CMakeLists.txt").split())
    return {"visibility": "hidden" if hidden else "default", **{name: path for name, (path, shown) in read(tree).exported.items() if shown or not hidden}}


def exports(*trees):
    return list(changed(*map(exported, trees)))
