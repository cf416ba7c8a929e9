"""Signatures and layouts of a library's own debug information, by abidw, in words that C and Rust share.

Numbers have Rust's names; an enum is a signed integer. A pointer is *T, where T is ? when it is void or a struct whose
fields are not in it; a function's address is *fn. A struct by value is its fields.
"""
import os
import xml.etree.ElementTree as xml

from .names import run

ABIDW = os.environ.get("ABIDW", "abidw")
_NUMBERS = {
    "i8": ("char", "signed char"), "u8": ("unsigned char",), "i16": ("short int",), "u16": ("unsigned short int", "short unsigned int"),
    "i32": ("int",), "u32": ("unsigned int",), "i64": ("isize", "long int", "long long int"),
    "u64": ("usize", "unsigned long int", "long unsigned int", "unsigned long long int", "long long unsigned int"),
    "f32": ("float",), "f64": ("double",), "bool": ("_Bool",), "void": ("()", "!")}
_NUMBER_OF = {name: number for number, names in _NUMBERS.items() for name in (number, *names)}


class DebugInfo:
    def __init__(self, library, work):
        path = os.path.join(work, os.path.basename(library) + ".abi")
        run(ABIDW, "--no-show-locs", "--out-file", path, library)
        self.functions, self.structs, self._ids = {}, {}, {}
        self._walk(xml.parse(path).getroot(), ())

    def _walk(self, element, names):
        for e in element:
            if e.get("id"):
                self._ids[e.get("id")] = e
            if e.tag == "namespace-decl":
                self._walk(e, (*names, e.get("name")))
                continue
            if e.tag == "function-decl" and e.get("elf-symbol-id"):
                self.functions[e.get("elf-symbol-id")] = e
            elif e.tag == "function-decl" and element.tag == "abi-instr":
                # abidw loses the symbol of a function that it met in another source first, as a declaration.
                self.functions.setdefault(e.get("name"), e)
            # Of Rust's types, those that represent C's.
            if e.tag == "class-decl" and e.get("size-in-bits") and e.get("is-anonymous") != "yes" and names[:2] in ((), ("ggml", "abi")):
                self.structs.setdefault(e.get("name"), []).append(e)
            self._walk(e, names)

    def type(self, identity, pointed=0):
        e = self._ids.get(identity)
        kind, name = (e.tag, e.get("name", "")) if e is not None else ("", "")
        if kind in ("typedef-decl", "qualified-type-def"):
            return self.type(e.get("type-id"), pointed)
        if kind == "type-decl":
            return "?" if pointed and _NUMBER_OF.get(name) == "void" else _NUMBER_OF.get(name, name)
        if kind in ("pointer-type-def", "reference-type-def"):
            return "*" + self.type(e.get("type-id"), pointed + 1)
        if kind == "enum-decl":
            size = self._ids[e.find("underlying-type").get("type-id")].get("size-in-bits")
            return "?" if name == "c_void" else f"i{size}"
        if kind == "function-type":
            return "fn"
        if kind == "array-type-def":
            return self.type(e.get("type-id"), pointed) + "".join(f"[{r.get('length')}]" for r in e.iter("subrange"))
        if kind in ("class-decl", "union-decl"):
            if name.startswith("Option<"): # a function's address, or NULL
                return "*fn"
            if pointed:
                return "?" if e.get("is-anonymous") == "yes" else "FILE" if name == "_IO_FILE" else name
            return "{" + ", ".join(f"{offset} {n} {t}" for n, offset, t in self.fields(e)) + "}"
        return kind or "?"

    def fields(self, struct):
        """[(name, offset in bytes, type)]"""
        members = [(m.find("var-decl"), int(m.get("layout-offset-in-bits", 0))) for m in struct.findall("data-member") if m.get("static") != "yes"]
        return [(v.get("name"), offset // 8, self.type(v.get("type-id"))) for v, offset in members]

    def signature(self, name):
        f = self.functions[name]
        return [*("..." if p.get("is-variadic") == "yes" else self.type(p.get("type-id")) for p in f.findall("parameter")),
                "-> " + self.type(f.find("return").get("type-id"))]

    def layouts(self, name):
        return [(int(s.get("size-in-bits")) // 8, self.fields(s)) for s in self.structs.get(name, [])]


def same(a, b):
    """Whether two types are one; ? may be whatever a pointer leads to."""
    return a == b or a[:1] == b[:1] == "*" and ("?" in (a[1:], b[1:]) or same(a[1:], b[1:]))


def _signature_differs(a, b):
    return len(a) != len(b) or not all(same(x.removeprefix("-> "), y.removeprefix("-> ")) for x, y in zip(a, b))


def compare_functions(original, ours, exported, allowed):
    """Compares the functions of these names. Returns the names that both know, and texts of the differences that the
    list does not allow."""
    common, found = sorted(original.functions.keys() & ours.functions.keys() & exported), []
    for name in common:
        a, b = original.signature(name), ours.signature(name)
        if _signature_differs(a, b) and not allowed.has("differs", name):
            found.append(f"{name} ({' '.join(a)}) is ({' '.join(b)}) here")
    return common, found


def compare_struct(original, ours, name):
    """Returns texts of the differences, or None if one of the two does not have it."""
    theirs, mine = original.layouts(name), ours.layouts(name)
    if not theirs or not mine:
        return None
    found = []
    for size, fields in theirs:
        for my_size, my_fields in mine:
            if size != my_size:
                found.append(f"{name} has {size} bytes, and {my_size} here")
            here = {n: (offset, t) for n, offset, t in my_fields}
            for field, offset, t in fields:
                at, kind = here.pop(field, (None, ""))
                if at != offset or not same(t, kind):
                    found.append(f"{name}.{field} is {t} at byte {offset}, and {'gone' if at is None else f'{kind} at byte {at}'} here")
            found += [f"{name}.{field} is new here" for field in here]
    return list(dict.fromkeys(found))
