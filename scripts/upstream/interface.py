"""Functions, types, enums, macros, counted assertions: the interface that hosts and modules are compiled against."""
import re
from difflib import SequenceMatcher

from .layout import layout
from .tokens import text_of
from .tree import amount, both, changed_lines, changed_values, short

_CORE = ("src/ggml-cpu/", "src/ggml-rpc/", "src/ggml-vulkan/")


def _headers(old, new):
    return sorted({*old.interface(), *new.interface()}, key=lambda p: (not p.startswith("include/"), p))


def _public_functions(tree, path):
    found = {}
    for f in tree.parse(path).functions:
        if path.startswith("src/ggml-cpu/") and not f.exported:
            continue
        if not f.name.startswith("ggml_unused_vars"):
            found.setdefault(f.name, []).append(f)
    return found


def _body(tree, path, function):
    lines = tree.parse(path).lines
    return [lines[n] for n in range(function.line, function.last + 1) if n in lines]


def _marks(f):
    return [word for word, given in (("exported", f.exported), ("static", f.static), ("C linkage", f.c_linkage), ("deprecated", f.deprecated)) if given]


def functions(old, new):
    items, gone, come = [], {}, {} # (header, name, line)
    for path in _headers(old, new):
        before, after = _public_functions(old, path), _public_functions(new, path)
        here = short(path)
        for name in sorted({*before, *after}):
            a, b = before.get(name, []), after.get(name, [])
            inline = "inline " if (a or b)[0].body is not None else ""
            if not a:
                come[name] = (path, [f"+ {here}: {inline}{f.prototype()}" for f in b], [f.type() for f in b])
                continue
            if not b:
                gone[name] = (path, [f"- {here}: {inline}{f.prototype()}" for f in a], [f.type() for f in a])
                continue
            if [f.type() for f in a] != [f.type() for f in b]:
                items.append((path, name, f"~ {here}: {' | '.join(f.prototype() for f in a)} -> {' | '.join(f.prototype() for f in b)}"))
            elif [[n for _, n in f.params] for f in a] != [[n for _, n in f.params] for f in b]:
                items.append((path, name, f"~ {here}: {name}: names of parameters: {a[0].prototype()} -> {b[0].prototype()}"))
            if _marks(a[0]) != _marks(b[0]):
                items.append((path, name, f"~ {here}: {name}: {', '.join(_marks(a[0])) or 'no marks'} -> {', '.join(_marks(b[0])) or 'no marks'}"))
            if inline:
                counts = changed_lines(_body(old, path, a[0]), _body(new, path, b[0]))
                if counts != (0, 0):
                    items.append((path, name, f"~ {here}: {name}: inline body {amount(*counts)}"))
    for name in {*gone, *come}:
        path, lines, kinds = gone.get(name) or come[name]
        if name in gone and name in come:
            same = "" if kinds == come[name][2] else ", and its type changed: " + come[name][1][0][2:]
            lines = [f"~ {short(path)}: {name}: moved to {short(come[name][0])}{same}"]
        items += [(path, name, line) for line in lines]
    return [line for _, _, line in sorted(items, key=lambda item: (not item[0].startswith("include/"), *item))]


def _types(tree):
    """name -> (header, Aggregate)"""
    found = {}
    for path in tree.interface():
        for a in tree.parse(path).aggregates.values():
            if a.name:
                found[a.name] = (short(path), a)
    return found


def _where(facts, key):
    return f" at {facts[key][1]}, {facts[key][0]} bytes" if key in facts else ""


def _by_name(fields):
    """Member -> its type; of a member that #if declares in several ways, all of them."""
    found = {}
    for name, kind in fields:
        found.setdefault(name, []).append(kind)
    return {name: " | ".join(dict.fromkeys(kinds)) for name, kinds in found.items()}


def field_changes(name, a, b, facts_a, facts_b):
    before, after = _by_name(a.fields), _by_name(b.fields)
    items, order = [], [n for n in before if n in after]
    last = list(after).index(order[-1]) if order else 0
    for n, field in enumerate(after):
        if field not in before:
            place = ", behind all others" if order and n > last else ", between others" if order else ""
            items.append(f"+ {name}.{field}: {after[field]}{_where(facts_b, f'{name}.{field}')}{place}")
    for field, kind in before.items():
        if field not in after:
            items.append(f"- {name}.{field}: {kind}{_where(facts_a, f'{name}.{field}')}")
        elif kind != after[field]:
            items.append(f"~ {name}.{field}: type {kind} -> {after[field]}")
    now = [n for n in after if n in before]
    if order != now:
        kept = {order[n] for m in SequenceMatcher(None, order, now, autojunk=False).get_matching_blocks() for n in range(m.a, m.a + m.size)}
        items.append(f"~ {name}: members in another order: {', '.join(n for n in now if n not in kept)} moved")
    for what, index in (("size", 0), ("offset", 1)):
        for field in before:
            key = f"{name}.{field}"
            if key in facts_a and key in facts_b and facts_a[key][index] != facts_b[key][index]:
                items.append(f"~ {key}: {what} {facts_a[key][index]} -> {facts_b[key][index]}")
    if name in facts_a and name in facts_b:
        for what, index in (("size", 0), ("alignment", 1)):
            if facts_a[name][index] != facts_b[name][index]:
                items.append(f"~ {name}: {what} {facts_a[name][index]} -> {facts_b[name][index]}")
    return items


def types(old, new):
    (facts_a, why_a), (facts_b, why_b) = layout(old), layout(new)
    items = [f"! no sizes and offsets: {why}" for why in dict.fromkeys((why_a, why_b)) if why]
    if items:
        facts_a = facts_b = {}
    before, after = _types(old), _types(new)
    for name in sorted({*before, *after}):
        if name not in before:
            header, a = after[name]
            size = f", {facts_b[name][0]} bytes" if name in facts_b else ""
            items.append(f"+ {header}: {a.kind} {name}{size}: {', '.join(f'{n}: {k}' for n, k in a.fields) or 'no members'}")
        elif name not in after:
            items.append(f"- {before[name][0]}: {before[name][1].kind} {name}")
        else:
            if before[name][0] != after[name][0]:
                items.append(f"~ {name}: moved from {before[name][0]} to {after[name][0]}")
            items += field_changes(name, before[name][1], after[name][1], facts_a, facts_b)
    for path in _headers(old, new):
        items += changed_values(f"{short(path)}: typedef", old.parse(path).typedefs, new.parse(path).typedefs)
    return items


def _shifts(name, moved):
    """moved: [(enumerator, old number, new number)] in order. Neighbours that move by the same are one line, from four
    on."""
    items, run = [], []

    def flush():
        if len(run) > 3:
            (first, a, b), (last, y, z) = run[0], run[-1]
            items.append(f"~ {name}: {first} .. {last}: {len(run)} numbers {b - a:+}, {a} .. {y} -> {b} .. {z}")
        else:
            items.extend(f"~ {name}: {e} {x} -> {y}" for e, x, y in run)
        run.clear()

    for entry in moved:
        if run and entry[2] - entry[1] != run[-1][2] - run[-1][1]:
            flush()
        run.append(entry)
    flush()
    return items


def enum_changes(before, after):
    """before and after: enum -> [(name, number)]."""
    items = []
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            values = (before.get(name) or after.get(name))
            items.append(f"{'+' if name in after else '-'} enum {name}: {', '.join(f'{n} {v}' for n, v in values)}")
            continue
        a, b = dict(before[name]), dict(after[name])
        items += [f"+ {name}: {n} {v}" for n, v in after[name] if n not in a]
        items += [f"- {name}: {n} {v}" for n, v in before[name] if n not in b]
        moved = [(n, v, b[n]) for n, v in before[name] if n in b and v != b[n]]
        unknown = [entry for entry in moved if None in entry]
        items += [f"~ {name}: {n} {x if x is not None else 'not known'} -> {y if y is not None else 'not known'}" for n, x, y in unknown]
        items += _shifts(name, [entry for entry in moved if entry not in unknown])
    return items


def enums(old, new):
    return enum_changes(old.constants().enums, new.constants().enums)


def macros(old, new):
    numbers, others = [], []
    for path in _headers(old, new):
        a, b = old.parse(path).macros, new.parse(path).macros
        for name in sorted({*a, *b}):
            if a.get(name) == b.get(name):
                continue
            x, y = old.constants().macro(name) if name in a else None, new.constants().macro(name) if name in b else None
            one, other = (" | ".join(f"{params or ''} {body}".strip() for params, body in side.get(name, [])) for side in (a, b))
            mark = "+" if name not in a else "-" if name not in b else "~"
            if x is not None or y is not None:
                text = f"{x} -> {y}" if mark == "~" else f"{y if x is None else x}"
                numbers.append(f"{mark} {short(path)}: {name} {text if None not in (x, y) or mark != '~' else f'{one} -> {other}'}")
            else:
                others.append(f"{mark} {short(path)}: {name} {f'{one} -> {other}' if mark == '~' else one or other}".rstrip())
    return numbers + others


def _counts(tree, other):
    """(file, what is compared) -> the numbers that static assertions compare it with, of files that differ."""
    found = {}
    for path in tree.files:
        if not path.endswith((".h", ".c", ".cpp")) or path.count("/") > 1 and not path.startswith(_CORE):
            continue
        if not re.search("static_assert", tree.text(path), re.I) or tree.text(path) == other.text(path):
            continue
        for condition in tree.parse(path).asserts:
            at = next((n for n, t in enumerate(condition) if t.text == "=="), None)
            left, right = (text_of(condition[:at]), text_of(condition[at + 1:])) if at is not None else (text_of(condition), "holds")
            found.setdefault((path, left), []).append(right)
    return found


def asserts(old, new):
    items = []
    a, b = _counts(old, new), _counts(new, old)
    for key in sorted({*a, *b}):
        x, y = a.get(key, []), b.get(key, [])
        if x == y:
            continue
        path, left = key
        times = max(len(x), len(y))
        places = f" ({times} places)" if times > 1 else ""

        def shown(side):
            return f"{left} == {' | '.join(dict.fromkeys(side))}" if side != ["holds"] * len(side) else left

        if x and y and set(x) != set(y):
            items.append(f"~ {path}: {shown(x)} -> {' | '.join(dict.fromkeys(y))}{places}")
        elif x and y:
            items.append(f"~ {path}: {shown(x)}: {len(x)} places -> {len(y)}")
        else:
            items.append(f"{'+' if y else '-'} {path}: {shown(x or y)}{places}")
    return items


def comments(old, new):
    """Comments of the public headers: rules that no type expresses."""
    items = []
    for path in both(old, new, lambda p: p.startswith("include/") and p.endswith(".h")):
        sides = []
        for tree in (old, new):
            lines = []
            for c in tree.parse(path).comments:
                text = c.text[2:-2] if c.text.startswith("/*") else c.text[2:]
                lines += [" ".join(line.strip().lstrip("*").split()) for line in text.split("\n")]
            sides.append([line for line in lines if line])
        for mark, lines, others in (("-", sides[0], sides[1]), ("+", sides[1], sides[0])):
            known = {}
            for line in others:
                known[line] = known.get(line, 0) + 1
            for line in lines:
                if known.get(line, 0) > 0:
                    known[line] -= 1
                else:
                    items.append(f"{mark} {short(path)}: {line}")
    return items
