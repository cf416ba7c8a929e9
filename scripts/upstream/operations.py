"""Which operations a change concerns: functions are followed from the switches over GGML_OP_*, shaders by their names."""
import re

from .areas import by_area
from .bodies import changes
from .interface import read
from .tree import amount, both, mark, until

_CPU, _VULKAN, _CORE = "src/ggml-cpu/", "src/ggml-vulkan/", "src/ggml.c"
# Functions that hand every operation to the one that computes it.
_DISPATCH = ("ggml_compute_forward", "ggml_vk_build_graph", "ggml_vk_op_get_pipeline")
_MANY = 6
_PRODUCTS = ("MUL_MAT", "MUL_MAT_ID")
# Shaders that are not called like their operation.
_ALIASES = {"mul_m": _PRODUCTS, "dequant_": _PRODUCTS, "quantize_q8": _PRODUCTS, "dot_product": _PRODUCTS, "fwht": ("MUL_MAT",), "count_experts": ("MUL_MAT_ID",),
            "copy": ("CPY",), "contig_copy": ("CPY",), "flash_attn": ("FLASH_ATTN_EXT",), "fa_": ("FLASH_ATTN_EXT",), "topk": ("TOP_K",), "wkv6": ("RWKV_WKV6",),
            "wkv7": ("RWKV_WKV7",), "gla": ("GATED_LINEAR_ATTN",), "geglu": ("GLU",), "reglu": ("GLU",), "swiglu": ("GLU",), "multi_add": ("ADD",)}


def names(tree):
    """The operations in the order of the enum, without GGML_OP_."""
    enum = read(tree).enums.get("ggml_op")
    return [n[8:] for n, _ in enum.values if n != "GGML_OP_COUNT"] if enum else []


def _words(lines):
    return set(re.findall(r"[A-Za-z_]\w*", " ".join(lines)))


def cases(lines):
    """Operation -> the lines behind its case label; labels in a row share them."""
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
    uses = {name: _words(lines) & bodies.keys() - {name} for name, lines in bodies.items()}
    for name in _DISPATCH:
        for op, block in cases(bodies.get(name, [])).items():
            todo, seen = _words(block) & bodies.keys(), set()
            while todo:
                n = todo.pop()
                seen.add(n)
                found.setdefault(n, set()).add(op)
                todo |= uses[n] - seen
    return found


def _constructors(tree):
    """Function of ggml.c -> (the operations that it makes itself, those that it makes through others)."""
    bodies = tree.functions(_CORE)
    direct = {name: set(re.findall(r"\bop ?= ?GGML_OP_(\w+)", " ".join(lines))) for name, lines in bodies.items()}
    uses = {name: _words(lines) & bodies.keys() - {name} for name, lines in bodies.items()}
    made = {name: set(ops) for name, ops in direct.items()}
    grown = True
    while grown:
        more = {name: set().union(*(made[n] for n in uses[name])) for name in bodies if not direct[name]}
        grown = any(made[name] != ops for name, ops in more.items())
        made.update(more)
    return {name: (direct[name], made[name]) for name in bodies}


def _shader_ops(stem, known):
    """The operations that a shader of this name computes, as far as names tell."""
    for prefix, ops in _ALIASES.items():
        if stem.startswith(prefix):
            return {op for op in ops if op in known}
    fit = [op for op in known if stem.replace("_", "").startswith(op.replace("_", "").lower())]
    return {max(fit, key=len)} if fit else set()


def _shaders(old, new, known):
    """(operations, item) of each changed shader; a part that shaders include stands for all of those."""
    users = {}
    for path in new.files:
        if path.startswith(_VULKAN) and path.endswith((".comp", ".glsl")):
            for included in re.findall(r'#include\s+"([^"]+)"', new.text(path)):
                users.setdefault(included, set()).add(path.rsplit("/", 1)[1])
    for path in both(old, new, lambda p: p.startswith(_VULKAN) and p.endswith((".comp", ".glsl"))):
        first = path.rsplit("/", 1)[1]
        todo, seen = {first}, set()
        while todo:
            seen.add(todo.pop())
            todo = set().union(*(users.get(n, ()) for n in seen)) - seen
        ops = set().union(*(_shader_ops(n.split(".")[0], known) for n in seen if n.endswith(".comp") or n == first))
        sides = [[line for line in tree.plain(path).split("\n") if line.strip()] for tree in (old, new)]
        if amount(*sides) != amount([], []):
            yield ops, mark(*sides), "", f"{path} {amount(*sides)}"


def _functions(old, new):
    """(operations, mark, note, item) of each changed function, and of the cases of a switch over operations."""
    reach = {folder: [_reach(tree, folder) for tree in (old, new)] for folder in (_CPU, _VULKAN)}
    made = [_constructors(tree) for tree in (old, new)]
    for c in changes(old, new):
        if c.kind != "function":
            continue
        sign, text, some = mark(c.before, c.after), f"{c.path} {c.name} {amount(c.before, c.after)}", []
        one, other = cases(c.before), cases(c.after)
        if sign == "~" and max(len(one), len(other)) > 3:
            some = [op for op in sorted({*one, *other}) if one.get(op) != other.get(op)]
            yield from (({op}, mark(op in one, op in other), "", f"{c.path} case in {c.name} {amount(one.get(op, []), other.get(op, []))}") for op in some)
        ops = set().union(*(r.get(c.name.rsplit("::", 1)[-1], ()) for folder, sides in reach.items() if c.path.startswith(folder) for r in sides))
        note = ""
        if c.path == _CORE:
            sides = [m[c.name] for m in made if c.name in m]
            ops = set().union(*(direct for direct, _ in sides)) or set().union(*(through for _, through in sides))
            note = c.name if len(ops) > 1 and not any(direct for direct, _ in sides) else ""
        if not some or 0 < len(ops) <= _MANY:
            yield ops, sign, note, text


def operations(old, new):
    """(items by operation, items of the functions of our files that belong to none)"""
    order = {op: n for n, op in enumerate(dict.fromkeys([*names(new), *names(old)]))}
    items, rest = [], []
    for ops, sign, note, text in [*_shaders(old, new, list(order)), *_functions(old, new)]:
        ranked = sorted(ops, key=lambda op: order.get(op, len(order)))
        if note:
            items.append((len(order), f"{sign} {note}: {text}, made of {', '.join(ranked)}"))
        elif ops or text.split(" ")[0].endswith((".comp", ".glsl")):
            shown = ", ".join(ranked) if len(ranked) <= _MANY else f"{len(ranked)} operations"
            items.append((order.get(ranked[0], 0) if 0 < len(ranked) <= _MANY else len(order), f"{sign} {shown or 'no operation'}: {text}"))
        else:
            rest.append((sign, *text.split(" ", 1)))
    return [item for _, item in sorted(items, key=lambda entry: (entry[0], entry[1][2:]))], by_area(rest)
