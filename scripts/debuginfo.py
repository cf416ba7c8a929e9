"""Signatures and layouts of a library's own debug information, by abidw, in words that C and Rust share.

Numbers have Rust's names; an enum is a signed integer. A pointer is *T, where T is ? when it is void or a struct whose
fields are not in it; a function's address is *fn. A struct by value is its fields. Facts are such words, with spaces
between them.
"""
import os
import subprocess
import xml.etree.ElementTree as xml

_NUMBERS = {
    "i8": ("char", "signed char"), "u8": ("unsigned char",), "i16": ("short int",), "u16": ("unsigned short int", "short unsigned int"),
    "i32": ("int",), "u32": ("unsigned int",), "i64": ("isize", "long int", "long long int"),
    "u64": ("usize", "unsigned long int", "long unsigned int", "unsigned long long int", "long long unsigned int"),
    "f32": ("float",), "f64": ("double",), "bool": ("_Bool",), "void": ("()", "!")}
_NUMBER_OF = {name: number for number, names in _NUMBERS.items() for name in (number, *names)}


class DebugInfo:
    """Of libraries: `functions`, name -> types of the parameters and of the result, and `structs`, name -> facts."""
    def __init__(self, *libraries):
        self.functions, self.structs = {}, {}
        for library in libraries:
            text = subprocess.run([os.environ.get("ABIDW", "abidw"), "--no-show-locs", library], stdout=subprocess.PIPE, check=True).stdout
            root = xml.fromstring(text)
            self._types = {e.get("id"): e for e in root.iter() if e.get("id")}
            self._walk(root, ())

    def _walk(self, element, names):
        for e in element:
            if e.tag == "namespace-decl":
                self._walk(e, (*names, e.get("name")))
                continue
            if e.tag == "function-decl" and e.get("elf-symbol-id"):
                self.functions[e.get("elf-symbol-id")] = self._signature(e)
            elif e.tag == "function-decl" and element.tag == "abi-instr":
                # abidw loses the symbol of a function that it met in another source first, as a declaration.
                self.functions.setdefault(e.get("name"), self._signature(e))
            # Of Rust's types, those that represent C's.
            if e.tag == "class-decl" and e.get("size-in-bits") and e.get("is-anonymous") != "yes" and names[:2] in ((), ("ggml", "abi")):
                struct = self.structs.setdefault(e.get("name"), {})
                facts = {"": f"{int(e.get('size-in-bits')) // 8} bytes", **{f".{name}": f"{kind} at {at}" for name, at, kind in self._fields(e)}}
                # All sources of a library must agree.
                struct.update({name: fact if struct.get(name, fact) == fact else f"{struct[name]} or {fact}" for name, fact in facts.items()})
            self._walk(e, names)

    def _type(self, identity, pointed=0):
        e = self._types.get(identity)
        kind, name = (e.tag, e.get("name", "")) if e is not None else ("", "")
        if kind in ("typedef-decl", "qualified-type-def"):
            return self._type(e.get("type-id"), pointed)
        if kind == "type-decl":
            return "?" if pointed and _NUMBER_OF.get(name) == "void" else _NUMBER_OF.get(name, name)
        if kind in ("pointer-type-def", "reference-type-def"):
            return "*" + self._type(e.get("type-id"), pointed + 1)
        if kind == "enum-decl":
            size = self._types[e.find("underlying-type").get("type-id")].get("size-in-bits")
            return "?" if name == "c_void" else f"i{size}"
        if kind == "function-type":
            return "fn"
        if kind == "array-type-def":
            return self._type(e.get("type-id"), pointed) + "".join(f"[{r.get('length')}]" for r in e.iter("subrange"))
        if kind in ("class-decl", "union-decl"):
            if name.startswith("Option<"): # a function's address, or NULL
                return "*fn"
            if pointed:
                return "?" if e.get("is-anonymous") == "yes" else "FILE" if name == "_IO_FILE" else name
            return " ".join(["{", *(f"{at} {n} {t}" for n, at, t in self._fields(e)), "}"])
        return kind or "?"

    def _fields(self, struct):
        """(name, offset in bytes, type)"""
        for member in struct.findall("data-member"):
            if member.get("static") != "yes":
                v = member.find("var-decl")
                yield v.get("name"), int(member.get("layout-offset-in-bits", 0)) // 8, self._type(v.get("type-id"))

    def _signature(self, function):
        params = ["..." if p.get("is-variadic") == "yes" else self._type(p.get("type-id")) for p in function.findall("parameter")]
        return " ".join([*params, "->", self._type(function.find("return").get("type-id"))])


def alike(a, b):
    """Whether two types are one; ? may be whatever a pointer leads to."""
    return a == b or a[:1] == b[:1] == "*" and ("?" in (a[1:], b[1:]) or alike(a[1:], b[1:]))
