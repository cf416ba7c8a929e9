"""What is found in texts: environment variables, functions that are looked up by name, commands of CMake."""
import re
from collections import Counter

from .tree import SOURCES, both, changed, mark, ours, plain, until

_CMAKE = re.compile(r"(src/|src/ggml-(cpu|rpc|vulkan)/|cmake/)?[^/]+$") # of other backends' files the section `files` is enough
_COMMAND = re.compile(r"""\#[^\n]* | (?P<name>\w+)\s*\((?P<args>(?: "(?:\\.|[^"\\])*" | \((?:"(?:\\.|[^"\\])*"|[^()"])*\) | [^()"])*)\)""", re.X)
# What a user, a distribution or a program that links the package sees.
_SEEN = re.compile(r"set_target_properties|add_(library|compile_definitions)|target_\w+|install|export|find_package|configure_\w+|write_\w+|ggml_add_\w+")


def variables(tree):
    """Name of an environment variable -> the files of src that read it; functions that hand their parameter to getenv read it, too."""
    paths, readers, found = [p for p in tree.files if p.startswith("src/") and p.endswith(SOURCES)], {"getenv"}, {}
    for text in (tree.plain(p) for p in paths if re.search(r"getenv\s*\(\s*\w", tree.text(p))):
        for m in re.finditer(r"getenv\s*\(\s*(\w+)", text):
            heads = re.findall(rf"(\w+)\s*\([^(){{}};]*\b{m[1]}\b[^(){{}};]*\)\s*(?:const\s*)?\{{", text[:m.start()])
            readers.update(heads[-1:])
    read = re.compile(rf'(getenv\w*|\b(?:{"|".join(sorted(readers))}))\s*\(\s*(?:"([^"]*)"|(\w+))')
    for path in [p for p in paths if any(r in tree.text(p) for r in readers)]:
        text = tree.plain(path)
        for m in read.finditer(text):
            macro = m[3] and re.search(rf'#\s*define\s+{m[3]}\s+"([^"]*)"', text)
            if m[2] or macro:
                found.setdefault(m[2] or macro[1], set()).add(path)
    return found


def _moves(old, new, collect):
    """Lines for the names that other files have than before; those of our parts first."""
    a, b, items = collect(old, new), collect(new, old), []
    for name in sorted({*a, *b}, key=lambda n: (not any(map(ours, {*a.get(n, ()), *b.get(n, ())})), n)):
        gone, come = sorted(a.get(name, set()) - b.get(name, set())), sorted(b.get(name, set()) - a.get(name, set()))
        if gone or come:
            sign = mark(name in a, name in b)
            items.append(f"{sign} {name}: {' '.join([f'-{p}' for p in gone] + [f'+{p}' for p in come] if sign == '~' else gone + come)}")
    return items


def environment(old, new):
    return _moves(old, new, lambda tree, other: variables(tree))


def _looked_up(tree, other):
    """Name -> the files that differ and whose get_proc_address functions know it."""
    found = {}
    for path in both(tree, other, lambda p: p.endswith(SOURCES)):
        for m in re.finditer(r"get_proc_address\w*\s*\([^;{}]*\)\s*\{", tree.text(path)):
            for name in re.findall(r'"(ggml_\w+)"', until(plain(tree.text(path)[m.end():]))):
                found.setdefault(name, set()).add(path)
    return found


def lookups(old, new):
    return _moves(old, new, _looked_up)


def _commands(tree, path):
    """[(name, arguments)] of a CMake file."""
    found = [(m["name"].lower(), re.findall(r'"(?:\\.|[^"\\])*"|[^\s"]+', re.sub(r"\s#[^\n]*", "", " " + m["args"]))) for m in _COMMAND.finditer(tree.text(path)) if m["name"]]
    return [(name, args) for name, args in found if args]


def sources(tree, library):
    """The C and C++ files that src/CMakeLists.txt makes a library of."""
    calls = [args for name, args in _commands(tree, "src/CMakeLists.txt") if name in ("add_library", "target_sources") and args[0] == library]
    return sorted({"src/" + a for args in calls for a in args if a.endswith((".c", ".cpp"))})


def cmake(old, new):
    """Options with their defaults, and what changed in the commands of our parts by their first arguments."""
    options, items = [], []
    for tree in (old, new):
        calls = [call for path in tree.files if path.endswith((".txt", ".cmake", ".cmake.in")) for call in _commands(tree, path)]
        options.append({f"option {args[0]}": " ".join(args[2:3] or ["OFF"]) for name, args in calls if name in ("option", "cmake_dependent_option")})
        options[-1].update({f"option {args[0]}": " ".join(args[1:args.index("CACHE")]) for name, args in calls if name == "set" and "CACHE" in args})
    for path in both(old, new, lambda p: bool(_CMAKE.match(p)) and p.endswith(("CMakeLists.txt", ".cmake", ".cmake.in", ".pc.in"))):
        sides = [{}, {}]
        for side, tree in zip(sides, (old, new)):
            for name, args in _commands(tree, path):
                if _SEEN.fullmatch(name) or name == "set" and args[0].startswith("GGML_") and "CACHE" not in args:
                    side.setdefault(f"{name}({args[0]})", Counter()).update(args[1:])
        for call in sorted({*sides[0], *sides[1]}):
            a, b = (side.get(call, Counter()) for side in sides)
            if a != b:
                words = [f"-{w}" for w in (a - b).elements()] + [f"+{w}" for w in (b - a).elements()]
                items.append(f"{mark(call in sides[0], call in sides[1])} {path}: {call}: {' '.join(words)}")
    return list(changed(*options)) + items
