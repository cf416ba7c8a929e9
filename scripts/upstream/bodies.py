"""Functions, tables and types whose text changed, and the requirements of functions: assertions, parameters of
operations, log lines."""
import functools
import re
from collections import namedtuple

from .tree import ORDER, amount, both, differing, foreign, keys, mark, ours, signed, until

# before and after are the lines on each side; one that is missing has none.
Change = namedtuple("Change", "path kind name before after")
_MANY = 12 # a table or a type of which more lines changed is one item
_NOTHING = re.compile(r"\W*|#\s*(endif|else)|NULL,|#\s*include.*") # a line that says nothing by itself


@functools.lru_cache(maxsize=1)
def changes(old, new):
    """Every piece of our files that was added, removed or changed."""
    found = []
    for path in both(old, new, ours):
        a, b = old.pieces(path), new.pieces(path)
        found += [Change(path, *what, a.get(what, []), b.get(what, [])) for what in sorted({*a, *b}) if keys(a.get(what, [])) != keys(b.get(what, []))]
    return found


def _calls(lines, pattern):
    """The arguments of the calls whose beginning fits, each once, after the group of the pattern."""
    found = [(m, until(m.string[m.end():])) for m in re.finditer(pattern, " ".join(lines))]
    return sorted({f"{m[1]}{args}{'})'[m[1][-1] == '(']}" if m.groups() else args for m, args in found})


def called(pattern, where, old, new):
    items = []
    for c in changes(old, new):
        if c.kind == "function" and re.match(where, c.path):
            items += signed(f"{c.path.rsplit('/', 1)[1]} {c.name}", differing(_calls(c.before, pattern), _calls(c.after, pattern)))
    return items


def declared(kinds, old, new):
    """The changed lines of tables, or of types and of the lines between all of these. Other sections say more about the
    headers that others include."""
    items = []
    for c in changes(old, new):
        if c.kind not in kinds or foreign(c.path) or c.kind != "table" and c.path in {*old.interface(), *new.interface()}:
            continue
        label, sign, count = f"{c.path}: {c.name}".rstrip(": "), mark(c.before, c.after), amount(c.before, c.after)
        sides = [[line for line in side if not _NOTHING.fullmatch(line)] for side in differing(c.before, c.after)]
        if len(sides[0]) + len(sides[1]) > _MANY or count == ORDER:
            items.append(f"{sign} {label} {count}")
        elif c.kind == "rest" or sign == "~":
            items += signed(label, sides)
        else:
            items.append(f"{sign} {label}: {' '.join(c.before or c.after)}")
    return items
