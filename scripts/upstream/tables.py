"""Tables and names inside the sources: environment variables, functions that are looked up by name, tables by type and
by operation."""
import re
from difflib import SequenceMatcher

from .bodies import ours
from .heads import is_mark
from .tokens import closing, split, text_of, tokenize
from .tree import SOURCES, both

# Arrays longer than this are shown by their number of changes.
_LONG = 200


def _string(token):
    return token.text[token.text.index('"') + 1:-1]


def _readers(tree, path):
    """Functions of a file that pass a parameter of theirs to getenv."""
    found = {"getenv", "secure_getenv"}
    for f in tree.parse(path).functions:
        names = {n for _, n in f.params}
        for n, t in enumerate(f.body or []):
            if t.text == "getenv" and n + 2 < len(f.body) and f.body[n + 2].text in names:
                found.add(f.name.rsplit("::", 1)[-1])
    return found


def variables(tree, paths):
    """Name of a variable -> the files that read it, of these."""
    found, wrappers = {}, {"getenv"}
    # Of a name: a parameter or a macro.
    texts = [p for p in paths if re.search(r"getenv\s*\(\s*[A-Za-z_]", tree.text(p))]
    for path in texts:
        wrappers |= _readers(tree, path)
    for path in paths:
        if not any(w in tree.text(path) for w in wrappers):
            continue
        tokens = [t for t in tokenize(tree.text(path))[0] if t.kind != "directive"]
        macros = tree.parse(path).macros if path in texts else {}
        for n, t in enumerate(tokens[:-2]):
            if (t.text in wrappers or "getenv" in t.text and t.kind == "name") and is_mark(tokens[n + 1], "("):
                first = tokens[n + 2]
                if first.kind == "name" and first.text in macros: # the name is in a macro
                    first = (tokenize(macros[first.text][0][1])[0] or [first])[0]
                if first.kind == "text":
                    found.setdefault(_string(first), set()).add(path)
    return found


def _environment(tree, other):
    """As variables(), of the files that differ."""
    return variables(tree, [p for p in tree.files if p.endswith(SOURCES) and tree.text(p) != other.text(p)])


def environment(old, new):
    """Variables that the sources read; those of our parts first."""
    items = []
    a, b = _environment(old, new), _environment(new, old)
    same = [old.text(p) for p in old.files if p.endswith(SOURCES) and old.text(p) == new.text(p)]
    for name in sorted({*a, *b}, key=lambda n: (not any(map(ours, (*a.get(n, ()), *b.get(n, ())))), n)):
        if (name in a) != (name in b) and any(f'"{name}"' in text for text in same): # others read it before and after
            continue
        if name not in a:
            items.append(f"+ {name} ({', '.join(sorted(b[name]))})")
        elif name not in b:
            items.append(f"- {name} ({', '.join(sorted(a[name]))})")
        elif a[name] != b[name]:
            items.append(f"~ {name}: {', '.join(sorted(a[name]))} -> {', '.join(sorted(b[name]))}")
    return items


def _looked_up(tree):
    """(file, name) of the names in the get_proc_address functions."""
    found = set()
    for path in tree.files:
        if path.endswith(SOURCES) and "get_proc_address" in tree.text(path):
            for f in tree.parse(path).functions:
                if f.body and "get_proc_address" in f.name:
                    found |= {(path, _string(t)) for t in f.body if t.kind == "text" and t.text.startswith('"ggml_')}
    return found


def lookups(old, new):
    a, b = _looked_up(old), _looked_up(new)
    return [f"{'+' if entry in b else '-'} {entry[1]} ({entry[0]})" for entry in sorted(a ^ b, key=lambda e: (not ours(e[0]), e))]


def entries(init):
    """The elements of an array's initializer: [(index as text or None, tokens)]."""
    if not init or not is_mark(init[0], "{"):
        return []
    found = []
    for part in split(init[1:closing(init, 0)]):
        key = None
        if part and is_mark(part[0], "["):
            end = closing(part, 0)
            key, part = text_of(part[1:end]), part[end + 1:]
            part = part[1:] if part and is_mark(part[0], "=") else part
        if part or key:
            found.append((key, part))
    return found


def _members(tokens):
    """.name = value of a struct's initializer; name -> text."""
    found = {}
    if tokens and is_mark(tokens[0], "{"):
        for part in split(tokens[1:closing(tokens, 0)]):
            if len(part) > 3 and is_mark(part[0], ".") and is_mark(part[2], "="):
                found[part[1].text] = text_of(part[3:])
    return found


def _keyed(name, a, b):
    items = []
    before, after = dict(a), dict(b)
    for key in [k for k, _ in b if k not in before]:
        items.append(f"+ {name}[{key}] {text_of(after[key])}")
    for key in [k for k, _ in a]:
        if key not in after:
            items.append(f"- {name}[{key}] {text_of(before[key])}")
        elif text_of(before[key]) != text_of(after[key]):
            x, y = _members(before[key]), _members(after[key])
            if x and y:
                items += [f"~ {name}[{key}].{m}: {x.get(m, 'none')} -> {y.get(m, 'none')}" for m in sorted({*x, *y}) if x.get(m) != y.get(m)]
            else:
                items.append(f"~ {name}[{key}]: {text_of(before[key])} -> {text_of(after[key])}")
    return items


def _listed(name, a, b):
    one, other = [text_of(t) for _, t in a], [text_of(t) for _, t in b]
    items, count = [], 0
    for kind, i, j, k, m in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if kind != "equal":
            items += [f"- {name}[{n}] {one[n]}" for n in range(i, j)] + [f"+ {name}[{n}] {other[n]}" for n in range(k, m)]
            count += max(j - i, m - k)
    if len(one) > _LONG or len(other) > _LONG:
        return [f"~ {name}: {count} of {len(other)} numbers, {len(one)} before"] if items else []
    return items


def tables(old, new):
    """Arrays of the core, the CPU backend and ggml-common.h: names and symbols of operations, traits of types,
    codebooks."""
    items = []
    for path in both(old, new, lambda p: p.startswith("src/ggml-cpu/") and p.count("/") == 2 or p.startswith("src/") and p.count("/") == 1):
        if not path.endswith(SOURCES) or old.text(path) == new.text(path):
            continue
        before, after = old.parse(path).variables, new.parse(path).variables
        for name in sorted({*before, *after}):
            a, b = (entries(v.init) if v and "[" in v.type else [] for v in (before.get(name), after.get(name)))
            label = f"{path.rsplit('/', 1)[1]}: {name}"
            if not a and not b:
                continue
            if name not in before or name not in after:
                items.append(f"{'+' if name in after else '-'} {label}: {len(a or b)} elements")
            elif any(k for k, _ in a) and any(k for k, _ in b):
                items += _keyed(label, a, b)
            else:
                items += _listed(label, a, b)
    return items
