"""Files by the part of the original that they belong to, and how many of their lines changed."""
import os
import re

from .bodies import calls, changes
from .tree import amount, both, changed_lines

# The first folder or file that matches. Anything else in a folder src/ggml-X is the backend X.
_AREAS = (
    ("headers", ("include/",)), ("cpu", ("src/ggml-cpu/",)), ("vulkan", ("src/ggml-vulkan/", "include/ggml-vulkan.h")), ("rpc", ("src/ggml-rpc/",)),
    ("meta", ("src/ggml-backend-meta",)), ("registry", ("src/ggml-backend-reg", "src/ggml-backend-dl")), ("scheduler", ("src/ggml-backend.cpp",)),
    ("allocator", ("src/ggml-alloc",)), ("gguf", ("src/gguf",)), ("quants", ("src/ggml-quants", "src/ggml-common.h")), ("training", ("src/ggml-opt",)),
    ("build", ("CMakeLists.txt", "cmake/", "src/CMakeLists.txt", "ggml.pc.in")),
    ("core", ("src/ggml.", "src/ggml-impl.h", "src/ggml-backend-impl.h", "src/ggml-threading", "src/ggml-version", "src/ggml-feats.h")),
)
_ORDER = [name for name, _ in _AREAS]


def area(path):
    for name, starts in _AREAS:
        if path.startswith(starts):
            return name
    parts = path.split("/")
    return parts[1][5:] if parts[0] == "src" and len(parts) > 2 and parts[1].startswith("ggml-") else "other"


def rank(path):
    name = area(path)
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name, path)


def files(old, new):
    """A line for each file of the areas above, and for each other backend one with the sums."""
    items, sums = [], {}
    for path in sorted(both(old, new), key=rank):
        a, b = old.text(path), new.text(path)
        here, there = path in old.files, path in new.files
        if here and there and (a == b if a or b else os.path.getsize(f"{old.root}/{path}") == os.path.getsize(f"{new.root}/{path}")):
            continue
        counts = changed_lines(a.split("\n") if here else [], b.split("\n") if there else [])
        name = area(path)
        if name in _ORDER:
            items.append(f"{'~' if here and there else '+' if there else '-'} {name}: {path} {amount(*counts)}")
        else:
            total = sums.setdefault(name, [0, 0, 0, 0, 0])
            for n, more in enumerate((here and there, there and not here, here and not there, *counts)):
                total[n] += more
    return items + [f"~ other backend {name}: {c} files changed, {p} new, {m} gone, {amount(added, removed)}"
                    for name, (c, p, m, added, removed) in sorted(sums.items())]


def _foreign(path):
    """Kernels for one kind of processor: the number of functions is enough, except for x86."""
    return path.startswith("src/ggml-cpu/") and path.count("/") > 2 and not path.startswith("src/ggml-cpu/arch/x86/")


def by_area(functions):
    """Changed functions with their area before them, in the order of the areas; those of foreign kernels are
    counted."""
    items, counts = [], {}
    for mark, path, name, added, removed in sorted(functions, key=lambda f: (rank(f[1]), f[2], f[0])):
        if _foreign(path):
            n, more, less = counts.get(path, (0, 0, 0))
            counts[path] = (n + 1, more + added, less + removed)
        else:
            items.append(f"{mark} {area(path)}: {path} {name} {amount(added, removed)}")
    return items + [f"~ {area(path)}: {path} {n} functions {amount(more, less)}" for path, (n, more, less) in sorted(counts.items())]


def log_lines(old, new):
    """Formats of log lines in our files: tools read some of them."""
    items = []
    for change in changes(old, new):
        if change.path.startswith("src/ggml-cpu/") and change.path.count("/") > 2:
            continue
        sides = []
        for f in (change.before, change.after):
            names = sorted({t.text for t in f.body if re.fullmatch(r"([A-Z]+_)?LOG_[A-Z]+", t.text)}) if f else []
            sides.append({call: name.rsplit("_", 1)[1] for name in names for call in calls(f.body, name)})
        where = f"{change.path.rsplit('/', 1)[1]} {change.name}"
        items += [f"- {where}: {sides[0][call]} {call}" for call in sorted(sides[0]) if call not in sides[1]]
        items += [f"+ {where}: {sides[1][call]} {call}" for call in sorted(sides[1]) if call not in sides[0]]
    return items
