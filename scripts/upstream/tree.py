"""A source tree of the original: its files, the declarations and functions in them, and the differences between two of
them."""
import functools
import os
import re
from collections import Counter

from . import clang

# What modules and backends include besides the public headers.
INTERNAL = ("src/ggml-backend-impl.h", "src/ggml-common.h", "src/ggml-impl.h", "src/ggml-quants.h", "src/ggml-threading.h")
SOURCES = (".c", ".cpp", ".h", ".hpp", ".cu", ".cuh", ".m", ".mm", ".comp", ".glsl", ".metal", ".cl")
COMMENT = re.compile(r"""R"(?P<raw>\w*)\(.*?\)(?P=raw)" | "(?:\\.|[^"\\\n])*" | (?<!\w)'(?:\\.|[^'\\\n])*' | (?P<comment>//[^\n]*|/\*.*?\*/)""", re.X | re.S)
_BRACKET = re.compile(r'"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])*\'|(?P<open>[(\[{])|(?P<close>[)\]}])|;')
ORDER = "in another order"
# Where function by function is of use to us; elsewhere the number of lines is.
_OURS = re.compile(r"(include/|src/|src/ggml-(cpu|rpc|vulkan)/(.*/)?)[^/]+\.(c|cpp|h)$")


def ours(path):
    return bool(_OURS.match(path))


def foreign(path):
    """Kernels for one kind of processor: the number of lines is enough, except for x86."""
    return path.startswith("src/ggml-cpu/") and path.count("/") > 2 and not path.startswith("src/ggml-cpu/arch/x86/")


def until(text, mark=""):
    """The text before that mark outside brackets, or before the bracket that closes more than was opened."""
    depth = 0
    for m in _BRACKET.finditer(text):
        depth += bool(m["open"]) - bool(m["close"])
        if depth < 0 or depth == 0 and m[0] == mark:
            return text[:m.start()]
    return text


class Tree:
    def __init__(self, root):
        self.root, self.files = root, []
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(f for f in folders if not f.startswith("."))
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
                # See fetch.py.
                if not name.startswith(".") and not (name == "ggml.pc.in" and "the original, for tests" in self.text(path)):
                    self.files.append(path)
        self.files.sort()

    @functools.cache
    def text(self, path):
        try:
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace", newline="") as f:
                return f.read().replace("\r\n", "\n")
        except OSError:
            return ""

    @functools.cache
    def plain(self, path):
        """The text without comments, on the same lines."""
        return COMMENT.sub(lambda m: " " + "\n" * m[0].count("\n") if m["comment"] else m[0], self.text(path))

    def interface(self):
        """The headers of C that hosts and modules are compiled with; the public ones first."""
        return [f for f in self.files if f.startswith("include/") and f.endswith(".h") and not f.endswith("-cpp.h")] + [f for f in INTERNAL if f in self.files]

    def version(self):
        numbers = [re.search(rf"set\s*\(\s*GGML_VERSION_{part}\s+(\d+)", self.text("CMakeLists.txt")) for part in ("MAJOR", "MINOR", "PATCH")]
        return ".".join(m[1] for m in numbers) if all(numbers) else "unknown"

    @functools.cache
    def pieces(self, path):
        """(kind, name) -> the lines of a function, table or type; ("rest", "") -> the lines around them. Overloads
        share their name's entry."""
        lines, found = self.plain(path).split("\n"), {}
        owner = [("rest", "")] * len(lines)
        for first, last, *what in sorted(_extents(self, path), key=lambda e: (e[0] - e[1], e)):
            owner[first:last + 1] = [tuple(what)] * (last + 1 - first)
        for who, line in zip(owner, lines):
            if line.strip():
                found.setdefault(who, []).append(" ".join(line.split()))
        return found

    def functions(self, path):
        return {name: lines for (kind, name), lines in self.pieces(path).items() if kind == "function"}


_INSIDE = {"NAMESPACE", "LINKAGE_SPEC", "UNEXPOSED_DECL"}
_TYPES = {"STRUCT_DECL", "CLASS_DECL", "CLASS_TEMPLATE", "CLASS_TEMPLATE_PARTIAL_SPECIALIZATION", "UNION_DECL", "ENUM_DECL"}
_FUNCTIONS = {"FUNCTION_DECL", "FUNCTION_TEMPLATE", "CXX_METHOD", "CONSTRUCTOR", "DESTRUCTOR", "CONVERSION_FUNCTION"}


def _extents(tree, path):
    """[(first line, last line, kind, name)] of definitions. If the branches of an #if are parts of one definition, the
    branch counts that a compiler takes."""
    def walk(cursor, scope):
        for c in cursor.get_children():
            if not c.location.file or c.location.file.name != file:
                continue
            kind, first, last = c.kind.name, c.extent.start.line - 1, c.extent.end.line - 1
            nameless = "(unnamed" in c.spelling or "(anonymous" in c.spelling
            name = scope + ("" if nameless else c.spelling)
            if kind in _INSIDE:
                yield from walk(c, scope)
            elif kind in _FUNCTIONS and c.is_definition():
                outside = c.semantic_parent.kind.name in _TYPES and not scope
                yield first, last, "function", f"{c.semantic_parent.spelling}::{name}" if outside else name
            elif kind in _TYPES and c.is_definition():
                if not nameless:
                    yield first, last, "type", name
                yield from walk(c, scope if nameless else name + "::")
            elif kind == "VAR_DECL" and not scope:
                # False if libclang does not know the type.
                known = any(x.kind.name == "INIT_LIST_EXPR" for x in c.get_children())
                text = "\n".join(lines[first:last + 1]) if known else until("\n".join(lines[first:]), ";")
                if known or "{" in text:
                    yield first, first + text.count("\n"), "table", name

    lines, file, text = tree.plain(path).split("\n"), f"{tree.root}/{path}", tree.text(path)
    taken = list(walk(clang.parse(file, text, 0, f"-I{tree.root}/include", f"-I{tree.root}/src").cursor, ""))
    functions = [e for e in taken if e[2] == "function"]
    return taken + [e for e in walk(clang.parse(file, text, clang.SINGLE).cursor, "")
                    if e not in taken and not any(e[0] <= f[1] and f[0] <= e[1] for f in functions)]


def keys(lines):
    """The lines without their spacing."""
    return ["".join(line.split()) for line in lines]


def differing(a, b):
    """The lines that only the one has, and only the other, in their order."""
    left, right, sides = Counter(keys(a)), Counter(keys(b)), []
    for lines, more in ((a, left - right), (b, right - left)):
        sides.append([])
        for line, key in zip(lines, keys(lines)) if more else ():
            if more[key] > 0:
                more[key] -= 1
                sides[-1].append(line)
    return sides


def signed(label, sides):
    """A line for each that only the one side has, and only the other."""
    return [f"{sign} {label}: {line}" for sign, lines in zip("-+", sides) for line in lines if line]


def amount(a, b):
    gone, come = differing(a, b)
    return f"+{len(come)} -{len(gone)}" if gone or come else ORDER


def mark(before, after):
    return "~" if before and after else "+" if after else "-"


def both(old, new, pick=lambda path: True):
    """Paths that are in either tree, with different contents."""
    return sorted(p for p in {*old.files, *new.files} if pick(p) and (old.text(p) != new.text(p) or (p in old.files) != (p in new.files)))


def changed(a, b, order=None):
    """Lines for two dictionaries of texts by name."""
    for name in sorted({*a, *b}, key=order):
        if a.get(name) != b.get(name):
            yield f"{mark(name in a, name in b)} {name}: {' -> '.join(side[name] for side in (a, b) if name in side)}"
