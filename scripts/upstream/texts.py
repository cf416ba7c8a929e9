"""What is found in texts: environment variables, commands of CMake."""
import re
from collections import Counter

from .tree import SOURCES, both, mark, ours

# Of other backends' files, the section `files` is enough.
_CMAKE = re.compile(r"(src/|src/ggml-(cpu|rpc|vulkan)/|cmake/)?[^/]+$")
_COMMAND = re.compile(r"""\#[^\n]* | (?P<name>\w+)\s*\((?P<args>(?: "(?:\\.|[^"\\])*" | \((?:"(?:\\.|[^"\\])*"|[^()"])*\) | [^()"])*)\)""", re.X)
# What a user, a distribution or a program that links the package sees.
_SEEN = re.compile(r"option|cmake_dependent_option|set_target_properties|add_(library|compile_definitions)|target_\w+|install|export|find_package|configure_\w+|write_\w+|ggml_add_\w+")


def variables(tree):
    """Name of an environment variable -> the files of src that read it. A function that passes its parameter to getenv
    counts as getenv."""
    paths, readers, found = [p for p in tree.files if p.startswith("src/") and p.endswith(SOURCES)], {"getenv"}, {}
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
    return found


def environment(old, new):
    """The variables that other files read than before; those of our parts first."""
    a, b, items = variables(old), variables(new), []
    for name in sorted({*a, *b}, key=lambda n: (not any(map(ours, {*a.get(n, ()), *b.get(n, ())})), n)):
        gone, come = sorted(a.get(name, set()) - b.get(name, set())), sorted(b.get(name, set()) - a.get(name, set()))
        if gone or come:
            sign = mark(name in a, name in b)
            items.append(f"{sign} {name}: {' '.join([f'-{p}' for p in gone] + [f'+{p}' for p in come] if sign == '~' else gone + come)}")
    return items


def _commands(tree, path):
    """[(name, arguments)] of a CMake file."""
    found = [(m["name"].lower(), re.findall(r'"(?:\\.|[^"\\])*"|[^\s"]+', re.sub(r"\s#[^\n]*", "", " " + m["args"]))) for m in _COMMAND.finditer(tree.text(path)) if m["name"]]
    return [(name, args) for name, args in found if args]


def sources(tree, library):
    """The C and C++ files that src/CMakeLists.txt makes a library of."""
    calls = [args for name, args in _commands(tree, "src/CMakeLists.txt") if name in ("add_library", "target_sources") and args[0] == library]
    return sorted({"src/" + a for args in calls for a in args if a.endswith((".c", ".cpp"))})


def cmake(old, new):
    """What changed in the commands of our parts: the arguments after the first one, by command and first argument."""
    items = []
    for path in both(old, new, lambda p: bool(_CMAKE.match(p)) and p.endswith(("CMakeLists.txt", ".cmake", ".cmake.in", ".pc.in"))):
        sides = [{}, {}]
        for side, tree in zip(sides, (old, new)):
            for name, args in _commands(tree, path):
                if _SEEN.fullmatch(name) or name == "set" and args[0].startswith("GGML_"):
                    side.setdefault(f"{name}({args[0]})", Counter()).update(args[1:])
        for call in sorted({*sides[0], *sides[1]}):
            a, b = (side.get(call, Counter()) for side in sides)
            if a != b:
                words = [f"-{w}" for w in (a - b).elements()] + [f"+{w}" for w in (b - a).elements()]
                items.append(f"{mark(call in sides[0], call in sides[1])} {path}: {call}: {' '.join(words)}")
    return items
