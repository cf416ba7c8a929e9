"""Names that the shared libraries export: those that headers mark, changed by the visibility of a library."""
from .cmake import hidden, sources

_LIBRARIES = ("ggml-base", "ggml")


def _marked(tree):
    """Name -> the file that declares it with GGML_API or the like."""
    found = {}
    for path in tree.files:
        if path.endswith((".h", ".hpp", ".c", ".cpp")) and "_API " in tree.text(path):
            d = tree.parse(path)
            for entry in [*d.functions, *d.variables.values()]:
                if entry.exported:
                    found.setdefault(entry.name, path)
    return found


def _c_names(tree):
    """Functions that some header of include/ and src/ declares with C linkage."""
    return {f.name for path in tree.files if path.endswith(".h") and path.count("/") == 1 for f in tree.parse(path).functions if f.c_linkage}


def shown(tree, library):
    """The C names that a shared library exports, and whether it hides the rest: (names, bool)."""
    marked, c_names, names = _marked(tree), _c_names(tree), set()
    for path in sources(tree, library):
        d = tree.parse(path)
        for f in d.functions:
            visible = f.body is not None and not f.static and not f.inline and "::" not in f.name
            if visible and (path.endswith(".c") or f.c_linkage or f.name in c_names):
                names.add(f.name)
        names |= {v.name for v in d.variables.values() if not v.static and (path.endswith(".c") or not v.constant)}
    concealed = hidden(tree, library)
    return {n for n in names if n in marked} if concealed else names, concealed


def exports(old, new):
    items = []
    a, b = _marked(old), _marked(new)
    items += [f"+ {n} ({b[n]})" for n in sorted(b) if n not in a]
    items += [f"- {n} ({a[n]})" for n in sorted(a) if n not in b]
    for library in _LIBRARIES:
        (before, was), (after, is_) = shown(old, library), shown(new, library)
        if was != is_:
            words = ("default", "hidden")
            items.append(f"~ visibility of {library}: {words[was]} -> {words[is_]}")
        items += [f"- lib{library} no longer shows {n}" for n in sorted(before - after) if n not in a]
        items += [f"+ lib{library} shows {n}, which no header marks" for n in sorted(after - before) if n not in b]
    return items
