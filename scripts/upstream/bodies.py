"""Functions whose text changed, file by file, and their requirements: assertions and parameters of operations."""
from collections import Counter, namedtuple

from .heads import is_mark
from .tokens import closing, split, text_of
from .tree import both, changed_lines

# mark: + - ~. before and after are the Function on each side, or None.
Change = namedtuple("Change", "path name mark added removed before after")

# Files whose functions are listed one by one. For others, only the number of lines.
OURS = ("src/ggml-cpu/", "src/ggml-rpc/", "src/ggml-vulkan/")


def ours(path):
    return path.startswith("include/") or path.startswith("src/") and path.count("/") == 1 or path.startswith(OURS)


def text(tree, path, function):
    lines = tree.parse(path).lines
    return [lines[n] for n in range(function.line, function.last + 1) if n in lines]


def defined(tree, path):
    """Name -> definitions; where there are several of a name, each with its parameters' types."""
    found = {}
    for f in tree.parse(path).functions:
        if f.body is not None:
            found.setdefault(f.name, []).append(f)
    out = {}
    for name, fs in found.items():
        for f in fs:
            out.setdefault(name if len(fs) == 1 else f"{name}({', '.join(t for t, _ in f.params)})", []).append(f)
    return out


def changes(old, new):
    """Every function that was added, removed or changed in our files."""
    key = (id(old), id(new))
    if key not in _known:
        found = []
        for path in both(old, new, lambda p: ours(p) and p.endswith((".c", ".cpp", ".h"))):
            if old.text(path) != new.text(path):
                found += _file(old, new, path)
        _known.clear()
        _known[key] = (old, new, found)
    return _known[key][2]


_known = {}


def _file(old, new, path):
    a, b = defined(old, path), defined(new, path)
    for one, other in ((a, b), (b, a)): # an overload that was added makes no other function new
        for name in [n for n in one if "(" not in n and n not in other]:
            same = [n for n in other if n.startswith(name + "(")]
            mine = f"{name}({', '.join(t for t, _ in one[name][0].params)})"
            if mine in same:
                one[mine] = one.pop(name)
    for name in sorted({*a, *b}):
        x = [line for f in a.get(name, []) for line in text(old, path, f)]
        y = [line for f in b.get(name, []) for line in text(new, path, f)]
        if x != y:
            mark = "+" if name not in a else "-" if name not in b else "~"
            yield Change(path, name, mark, *changed_lines(x, y), a[name][0] if name in a else None, b[name][0] if name in b else None)


def calls(body, name):
    """The argument lists of the calls of `name`, as text."""
    return [text_of(body[n + 2:closing(body, n + 1)]) for n, t in enumerate(body[:-1]) if t.text == name and is_mark(body[n + 1], "(")]


def _compared(change, collect):
    one, other = (Counter(collect(f.body)) if f else Counter() for f in (change.before, change.after))
    gone, come = one - other, other - one
    where = f"{change.path.rsplit('/', 1)[1]} {change.name}"
    return [f"- {where}: {c}" for c in sorted(gone.elements())] + [f"+ {where}: {c}" for c in sorted(come.elements())]


# Constructors, the scheduler and allocators, files, the meta device, the CPU's operations.
_CHECKED = ("src/ggml-cpu/ggml-cpu.c", "src/ggml-cpu/ops.cpp", "src/ggml-cpu/unary-ops.cpp", "src/ggml-cpu/binary-ops.cpp")


def asserts(old, new):
    items = []
    for change in changes(old, new):
        if change.path.count("/") == 1 or change.path in _CHECKED:
            items += _compared(change, lambda body: calls(body, "GGML_ASSERT"))
    return items


def op_params(old, new):
    """The use of each word of op_params: the calls that write and read them."""
    def collect(body):
        names = {t.text for t in body if t.kind == "name" and t.text.startswith(("ggml_set_op_params", "ggml_get_op_params"))}
        found = [f"{name}({args})" for name in sorted(names) for args in calls(body, name)]
        for n, t in enumerate(body[:-3]): # int32_t params[] = { ... };
            if t.text == "params" and is_mark(body[n + 1], "[") and "=" in [x.text for x in body[n + 2:n + 5]]:
                begin = next((m for m in range(n, len(body)) if is_mark(body[m], "{", ";")), None)
                if begin is not None and is_mark(body[begin], "{"):
                    found.append("params = {" + ", ".join(text_of(p) for p in split(body[begin + 1:closing(body, begin)])) + "}")
        return found

    items = []
    for change in changes(old, new):
        if change.path.count("/") == 1:
            items += _compared(change, collect)
    return items
