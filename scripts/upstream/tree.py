"""A source tree of the original: its files, what they declare, and lines that differ between two of them."""
import os
import re
import sys
from difflib import SequenceMatcher

from .declarations import parse
from .values import Constants

# Headers that modules and backends include besides the public headers.
INTERNAL = ("src/ggml-backend-impl.h", "src/ggml-common.h", "src/ggml-cpu/ggml-cpu-impl.h", "src/ggml-impl.h", "src/ggml-quants.h",
            "src/ggml-threading.h")
SOURCES = (".c", ".cpp", ".h", ".hpp", ".cu", ".cuh", ".m", ".mm", ".comp", ".glsl", ".metal", ".cl")


class Tree:
    def __init__(self, root):
        self.root = root
        self._texts, self._parsed = {}, {}
        self.files = []
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(f for f in folders if not f.startswith("."))
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
                # See fetch.py.
                if not name.startswith(".") and not (name == "ggml.pc.in" and "the original, for tests" in self.text(path)):
                    self.files.append(path)
        self.files.sort()
        self._constants = None

    def text(self, path):
        if path not in self._texts:
            try:
                with open(os.path.join(self.root, path), encoding="utf-8", errors="replace", newline="") as f:
                    self._texts[path] = f.read().replace("\r\n", "\n")
            except OSError:
                self._texts[path] = ""
        return self._texts[path]

    def parse(self, path):
        """The declarations of a file; none if there is no such file."""
        if path not in self._parsed:
            try:
                self._parsed[path] = parse(self.text(path))
            except (IndexError, RecursionError) as e: # it goes on without this file, and reports it
                print(f"upstream-diff: {path} is not understood ({type(e).__name__})", file=sys.stderr)
                self._parsed[path] = parse("")
        return self._parsed[path]

    def headers(self):
        """The public headers."""
        return [f for f in self.files if f.startswith("include/") and f.endswith(".h")]

    def interface(self):
        """The headers that hosts and modules are compiled with."""
        return self.headers() + [f for f in INTERNAL if f in self.files]

    def constants(self):
        if self._constants is None:
            self._constants = Constants([self.parse(h) for h in self.interface()])
        return self._constants

    def version(self):
        text = self.text("CMakeLists.txt")
        numbers = [re.search(rf"set\s*\(\s*GGML_VERSION_{part}\s+(\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
        return ".".join(m.group(1) for m in numbers) if all(numbers) else "unknown"


def both(old, new, pick=lambda path: True):
    """Paths that are in either tree."""
    return sorted(p for p in {*old.files, *new.files} if pick(p))


def changed_values(what, a, b):
    """Lines for two dictionaries of texts by name."""
    for name in sorted({*a, *b}):
        if name not in a:
            yield f"+ {what} {name}: {b[name]}"
        elif name not in b:
            yield f"- {what} {name}: {a[name]}"
        elif a[name] != b[name]:
            yield f"~ {what} {name}: {a[name]} -> {b[name]}"


def short(path):
    return path[path.rindex("/") + 1:] if path.startswith("include/") or path in INTERNAL else path


def _anchors(a, b):
    """Lines that are there once on both sides, in the same order: [(index in a, index in b)]."""
    def once(lines):
        count = {}
        for n, line in enumerate(lines):
            count[line] = None if line in count else n
        return {line: n for line, n in count.items() if n is not None}

    left, right = once(a), once(b)
    pairs = sorted((left[line], right[line]) for line in left.keys() & right.keys())
    piles, back = [], []
    for n, (_, y) in enumerate(pairs): # the longest rising row of them
        low, high = 0, len(piles)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if pairs[piles[middle]][1] < y else (low, middle)
        back.append(piles[low - 1] if low else None)
        piles[low:low + 1] = [n]
    found, n = [], piles[-1] if piles else None
    while n is not None:
        found.append(pairs[n])
        n = back[n]
    return found[::-1]


def changed_lines(a, b):
    """How many lines were (added, removed)."""
    begin = 0
    while begin < min(len(a), len(b)) and a[begin] == b[begin]:
        begin += 1
    end = 0
    while end < min(len(a), len(b)) - begin and a[-1 - end] == b[-1 - end]:
        end += 1
    a, b = a[begin:len(a) - end], b[begin:len(b) - end]
    if not a or not b:
        return len(b), len(a)
    anchors = _anchors(a, b) if len(a) * len(b) > 400 else []
    if anchors:
        added = removed = x = y = 0
        for i, j in [*anchors, (len(a), len(b))]:
            more, less = changed_lines(a[x:i], b[y:j])
            added, removed, x, y = added + more, removed + less, i + 1, j + 1
        return added, removed
    if len(a) * len(b) > 4000000:
        return len(b), len(a)
    same = sum(block.size for block in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks())
    return len(b) - same, len(a) - same


def amount(added, removed):
    return f"+{added} -{removed}"
