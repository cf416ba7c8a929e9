"""For gdb, which reads a library's debug information: prints, as JSON, facts by name about the functions that the
library exports (the types of the parameters and of the result) and about structs and their members, in words that C and
Rust share.

Numbers have Rust's names; an enum is a signed integer. A pointer is *T, where T is ? when it is void or a struct
without a name; a function's address is *fn. A struct by value is its members.
"""
import json
import re
import subprocess

import gdb


def word(kind, pointed=False):
    kind = kind.strip_typedefs().unqualified()
    code, name = kind.code, str(kind)
    if code in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_REF):
        return "*" + word(kind.target(), True)
    if "Option<" in name: # a function's address, or NULL
        return "*fn"
    if code == gdb.TYPE_CODE_FUNC:
        return "fn"
    if code == gdb.TYPE_CODE_ARRAY:
        return f"{word(kind.target(), pointed)}[{kind.range()[1] + 1}]"
    if code == gdb.TYPE_CODE_VOID or name == "()" or name.endswith("c_void"):
        return "?" if pointed else "void"
    if code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        if pointed:
            return (kind.name or "?").rsplit("::", 1)[-1].replace("_IO_FILE", "FILE")
        return " ".join(["{", *(f"{at} {member} {text}" for member, at, text in members(kind)), "}"])
    if code == gdb.TYPE_CODE_BOOL:
        return "bool"
    letter = "f" if code == gdb.TYPE_CODE_FLT else "i" if code == gdb.TYPE_CODE_ENUM or kind.is_signed else "u"
    return f"{letter}{8 * kind.sizeof}"


def members(struct):
    """(name, offset in bytes, type)"""
    return [(f.name, f.bitpos // 8, word(f.type)) for f in struct.fields() if hasattr(f, "bitpos")]


def functions(library):
    for line in subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        address, letter, name = line.split()
        block = gdb.block_for_pc(int(address, 16)) if letter in "TWi" else None
        while block and not block.function:
            block = block.superblock
        if block:
            kind = block.function.type
            yield name.split("@")[0], " ".join([*(word(f.type) for f in kind.fields()), "returns", word(kind.target())])


def structs():
    """C's types, and of Rust's those that represent C's."""
    listed = gdb.execute("info types -q gg[mu][lf]", to_string=True)
    names = set(re.findall(r"^(?:\d+:)?\s+(?:typedef .* |struct )?((?:ggml::abi::(?:\w+::)*)?gg(?:ml|uf)_\w+);$", listed, re.M))
    for name, spelling in ((name, spelling) for name in sorted(names) for spelling in (name, f"struct {name}")):
        try:
            kind = gdb.lookup_type(spelling).strip_typedefs()
        except gdb.error: # C's structs need the word
            continue
        if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION) and kind.sizeof > 0: # Rust's opaque types have none
            label = "struct " + name.rsplit("::", 1)[-1]
            yield label, f"{kind.sizeof} bytes"
            yield from ((f"{label}.{member}", f"{text} at {at}") for member, at, text in members(kind))


print(json.dumps(dict([*functions(gdb.current_progspace().filename), *structs()])))
