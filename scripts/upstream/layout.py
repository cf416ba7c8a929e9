"""Sizes and offsets of a tree's structs as a C compiler lays them out; x86-64 only."""
import os
import platform
import shutil
import subprocess
import tempfile


# Without C++ and without headers that only the CPU backend's own files can include.
_HEADERS = ("ggml.h", "ggml-alloc.h", "ggml-backend.h", "ggml-cpu.h", "gguf.h", "ggml-opt.h", "ggml-rpc.h", "ggml-vulkan.h",
            "ggml-backend-impl.h", "ggml-impl.h")


def compiler():
    """The C compiler, where it makes code for x86-64."""
    cc = os.environ.get("CC", "cc").split()
    if platform.machine() != "x86_64" or not cc or not shutil.which(cc[0]):
        return None
    return cc


def structs_of(tree):
    """The complete structs of the C headers: name -> (Aggregate, how C spells the type)."""
    found = {}
    for path in tree.interface():
        base = path.rsplit("/", 1)[1]
        if base not in _HEADERS and path != "src/ggml-common.h":
            continue
        d = tree.parse(path)
        for a in d.aggregates.values():
            if a.name and a.kind in ("struct", "union") and a.fields:
                tagged = f"{a.kind} {a.name} {{" in " ".join(tree.text(path).split())
                found[a.name] = (a, f"{a.kind} {a.name}" if tagged else a.name)
    return found


def run(tree, lines):
    """Compiles and runs a C program with these lines, which includes the tree's headers. Returns its output, and why
    there is none: (text, reason)."""
    cc = compiler()
    if cc is None:
        return "", "no C compiler for x86-64"
    present = [h for h in _HEADERS if f"include/{h}" in tree.files or f"src/{h}" in tree.files]
    common = "#define GGML_COMMON_DECL_C\n#include \"ggml-common.h\"\n" if "src/ggml-common.h" in tree.files else ""
    program = "#include <stddef.h>\n#include <stdio.h>\n" + "".join(f'#include "{h}"\n' for h in present) + common + \
        "int main(void) {\n" + "\n".join(lines) + "\n    return 0;\n}\n"
    with tempfile.TemporaryDirectory(prefix="upstream-") as work:
        source, exe = os.path.join(work, "layout.c"), os.path.join(work, "layout")
        with open(source, "w", encoding="utf-8") as f:
            f.write(program)
        includes = ["-I", os.path.join(tree.root, "include"), "-I", os.path.join(tree.root, "src")]
        # Inline functions of the internal headers call functions that no library here has.
        r = subprocess.run([*cc, "-std=gnu11", "-w", "-O1", "-Wl,--unresolved-symbols=ignore-all", *includes, source, "-o", exe],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if r.returncode != 0:
            errors = [line for line in r.stdout.splitlines() if "error" in line] or r.stdout.splitlines()
            return "", "the headers do not compile: " + (errors[0].replace(tree.root + "/", "").replace(work + "/", "") if errors else "no reason given")
        return subprocess.run([exe], stdout=subprocess.PIPE, text=True, check=True).stdout, ""


def layout(tree):
    """Name of a struct or struct.member -> (size, alignment or offset), and why there is none: (facts, reason)."""
    lines = []
    for name, (aggregate, spelling) in sorted(structs_of(tree).items()):
        lines.append(f'    printf("{name} %zu %zu\\n", sizeof({spelling}), _Alignof({spelling}));')
        # A member that is a struct, and its members.
        parts = [part for n, _ in aggregate.fields for part in (n.split(".")[0], n)]
        for member in dict.fromkeys(parts):
            lines.append(f'    printf("{name}.{member} %zu %zu\\n", sizeof((({spelling} *) 0)->{member}), offsetof({spelling}, {member}));')
    text, why = run(tree, lines)
    facts = {}
    for line in text.splitlines():
        name, size, where = line.rsplit(" ", 2)
        facts[name] = (int(size), int(where))
    return facts, why
