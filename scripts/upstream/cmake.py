"""CMake files: their commands, the options, targets and exported facts that they set."""
import re
from collections import Counter
from difflib import SequenceMatcher

from .tree import both, changed_values

_TOKEN = re.compile(r"""
    \#\[(?P<eq>=*)\[.*?\](?P=eq)\] | \#[^\n]*
  | (?P<quoted>"(?:\\.|[^"\\])*")
  | \[(?P<bq>=*)\[(?P<bracket>.*?)\](?P=bq)\]
  | (?P<mark>[()])
  | (?P<word>(?:\\.|[^\s()"\#\\])+)
  | \s+ | .
""", re.X | re.S)

# Of other backends' files the number of changes is enough.
OURS = re.compile(r"(src/|src/ggml-(cpu|rpc|vulkan)/|cmake/)?[^/]+$")
# Commands that matter to a user, a distribution or a program that links the package.
_SEEN = ("option", "set_target_properties", "add_library", "target_sources", "target_compile_definitions", "target_link_libraries", "install", "export",
         "find_package", "add_compile_definitions", "configure_package_config_file", "write_basic_package_version_file", "configure_file",
         "ggml_add_backend", "ggml_add_backend_library", "ggml_add_cpu_backend_variant")


def commands(text):
    """[(name, arguments)] of a CMake file, in order; parentheses inside the arguments are arguments."""
    found, name, args, depth = [], "", [], 0
    for m in _TOKEN.finditer(text):
        kind = m.lastgroup
        if kind in ("eq", None):
            continue
        if kind == "mark":
            depth += 1 if m.group() == "(" else -1
            if depth == 1 and m.group() == "(":
                args = []
            elif depth == 0:
                found.append((name.lower(), args))
                name = ""
            else:
                args.append(m.group())
        elif depth == 0:
            name = m.group()
        else:
            word = m.group("bracket") if kind == "bracket" else m.group()
            args.append(word[1:-1] if kind == "quoted" else word)
    return found


def expanded(found):
    """The commands with the plain foreach loops written out."""
    out, i = [], 0
    while i < len(found):
        name, args = found[i]
        if name == "foreach" and len(args) > 1 and args[1] not in ("IN", "RANGE"):
            depth, j = 1, i + 1
            while j < len(found) and depth:
                depth += (found[j][0] == "foreach") - (found[j][0] == "endforeach")
                j += 1
            inside = expanded(found[i + 1:j - 1])
            for value in args[1:]:
                out += [(n, [a.replace("${%s}" % args[0], value) for a in more]) for n, more in inside]
            i = j
        else:
            out.append((name, args))
            i += 1
    return out


def is_cmake(path):
    return path.endswith(("CMakeLists.txt", ".cmake", ".cmake.in", ".pc.in"))


def options(tree):
    """Option -> its default, all files together."""
    found = {}
    for path in filter(is_cmake, tree.files):
        for name, args in commands(tree.text(path)):
            if name in ("option", "cmake_dependent_option") and len(args) > 1:
                found[args[0]] = args[2] if len(args) > 2 else "OFF"
            elif name == "set" and "CACHE" in args:
                found[args[0]] = " ".join(args[1:args.index("CACHE")])
    return found


def sources(tree, target):
    """The C and C++ files that src/CMakeLists.txt makes a library of."""
    found = []
    for name, args in expanded(commands(tree.text("src/CMakeLists.txt"))):
        if name in ("add_library", "target_sources") and args and args[0] == target:
            found += ["src/" + a for a in args[1:] if a.endswith((".c", ".cpp")) and "src/" + a in tree.files]
    return sorted(set(found))


def hidden(tree, target):
    """Whether a library exports only what its headers mark."""
    for name, args in expanded(commands(tree.text("src/CMakeLists.txt"))):
        if name == "set_target_properties" and target in args[:args.index("PROPERTIES") if "PROPERTIES" in args else 0]:
            if "C_VISIBILITY_PRESET" in args and args[args.index("C_VISIBILITY_PRESET") + 1] == "hidden":
                return True
    return False


def _arguments(key, one, other):
    """The arguments that one call of a command has and the other has not."""
    words = []
    for kind, i, j, k, m in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if kind != "equal":
            words += [f"-{w}" for w in one[i:j]] + [f"+{w}" for w in other[k:m]]
    return f"{key[0]}({key[1]}): {' '.join(words)}"


def _calls(text):
    """(command, first argument) -> the arguments of each call."""
    found = {}
    for name, args in expanded(commands(text)):
        if name not in ("option", "cmake_dependent_option"):
            found.setdefault((name, args[0] if args else ""), []).append(args[1:])
    return found


def changes(old, new):
    items = list(changed_values("option", options(old), options(new)))
    for path in both(old, new, is_cmake):
        before, after = _calls(old.text(path)), _calls(new.text(path))
        others = 0
        for key in sorted({*before, *after}):
            gone, come = ([" ".join(c) for c in side.get(key, [])] for side in (before, after))
            less, more = Counter(gone) - Counter(come), Counter(come) - Counter(gone)
            if not OURS.match(path) or key[0] not in _SEEN and not (key[0] == "set" and key[1].startswith("GGML_")):
                others += sum(less.values()) + sum(more.values())
            elif len(before.get(key, [])) == len(after.get(key, [])) == 1 and less:
                items.append(f"~ {path}: {_arguments(key, before[key][0], after[key][0])}")
            else:
                items += [f"- {path}: {key[0]}({key[1]} {args})" for args in sorted(less.elements())]
                items += [f"+ {path}: {key[0]}({key[1]} {args})" for args in sorted(more.elements())]
        if others:
            items.append(f"~ {path}: {others} other commands")
    return items
