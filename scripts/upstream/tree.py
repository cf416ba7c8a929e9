"""A source tree of the original: its files, the functions, tables and types in them; and the comparison of two."""
import functools
import os
import re
from collections import Counter
from pathlib import Path

from . import clang

# What modules and backends include besides the public headers.
INTERNAL = ("src/ggml-backend-impl.h", "src/ggml-common.h", "src/ggml-impl.h", "src/ggml-quants.h", "src/ggml-threading.h")
# The files that are read function by function; of others, the number of lines is enough. Kernels for processors other
# than x86 are among these.
_OURS = re.compile(r"(include/|src/|src/ggml-cpu/(arch/x86/)?|src/ggml-(rpc|vulkan)/(.*/)?)[^/]+\.(c|cpp|h)$")
COMMENT = re.compile(
    r"""R"(?P<raw>\w*)\(.*?\)(?P=raw)" | "(?:\\.|[^"\\\n])*" | (?<!\w)'(?:\\.|[^'\\\n])*' | (?P<comment>//[^\n]*|/\*.*?\*/)""",
    re.X | re.S)
_BRACKET = re.compile(r'"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])*\'|(?P<open>[(\[{])|(?P<close>[)\]}])|;')


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
            folders[:] = [f for f in folders if not f.startswith(".")]
            paths = [os.path.relpath(os.path.join(folder, name), root) for name in names if not name.startswith(".")]
            # fetch.py makes a ggml.pc.in.
            self.files += [path for path in paths if path != "ggml.pc.in" or "the original, for tests" not in self.text(path)]
        self.files.sort()
        self.ours = [path for path in self.files if _OURS.match(path)]

    @functools.cache
    def text(self, path):
        file = Path(self.root, path)
        return file.read_text(errors="replace") if file.is_file() else ""

    @functools.cache
    def plain(self, path):
        """The text without comments, on the same lines."""
        return COMMENT.sub(lambda m: " " + "\n" * m[0].count("\n") if m["comment"] else m[0], self.text(path))

    def interface(self):
        """The headers of C that hosts and modules are compiled with; the public ones first."""
        public = [f for f in self.files if f.startswith("include/") and f.endswith(".h") and not f.endswith("-cpp.h")]
        return public + [f for f in INTERNAL if f in self.files]

    def version(self):
        numbers = re.findall(r"set\s*\(\s*GGML_VERSION_(?:MAJOR|MINOR|PATCH)\s+(\d+)", self.text("CMakeLists.txt"))
        return ".".join(numbers) or "unknown"

    @functools.cache
    def _pieces(self, path):
        lines, found = self.plain(path).split("\n"), {}
        owner = [("rest", "")] * len(lines)
        for first, last, *what in sorted(_extents(self, path), key=lambda e: (e[0] - e[1], e)):
            owner[first:last + 1] = [tuple(what)] * (last + 1 - first)
        for who, line in zip(owner, lines):
            if line.strip():
                found.setdefault(who, []).append(" ".join(line.split()))
        return found

    def pieces(self, *kinds):
        """(path, name, lines) of each function, table or type of our files; the rest, without a name, is the lines of a
        file around them. Overloads share their name's entry."""
        return [(path, name, lines) for path in self.ours for (kind, name), lines in self._pieces(path).items() if kind in kinds]


_INSIDE = {"NAMESPACE", "LINKAGE_SPEC", "UNEXPOSED_DECL"}
_TYPES = {"STRUCT_DECL", "CLASS_DECL", "CLASS_TEMPLATE", "CLASS_TEMPLATE_PARTIAL_SPECIALIZATION", "UNION_DECL", "ENUM_DECL"}
_FUNCTIONS = {"FUNCTION_DECL", "FUNCTION_TEMPLATE", "CXX_METHOD", "CONSTRUCTOR", "DESTRUCTOR", "CONVERSION_FUNCTION"}


def _name(c):
    """A::b for the member b of the type A. A type without a name has none."""
    own = "" if "(unnamed" in c.spelling or "(anonymous" in c.spelling else c.spelling
    outer = _name(c.semantic_parent) if c.semantic_parent and c.semantic_parent.kind.name in _TYPES else ""
    return f"{outer}::{own}" if outer and own else own


def _extents(tree, path):
    """[(first line, last line, kind, name)] of definitions. If the branches of an #if are parts of one definition, the
    branch counts that a compiler takes."""
    def walk(cursor):
        for c in cursor.get_children():
            kind, first, last = c.kind.name, c.extent.start.line - 1, c.extent.end.line - 1
            if not c.location.file or c.location.file.name != file:
                continue
            if kind in _FUNCTIONS and c.is_definition():
                yield first, last, "function", _name(c)
            elif kind in _TYPES and c.is_definition() and _name(c):
                yield first, last, "type", _name(c)
            elif kind == "VAR_DECL" and cursor.kind.name not in _TYPES:
                # False if libclang does not know the type.
                known = any(x.kind.name == "INIT_LIST_EXPR" for x in c.get_children())
                text = "\n".join(lines[first:last + 1]) if known else until("\n".join(lines[first:]), ";")
                if known or "{" in text:
                    yield first, first + text.count("\n"), "table", c.spelling
            if kind in _INSIDE | _TYPES:
                yield from walk(c)

    lines, file, text = tree.plain(path).split("\n"), f"{tree.root}/{path}", tree.text(path)
    taken = list(walk(clang.parse(file, text, 0, tree.root).cursor))
    functions = [e for e in taken if e[2] == "function"]
    return taken + [e for e in walk(clang.parse(file, text, clang.SINGLE, tree.root).cursor)
                    if e not in taken and not any(e[0] <= f[1] and f[0] <= e[1] for f in functions)]


def differing(a, b):
    """The lines that only the one has, and only the other, in their order. Spacing does not count."""
    def more(lines, than):
        left, found = Counter(map(_key, than)), []
        for line in lines:
            left[_key(line)] -= 1
            if left[_key(line)] < 0:
                found.append(line)
        return found

    return more(a, b), more(b, a)


def _key(line):
    return "".join(line.split())


def compared(old, new, limit=10 ** 6):
    """The items for two dictionaries of facts by name. A fact is a text, or a list of lines, of which those are items
    that only one side has, or their number if there are more than `limit`."""
    items = []
    for name in {**new, **old}:
        before, after = ([fact] if isinstance(fact, str) else fact for fact in (old.get(name, []), new.get(name, [])))
        gone, come = differing(before, after)
        if len(gone) + len(come) > limit:
            sign = "+" if name not in old else "-" if name not in new else "~"
            items.append(f"{sign} {name} +{len(come)} -{len(gone)}")
        elif len(gone) == len(come) == 1:
            items.append(f"~ {name}: {gone[0]} -> {come[0]}")
        elif gone or come:
            items += [f"- {name}: {line}" for line in gone] + [f"+ {name}: {line}" for line in come]
        elif list(map(_key, before)) != list(map(_key, after)):
            items.append(f"~ {name} in another order")
    return items
