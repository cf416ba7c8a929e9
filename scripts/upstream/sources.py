"""What the sources say, as dictionaries of facts by name: the text of functions, tables and types, what functions call,
environment variables, commands of CMake."""
import functools
import re

from .tree import until

_NOTHING = re.compile(r"\W*|#\s*(endif|else)|NULL,|#\s*include.*") # a line that says nothing by itself
_CORE, _CPU, _VULKAN = "src/ggml.c", "src/ggml-cpu/", "src/ggml-vulkan/"
# Functions that dispatch every operation to the function that computes it.
_DISPATCH = ("ggml_compute_forward", "ggml_vk_build_graph", "ggml_vk_op_get_pipeline")
_MANY = 6 # of more operations their number is shown
# Of other backends, the section `files` is enough.
_CMAKE = re.compile(r"(src/|src/ggml-(cpu|rpc|vulkan)/|cmake/)?[^/]*(CMakeLists\.txt|\.cmake(\.in)?|\.pc\.in)$")


def declared(kinds, tree):
    """The lines of tables, or of types and of the lines between all of these. Other sections say more about the headers
    that others include."""
    found = {}
    for path, name, lines in tree.pieces(*kinds):
        telling = [line for line in lines if not _NOTHING.fullmatch(line)]
        if telling and ("table" in kinds or path not in tree.interface()):
            found[f"{path}: {name}".rstrip(": ")] = telling
    return found


def called(pattern, where, tree):
    """The arguments of the calls whose beginning fits, each once, after the group of the pattern."""
    found = {}
    for path, name, lines in tree.pieces("function"):
        for m in re.finditer(pattern, " ".join(lines)) if re.match(where, path) else ():
            arguments = until(m.string[m.end():])
            call = m[1] + arguments + {"(": ")", "{": "}"}[m[1][-1]] if m.groups() else arguments
            found.setdefault(f"{path} {name}", set()).add(call)
    return {name: sorted(calls) for name, calls in found.items()}


def _words(lines):
    return set(re.findall(r"[A-Za-z_]\w*", " ".join(lines)))


def _cases(lines):
    """Operation -> the lines after its case label, which labels in a row share; and all other lines."""
    first, *parts = re.split(r"\bcase GGML_OP_(\w+) ?:", "\n".join(lines))
    found, labels, rest = {}, [], first
    for op, text in zip(parts[::2], parts[1::2]):
        block = re.split(r"\bdefault ?:", until(text))[0]
        rest += text[len(block):]
        labels.append(op)
        if block.strip():
            for label in labels:
                found.setdefault(label, []).extend(block.strip().split("\n"))
            labels = []
    return found, [line for line in rest.split("\n") if line.strip()]


def _reachable(uses, names):
    """The functions that these call, directly or through others, and these."""
    found, todo = set(), set(names)
    while todo:
        name = todo.pop()
        found.add(name)
        todo |= uses[name] - found
    return found


@functools.cache
def _operations(tree):
    """(folder or file, function) -> the operations whose computation can reach it, or that a function of ggml.c makes,
    through others if it makes none itself."""
    found = {}
    for folder in (_CPU, _VULKAN):
        bodies = {}
        for path, name, lines in tree.pieces("function"):
            if path.startswith(folder) and path.count("/") == 2:
                bodies.setdefault(name.split("::")[-1], []).extend(lines)
        uses = {name: _words(lines) & bodies.keys() for name, lines in bodies.items()}
        for op, block in [case for name in _DISPATCH for case in _cases(bodies.get(name, []))[0].items()]:
            for name in _reachable(uses, _words(block) & bodies.keys()):
                found.setdefault((folder, name), set()).add(op)
    bodies = {name: lines for path, name, lines in tree.pieces("function") if path == _CORE}
    made = {name: set(re.findall(r"\bop ?= ?GGML_OP_(\w+)", " ".join(lines))) for name, lines in bodies.items()}
    uses = {name: set() if made[name] else _words(lines) & bodies.keys() for name, lines in bodies.items()}
    for name in bodies:
        found[_CORE, name] = set().union(*(made[other] for other in _reachable(uses, [name])))
    return found


def functions(concerned, *trees):
    """The lines of functions of each tree: those that operations reach, with the operations of both trees before the
    name, or all others. The cases of a switch over operations are entries of their own."""
    sides = []
    for tree in trees:
        found = {}
        for path, name, lines in tree.pieces("function"):
            cases, rest = _cases(lines)
            if len(cases) <= 3:
                cases, rest = {}, lines
            place = next((place for place in (_CORE, _CPU, _VULKAN) if path.startswith(place)), path)
            ops = sorted(set().union(*(_operations(side).get((place, name.split("::")[-1]), ()) for side in trees)))
            label = f"{len(ops)} operations: " if len(ops) > _MANY else ", ".join(ops) + ": " if ops else ""
            if concerned:
                found.update({f"{op}: {path} case in {name}": block for op, block in cases.items()})
            if concerned == bool(ops):
                found[f"{label}{path} {name}"] = rest
        sides.append(dict(sorted(found.items())))
    return sides


def files(tree):
    """The lines of files; of other backends, of the whole folder."""
    found = {}
    for path in tree.files:
        other = re.match(r"src/ggml-(?!cpu/|rpc/|vulkan/)[^/]*/", path)
        found.setdefault(other[0] if other else path, []).extend(tree.text(path).split("\n"))
    return found


@functools.cache
def variables(tree):
    """Name of an environment variable -> the files of src that read it. A function that passes its parameter to getenv
    counts as getenv."""
    paths, readers, found = [p for p in tree.files if p.startswith("src/")], {"getenv"}, {}
    for text in (tree.plain(p) for p in paths if re.search(r"getenv\s*\(\s*\w", tree.text(p))):
        for m in re.finditer(r"getenv\s*\(\s*(\w+)", text):
            heads = re.findall(rf"(\w+)\s*\([^(){{}};]*\b{m[1]}\b[^(){{}};]*\)\s*(?:const\s*)?\{{", text[:m.start()])
            readers.update(heads[-1:])
    read = re.compile(rf'(getenv\w*|\b(?:{"|".join(sorted(readers))}))\s*\(\s*(?:"([^"]*)"|(\w+))')
    for path in [p for p in paths if any(r in tree.text(p) for r in readers)]:
        for m in read.finditer(tree.plain(path)):
            macro = m[3] and re.search(rf'#\s*define\s+{m[3]}\s+"([^"]*)"', m.string)
            if m[2] or macro:
                found.setdefault(m[2] or macro[1], set()).add(path)
    return {name: " ".join(sorted(paths)) for name, paths in sorted(found.items())}


def cmake(tree):
    """The lines of the CMake files of our parts, without comments."""
    return {path: re.findall(r"^\s*([^#\s].*?)(?:\s+#.*)?$", tree.text(path), re.M) for path in filter(_CMAKE.match, tree.files)}
