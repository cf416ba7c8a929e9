"""Functions, tables and types whose text changed, and what functions demand: assertions, parameters of operations, log lines."""
import re
from collections import namedtuple

from .tree import ORDER, amount, both, differing, foreign, keys, mark, ours, signed, until

# before and after are the lines on each side; one that is missing has none.
Change = namedtuple("Change", "path kind name before after")
# A table or a type of which more lines changed is one item.
_MANY = 12
# A line that says nothing by itself.
_NOTHING = re.compile(r"\W*|#\s*(endif|else)|NULL,|#\s*include.*")
# Constructors, the scheduler and allocators, files, the meta device, the CPU's operations.
_CHECKED = re.compile(r"src/[^/]+$|src/ggml-cpu/[^/]+\.c(pp)?$")


def changes(old, new):
    """Every piece of our files that was added, removed or changed."""
    known = old.changes
    if id(new) not in known:
        found = []
        for path in both(old, new, ours):
            a, b = old.pieces(path), new.pieces(path)
            found += [Change(path, *what, a.get(what, []), b.get(what, [])) for what in sorted({*a, *b}) if keys(a.get(what, [])) != keys(b.get(what, []))]
        known[id(new)] = (new, found)
    return known[id(new)][1]


def _calls(lines, pattern):
    """The arguments of the calls whose beginning fits, each once, behind the group of the pattern."""
    text = " ".join(lines)
    found = [(m, until(text[m.end():])) for m in re.finditer(pattern, text)]
    return sorted({f"{m[1]}({args})" if m.groups() else args for m, args in found})


def _called(old, new, pattern, where):
    items = []
    for c in changes(old, new):
        if c.kind == "function" and where.match(c.path):
            items += signed(f"{c.path.rsplit('/', 1)[1]} {c.name}", differing(_calls(c.before, pattern), _calls(c.after, pattern)))
    return items


def asserts(old, new):
    return _called(old, new, r"\bGGML_ASSERT ?\(", _CHECKED)


def op_params(old, new):
    """Which word of op_params holds what: the calls that write and read them."""
    return _called(old, new, r"\b(ggml_[gs]et_op_params\w*|params\[\w*\] ?=) ?[({]", re.compile(r"src/[^/]+$"))


def log_lines(old, new):
    """Lines for logs in our files, with their level: tools read some of them."""
    return _called(old, new, r"(?:\b|_)LOG_([A-Z]+) ?\(", re.compile(r"src/(ggml-\w+/)?[^/]+$"))


def _declared(old, new, *kinds):
    """The changed lines of tables, or of types and of what is between all of these; of the headers that others include, other sections say more."""
    items = []
    for c in changes(old, new):
        if c.kind not in kinds or foreign(c.path) or c.kind != "table" and c.path in {*old.interface(), *new.interface()}:
            continue
        label = f"{c.path}: {c.name}".rstrip(": ")
        gone, come = ([line for line in side if not _NOTHING.fullmatch(line)] for side in differing(c.before, c.after))
        if len(gone) + len(come) > _MANY or amount(c.before, c.after) == ORDER:
            items.append(f"{mark(c.before, c.after)} {label} {amount(c.before, c.after)}")
        elif c.kind == "rest" or c.before and c.after:
            items += signed(label, (gone, come))
        else:
            items.append(f"{mark(c.before, c.after)} {label}: {' '.join(c.before or c.after)}")
    return items


def tables(old, new):
    return _declared(old, new, "table")


def lines(old, new):
    return _declared(old, new, "type", "rest")
