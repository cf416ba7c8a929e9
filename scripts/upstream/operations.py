"""Which operations a change concerns: functions are followed from the switches over GGML_OP_*, shaders by their
names."""
import re

from .bodies import changes, defined
from .heads import is_mark
from .tree import amount, both, changed_lines

_CPU, _VULKAN, _CORE = "src/ggml-cpu/", "src/ggml-vulkan/", "src/ggml.c"
_SHADERS = "src/ggml-vulkan/vulkan-shaders/"
# Functions that dispatch every operation to the function that computes it.
_DISPATCH = {_CPU: ("ggml_compute_forward",), _VULKAN: ("ggml_vk_build_graph", "ggml_vk_op_get_pipeline")}
_MANY = 6
_PRODUCTS = ("MUL_MAT", "MUL_MAT_ID")
# Shaders whose names are not those of their operations.
_ALIASES = (("mul_mm", _PRODUCTS), ("mul_mat_vec", _PRODUCTS), ("mul_mat_split", _PRODUCTS), ("dequant_", _PRODUCTS), ("quantize_q8", _PRODUCTS),
            ("dot_product", _PRODUCTS), ("fwht", ("MUL_MAT",)), ("count_experts", ("MUL_MAT_ID",)), ("copy", ("CPY",)), ("contig_copy", ("CPY",)),
            ("flash_attn", ("FLASH_ATTN_EXT",)), ("fa_", ("FLASH_ATTN_EXT",)), ("topk", ("TOP_K",)), ("wkv6", ("RWKV_WKV6",)), ("wkv7", ("RWKV_WKV7",)),
            ("gla", ("GATED_LINEAR_ATTN",)), ("geglu", ("GLU",)), ("reglu", ("GLU",)), ("swiglu", ("GLU",)), ("multi_add", ("ADD",)))


def names(tree):
    """The operations in the order of the enum, without GGML_OP_."""
    return [n[8:] for n, _ in tree.constants().enums.get("ggml_op", []) if n != "GGML_OP_COUNT"]


def case_blocks(body):
    """GGML_OP_* -> the tokens after its case label; labels in a row share them."""
    found, labels, block, n = {}, [], [], 0
    depth, level = 0, 0
    while n < len(body):
        t = body[n]
        depth += is_mark(t, "{") - is_mark(t, "}")
        if t.text == "case" and n + 1 < len(body) and body[n + 1].text.startswith("GGML_OP_"):
            if block:
                labels, block = [], []
            labels.append(body[n + 1].text[8:])
            level, n = depth, n + 3
            continue
        if labels and (depth < level or t.text == "default" and depth == level):
            labels, block = [], []
        elif labels:
            block.append(t)
            for label in labels:
                found.setdefault(label, []).append(t)
        n += 1
    return found


class Reach:
    """The operations whose computation can reach a function of some files."""

    def __init__(self, tree, folder):
        self.uses, self.ops = {}, {}
        paths = [p for p in tree.files if p.startswith(folder) and p.endswith((".c", ".cpp", ".h")) and p.count("/") == 2]
        for path in paths:
            for name, fs in defined(tree, path).items():
                plain = name.split("(")[0].split("<")[0].rsplit("::", 1)[-1]
                self.uses.setdefault(plain, set()).update(t.text for f in fs for t in f.body if t.kind == "name")
        for path in paths:
            for name, fs in defined(tree, path).items():
                if name in _DISPATCH[folder]:
                    for op, block in case_blocks(fs[0].body).items():
                        self.mark(op, [t.text for t in block if t.kind == "name" and t.text in self.uses])

    def mark(self, op, todo):
        seen = set()
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                self.ops.setdefault(name, set()).add(op)
                todo += [n for n in self.uses[name] if n in self.uses]

    def of(self, name):
        return self.ops.get(name.split("(")[0].split("<")[0].rsplit("::", 1)[-1], set())


def constructors(tree):
    """Function of ggml.c -> the operations that it makes, itself or through others."""
    uses, made = {}, {}
    for name, fs in defined(tree, _CORE).items():
        body = fs[0].body
        uses[name] = {t.text for t in body if t.kind == "name"}
        made[name] = {body[n + 2].text[8:] for n, t in enumerate(body[:-2])
                      if t.text == "op" and is_mark(body[n + 1], "=") and body[n + 2].text.startswith("GGML_OP_")}
    direct = {n: set(ops) for n, ops in made.items()}
    grown = True
    while grown:
        grown = False
        for name, others in uses.items():
            more = set().union(*(made[o] for o in others if o in made)) - made[name] if others else set()
            if more and not direct[name]:
                made[name] |= more
                grown = True
    return direct, made


def shader_ops(stem, known):
    """The operations that a shader of this name computes, as far as names show."""
    for prefix, ops in _ALIASES:
        if stem.startswith(prefix):
            return {op for op in ops if op in known}
    squeezed = stem.replace("_", "")
    fit = [op for op in known if squeezed.startswith(op.replace("_", "").lower())]
    return {max(fit, key=len)} if fit else set()


def _shaders(old, new, known):
    """(operations, item) of each changed shader. A file that shaders include counts for all of them."""
    users = {}
    for path in [p for p in new.files if p.startswith(_SHADERS) and p.endswith((".comp", ".glsl"))]:
        for included in re.findall(r'#include\s+"([^"]+)"', new.text(path)):
            users.setdefault(included, set()).add(path.rsplit("/", 1)[1])
    for path in both(old, new, lambda p: p.startswith(_SHADERS) and p.endswith((".comp", ".glsl"))):
        if old.text(path) == new.text(path):
            continue
        seen, todo = set(), [path.rsplit("/", 1)[1]]
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += users.get(name, ())
        ops = set().union(*(shader_ops(n.split(".")[0], known) for n in seen if n.endswith(".comp") or n == path.rsplit("/", 1)[1]))
        mark = "+" if path not in old.files else "-" if path not in new.files else "~"
        counts = changed_lines(old.text(path).split("\n") if mark != "+" else [], new.text(path).split("\n") if mark != "-" else [])
        yield ops, f"{mark} {{}}: {path} {amount(*counts)}"


def _cases(change):
    """(operations, item) for a changed switch over operations: the cases that changed."""
    one, other = (case_blocks(f.body) if f else {} for f in (change.before, change.after))
    if len(one) < 4 and len(other) < 4:
        return
    for op in sorted({*one, *other}):
        a, b = ([" ".join(row) for row in _rows(side.get(op, []))] for side in (one, other))
        if a != b:
            mark = "+" if op not in one else "-" if op not in other else "~"
            yield {op}, f"{mark} {{}}: {change.path} case in {change.name} {amount(*changed_lines(a, b))}"


def _rows(tokens):
    rows = {}
    for t in tokens:
        rows.setdefault(t.line, []).append(t.text)
    return [rows[n] for n in sorted(rows)]


def operations(old, new):
    """The changes of each operation, and the functions of our files that belong to none: (items, [(mark, path, name,
    added, removed)])."""
    order = {op: n for n, op in enumerate(dict.fromkeys([*names(new), *names(old)]))}
    reach = {folder: [Reach(tree, folder) for tree in (old, new)] for folder in (_CPU, _VULKAN)}
    made = [constructors(tree) for tree in (old, new)]
    found, rest = list(_shaders(old, new, list(order))), []
    for change in changes(old, new):
        cases = list(_cases(change)) if change.mark == "~" else []
        found += cases
        folder = next((f for f in reach if change.path.startswith(f)), None)
        ops, note = set(), ""
        if folder:
            ops = reach[folder][0].of(change.name) | reach[folder][1].of(change.name)
        elif change.path == _CORE:
            direct = set().union(*(m[0].get(change.name, set()) for m in made))
            ops = direct or set().union(*(m[1].get(change.name, set()) for m in made))
            note = "" if direct or len(ops) < 2 else ", made of " + ", ".join(sorted(ops, key=lambda op: order.get(op, 0)))
        item = f"{change.path} {change.name} {amount(change.added, change.removed)}"
        if note:
            found.append((set(), f"{change.mark} {change.name}: {item}{note}"))
        elif ops and len(ops) <= _MANY:
            found.append((ops, f"{change.mark} {{}}: {item}"))
        elif ops and not cases:
            found.append((ops, f"{change.mark} {len(ops)} operations: {item}"))
        elif not cases:
            rest.append((change.mark, change.path, change.name, change.added, change.removed))
    items = []
    for ops, item in found:
        ranked = sorted(ops, key=lambda op: order.get(op, len(order)))
        place = order.get(ranked[0], len(order)) if ranked and len(ops) <= _MANY else len(order) + 1
        shown = ", ".join(ranked) if len(ranked) <= _MANY else f"{len(ranked)} operations"
        items.append((place, item.format(shown or "no operation")))
    return [item for _, item in sorted(items, key=lambda entry: (entry[0], entry[1][2:], entry[1]))], rest
