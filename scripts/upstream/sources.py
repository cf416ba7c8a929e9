"""Types and numbers inside the sources: messages, queues, limits, state of the scheduler."""
from .bodies import ours
from .interface import enum_changes, field_changes
from .tree import both
from .values import Constants


def inside(old, new):
    items = []
    headers = {*old.interface(), *new.interface()}
    for path in both(old, new, lambda p: ours(p) and p.endswith((".c", ".cpp", ".h")) and p not in headers):
        if old.text(path) == new.text(path) or path.startswith("src/ggml-cpu/") and path.count("/") > 2:
            continue
        file = path.rsplit("/", 1)[1]
        a, b = old.parse(path), new.parse(path)
        for name in sorted(n for n in {*a.aggregates, *b.aggregates} if n):
            x, y = a.aggregates.get(name), b.aggregates.get(name)
            if x and y:
                items += [f"{item[:2]}{file}: {item[2:]}" for item in field_changes(name, x, y, {}, {})]
            else:
                fields = ", ".join(f"{n}: {k}" for n, k in (x or y).fields)
                items.append(f"{'-' if x else '+'} {file}: {(x or y).kind} {name}: {fields or 'no members'}")
        one, other = Constants([*(old.parse(h) for h in old.interface()), a]), Constants([*(new.parse(h) for h in new.interface()), b])
        before, after = ({n: c.enums[n] for n in d.enums} for c, d in ((one, a), (other, b)))
        items += [f"{item[:2]}{file}: {item[2:]}" for item in enum_changes(before, after)]
        for name in sorted({*a.macros, *b.macros}):
            x, y = one.macro(name) if name in a.macros else None, other.macro(name) if name in b.macros else None
            if x != y:
                text = f"{x} -> {y}" if None not in (x, y) else f"{y if x is None else x}"
                items.append(f"{'+' if name not in a.macros else '-' if name not in b.macros else '~'} {file}: {name} {text}")
    return items
