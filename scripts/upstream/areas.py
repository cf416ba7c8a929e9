"""Files by the part of the original that they belong to, and how many of their lines changed."""
import re
from collections import Counter

from .tree import amount, both, differing, mark

# The first folder or file that fits; anything else in a folder src/ggml-X is the backend X.
_AREAS = {
    "headers": ("include/",), "cpu": ("src/ggml-cpu/",), "vulkan": ("src/ggml-vulkan/",), "rpc": ("src/ggml-rpc/",), "meta": ("src/ggml-backend-meta",),
    "registry": ("src/ggml-backend-reg", "src/ggml-backend-dl"), "scheduler": ("src/ggml-backend.cpp",), "allocator": ("src/ggml-alloc",), "gguf": ("src/gguf",),
    "quants": ("src/ggml-quants", "src/ggml-common.h"), "training": ("src/ggml-opt",), "build": ("CMakeLists.txt", "cmake/", "src/CMakeLists.txt", "ggml.pc.in"),
    "core": ("src/ggml.", "src/ggml-impl.h", "src/ggml-backend-impl.h", "src/ggml-threading", "src/ggml-version", "src/ggml-feats.h")}
_ORDER = list(_AREAS)


def area(path):
    backend = re.match(r"src/ggml-([^/]*)/", path)
    return next((name for name, starts in _AREAS.items() if path.startswith(starts)), backend[1] if backend else "other")


def rank(path):
    """Sorts by area, then by path."""
    name = area(path)
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name, path)


def files(old, new):
    """A line for each file of the areas above, and for each other backend one with the sums."""
    items, sums = [], {}
    for path in sorted(both(old, new), key=rank):
        here, there = path in old.files, path in new.files
        sides = [tree.text(path).split("\n") if there_is else [] for tree, there_is in ((old, here), (new, there))]
        name = area(path)
        if name in _ORDER:
            items.append(f"{mark(here, there)} {name}: {path} {amount(*sides)}")
        else:
            gone, come = differing(*sides)
            sums.setdefault(name, Counter()).update({mark(here, there): 1, "added": len(come), "removed": len(gone)})
    return items + [f"~ other backend {name}: {n['~']} files changed, {n['+']} new, {n['-']} gone, +{n['added']} -{n['removed']}" for name, n in sorted(sums.items())]
