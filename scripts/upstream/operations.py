"""Which operations a change concerns: functions are followed from the switches over GGML_OP_*."""
import functools
import re

from .areas import area, rank
from .bodies import changes
from .interface import read
from .tree import amount, foreign, mark, until

_CPU, _VULKAN, _CORE = "src/ggml-cpu/", "src/ggml-vulkan/", "src/ggml.c"
# Functions that dispatch every operation to the function that computes it.
_DISPATCH = ("ggml_compute_forward", "ggml_vk_build_graph", "ggml_vk_op_get_pipeline")
_MANY = 6 # of more operations their number is shown


def _words(lines):
    return set(re.findall(r"[A-Za-z_]\w*", " ".join(lines)))


def _cases(lines):
    """Operation -> the lines after its case label; labels in a row share them."""
    found, labels = {}, []
    _, *parts = re.split(r"\bcase GGML_OP_(\w+) ?:", "\n".join(lines))
    for op, block in zip(parts[::2], parts[1::2]):
        labels.append(op)
        block = re.split(r"\bdefault ?:", until(block))[0].strip()
        if block:
            for label in labels:
                found.setdefault(label, []).extend(block.split("\n"))
            labels = []
    return found


def _reach(tree, folder):
    """Function -> the operations whose computation can reach it."""
    bodies, found = {}, {}
    for path in tree.files:
        if path.startswith(folder) and path.endswith((".c", ".cpp", ".h")) and path.count("/") == 2:
            for name, lines in tree.functions(path).items():
                bodies.setdefault(name.rsplit("::", 1)[-1], []).extend(lines)
    uses = {name: _words(lines) & bodies.keys() for name, lines in bodies.items()}
    for op, block in [case for name in _DISPATCH for case in _cases(bodies.get(name, [])).items()]:
        todo, seen = _words(block) & bodies.keys(), set()
        while todo:
            name = todo.pop()
            seen.add(name)
            found.setdefault(name, set()).add(op)
            todo |= uses[name] - seen
    return found


def _constructors(tree):
    """Function of ggml.c -> (the operations that it makes itself, those that it makes itself or through others)."""
    bodies = tree.functions(_CORE)
    direct = {name: set(re.findall(r"\bop ?= ?GGML_OP_(\w+)", " ".join(lines))) for name, lines in bodies.items()}
    uses = {name: _words(lines) & bodies.keys() for name, lines in bodies.items() if not direct[name]}
    made, before = dict(direct), None
    while made != before:
        before = dict(made)
        made.update({name: set().union(*(before[n] for n in others)) for name, others in uses.items()})
    return {name: (direct[name], made[name]) for name in bodies}


def _functions(old, new):
    """(operations, mark, note, item) of each changed function, and of the cases of a switch over operations."""
    reach = {folder: [_reach(tree, folder) for tree in (old, new)] for folder in (_CPU, _VULKAN)}
    made = [_constructors(tree) for tree in (old, new)]
    for c in [c for c in changes(old, new) if c.kind == "function"]:
        one, other, some = _cases(c.before), _cases(c.after), []
        if c.before and c.after and max(len(one), len(other)) > 3:
            some = [op for op in sorted({*one, *other}) if one.get(op) != other.get(op)]
            yield from (({op}, mark(op in one, op in other), "", f"{c.path} case in {c.name} {amount(one.get(op, []), other.get(op, []))}") for op in some)
        ops = set().union(*(r.get(c.name.rsplit("::", 1)[-1], ()) for folder, sides in reach.items() if c.path.startswith(folder) for r in sides))
        direct, through = ((set().union(*(m[c.name][n] for m in made if c.name in m)) if c.path == _CORE else ops) for n in (0, 1))
        ops = direct or through
        if not some or 0 < len(ops) <= _MANY:
            yield ops, mark(c.before, c.after), c.name if not direct and len(ops) > 1 else "", f"{c.path} {c.name} {amount(c.before, c.after)}"


@functools.lru_cache(maxsize=1)
def grouped(old, new):
    """(items by operation, items of the functions of our files that belong to none)"""
    enums = [read(tree).enums.get("ggml_op") for tree in (new, old)]
    order = {op[8:]: n for n, op in enumerate(dict.fromkeys(op for enum in enums if enum for op, _ in enum.values))}
    items, rest = [], []
    for ops, sign, note, text in _functions(old, new):
        ranked = sorted(ops, key=lambda op: order.get(op, len(order)))
        path = text.split(" ", 1)[0]
        if note or len(ranked) > _MANY:
            items.append((len(order), f"{sign} {note}: {text}, made of {', '.join(ranked)}" if note else f"{sign} {len(ranked)} operations: {text}"))
        elif ranked:
            items.append((order.get(ranked[0], len(order)), f"{sign} {', '.join(ranked)}: {text}"))
        elif not foreign(path):
            rest.append((rank(path), f"{sign} {area(path)}: {text}"))
    return [[item for _, item in sorted(some, key=lambda entry: (entry[0], entry[1][2:], entry[1]))] for some in (items, rest)]
