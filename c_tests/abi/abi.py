#!/usr/bin/env python3
"""The binary interface, checked against committed facts: the .txt files beside this one.

usage: abi.py layout     INCLUDE_DIR [INTERNAL_DIR]   sizes, alignments, offsets, enum values and macros that the
                                                      headers give to a C compiler
       abi.py signatures INCLUDE_DIR [--write FILE]   the type of every public function as a C++ compiler sees it
       abi.py headers    INCLUDE_DIR                  every header compiles alone, and c_tests/host/macros.c, as strict
                                                      C11 and as strict C++17
       abi.py symbols    LIBRARY ...                  the exported names
       abi.py backends   INCLUDE_DIR [--write FILE]   the same of headers of backends that this library does not have,
                                                      and their macros
       abi.py files      LIB_DIR                      which file defines which public function (files.txt)
INTERNAL_DIR holds ggml-backend-impl.h when it is not beside the public headers (and, for the original, ggml-impl.h).
CC, CXX and NM name the tools. Work files go to $ABI_OUT (default: a temporary directory).
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
from checks import Checks  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CC, CXX, NM = os.environ.get("CC", "cc"), os.environ.get("CXX", "c++"), os.environ.get("NM", "nm")
HEADERS = ("ggml.h", "ggml-alloc.h", "ggml-backend.h", "ggml-cpu.h", "gguf.h", "ggml-opt.h", "ggml-rpc.h", "ggml-vulkan.h")
checks = Checks()
check = checks.sound


def facts(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        return [line.rstrip("\n") for line in f if line.strip() and not line.startswith("#")]


def names(name):
    return [line for line in facts(name) if not line.startswith("[")]


def work_dir():
    d = os.environ.get("ABI_OUT") or tempfile.mkdtemp(prefix="ggml-abi-")
    os.makedirs(d, exist_ok=True)
    return d


def compile_and_run(compiler, flags, source, includes):
    """-> (the program's output, '') or (None, the compiler's first lines)"""
    exe = os.path.splitext(source)[0]
    cmd = [*compiler.split(), *flags, *(a for d in includes for a in ("-I", d)), source, "-o", exe]
    r = subprocess.run(cmd, capture_output=True, text=True)
    if r.returncode != 0:
        errors = [line for line in r.stderr.split("\n") if "error" in line] or r.stderr.split("\n")
        return None, "does not compile: " + " | ".join(errors[:6])
    return subprocess.run([exe], capture_output=True, text=True, check=True).stdout, ""


def layout(include, internal):
    includes = [include] + ([internal] if internal else [])
    present = [h for h in (*HEADERS, "ggml-backend-impl.h", "ggml-impl.h") if any(os.path.isfile(os.path.join(d, h)) for d in includes)]
    expected, lines, group, skipped = {}, [], None, 0

    def want(key, expression, value):
        expected[key] = value
        lines.append(f'    printf("%s %lld\\n", "{key}", (long long) ({expression}));')

    in_macros = False
    for line in facts("layout.txt"):
        words = line.split()
        if words[0] in ("struct", "typedef", "enum"):
            header = line[line.index("[") + 1:-1]
            group = words[1] if header in present else None
            skipped += group is None
            if group and words[0] != "enum":
                ctype = group if words[0] == "typedef" else "struct " + group
                want(f"{group}:size", f"sizeof({ctype})", int(words[3]))
                want(f"{group}:align", f"_Alignof({ctype})", int(words[5]))
            elif group:
                ctype = None
                want(f"{group}:size", f"sizeof(enum {group})", 4)
        elif words[0] == "macros":
            in_macros = True
        elif in_macros:
            for m in line.split(","):
                if m.strip():
                    name, value = m.split()
                    if name != "GGML_BACKEND_API_VERSION" or "ggml-backend-impl.h" in present:
                        want(name, name, int(value))
        elif group and ctype:
            want(f"{group}.{words[2]}:offset", f"offsetof({ctype}, {words[2]})", int(words[0]))
            want(f"{group}.{words[2]}:size", f"sizeof((({ctype} *) 0)->{words[2]})", int(words[1]))
        elif group:
            want(words[1], words[1], int(words[0]))
    source = os.path.join(work_dir(), "layout.c")
    with open(source, "w", encoding="utf-8") as f:
        f.write("#include <stddef.h>\n#include <stdio.h>\n" + "".join(f'#include "{h}"\n' for h in present))
        f.write("int main(void) {\n" + "\n".join(lines) + "\n    return 0;\n}\n")
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror"] + ([] if not internal else ["-Wno-unused-function", "-D_GNU_SOURCE", "-O1", "-Wl,--unresolved-symbols=ignore-all"])
    out, why = compile_and_run(CC, strict, source, includes)
    if out is None:
        check("layout", why)
        return
    got = dict((k, int(v)) for k, v in (line.split() for line in out.strip().split("\n")))
    for kind, pick in (("structs", lambda k: ":" in k and k.split(":")[0].split(".")[0] not in enums()), ("enums", lambda k: k.split(":")[0] in enums() or (":" not in k and k not in macros())),
                       ("macros", lambda k: k in macros())):
        mine = [k for k in expected if pick(k)]
        bad = [f"{k} is {got.get(k)}, expected {expected[k]}" for k in mine if got.get(k) != expected[k]]
        check(f"layout of {kind} ({len(mine)} facts)", "; ".join(bad[:8]) + (f" and {len(bad) - 8} more" if len(bad) > 8 else ""))
    if skipped:
        print(f"note: {skipped} groups of internal headers are not in {include}")


def enums():
    return {line.split()[1] for line in facts("layout.txt") if line.startswith("enum ")}


def macros():
    rest = facts("layout.txt")
    rest = rest[rest.index("macros") + 1:]
    return {m.split()[0] for line in rest for m in line.split(",") if m.strip()}


def plain(t):
    """A type as GCC or Clang print it, in one spelling."""
    t = re.sub(r"\b(struct|enum|union) ", "", t)
    t = re.sub(r"\blong (unsigned|signed) int\b", r"\1 long", t)
    t = re.sub(r"\blong int\b", "long", t)
    t = re.sub(r"\bshort (unsigned|signed) int\b", r"\1 short", t)
    t = re.sub(r"\bshort int\b", "short", t)
    t = re.sub(r"\b(_IO_FILE|FILE)\b", "FILE", t)
    t = re.sub(r"\(void\)", "()", t)
    t = re.sub(r"\* *const\b", "*const", t)
    return re.sub(r"\s*([*(),&\[\]])\s*", r"\1", t).strip()


def types_of(include, functions, headers, prologue=""):
    """-> ({function: its type as a C++ compiler sees it}, "") or (None, why not)"""
    source = os.path.join(work_dir(), "signatures.cpp")
    with open(source, "w", encoding="utf-8") as f:
        f.write(prologue + "#include <cstdio>\n" + "".join(f'#include "{h}"\n' for h in headers))
        f.write("template <class T> const char * type_of(T) { return __PRETTY_FUNCTION__; }\nint main() {\n")
        for n in functions:
            f.write(f'    std::printf("%s %s\\n", "{n}", type_of(decltype(&{n}){{}}));\n')
        f.write("}\n")
    # -O0 and unused addresses: nothing of the library is needed to link
    out, why = compile_and_run(CXX, ["-std=c++17", "-w"], source, [include])
    if out is None:
        return None, why
    lines = (line.split(" ", 1) for line in out.strip().split("\n"))
    return {name: plain(re.search(r"T = (.*)[\];]", text).group(1).split("; ")[0]) for name, text in lines}, ""


def signatures(include, out_file):
    functions = names("functions.txt")
    have_vulkan = os.path.isfile(os.path.join(include, "ggml-vulkan.h"))
    got, why = types_of(include, functions, [h for h in HEADERS if h != "ggml-vulkan.h" or have_vulkan])
    if got is None:
        check("signatures", why)
        return
    if out_file:
        with open(out_file, "w", encoding="utf-8") as f:
            f.write("# The C type of every public function of ggml 0.28.0 (a pointer to it, typedefs resolved, LP64).\n")
            f.writelines(f"{n} {got[n]}\n" for n in functions)
        return
    expected = dict(line.split(" ", 1) for line in facts("signatures.txt"))
    for n in functions:
        if got.get(n) != expected[n]:
            check(f"signature of {n}", f"is {got.get(n)}, expected {expected[n]}")
    wrong = [n for n in functions if got.get(n) != expected[n]]
    if not wrong:
        check(f"signatures of {len(functions)} functions", "")


def backends(include, out_file):
    """backends.txt: a header in brackets, then `function TYPE` and `MACRO value` lines. A header that is not in
    `include` is left out."""
    expected, header = {}, None
    for line in facts("backends.txt"):
        if line.startswith("["):
            header = line[1:-1]
            expected[header] = []
        else:
            expected[header].append(line.split(" ", 1))
    absent = [h for h in expected if not os.path.isfile(os.path.join(include, h))]
    lines = []
    for header in (h for h in expected if h not in absent):
        functions = [n for n, _ in expected[header] if not n.isupper()]
        got, why = types_of(include, functions, [header])
        macros_of = {}
        r = subprocess.run([*CXX.split(), "-std=c++17", "-dM", "-E", "-x", "c++", "-I", include, os.path.join(include, header)], capture_output=True, text=True)
        for define in r.stdout.split("\n"):
            words = define.split(" ", 2)
            if len(words) == 3:
                macros_of[words[1]] = words[2].strip()
        if got is None:
            check(header, why)
            continue
        is_now = {**got, **macros_of}
        wrong = [f"{n} is {is_now.get(n)}, expected {v}" for n, v in expected[header] if is_now.get(n) != v]
        lines += [f"[{header}]", *(f"{n} {is_now.get(n)}" for n, _ in expected[header])]
        if not out_file:
            check(f"{header}: {len(functions)} functions, {len(expected[header]) - len(functions)} macros", "; ".join(wrong[:4]))
    if out_file:
        with open(out_file, "w", encoding="utf-8") as f:
            f.writelines(line + "\n" for line in lines)
    elif absent:
        print("note: not in " + include + ": " + " ".join(absent))


def defined(path):
    """The names that a library defines, or None."""
    r = subprocess.run([NM, "-D", "--defined-only", path], capture_output=True, text=True)
    return {line.split()[-1].split("@")[0] for line in r.stdout.strip().split("\n") if line} if r.returncode == 0 else None


# What our libggml has for libraries in C++ (src/capi/exceptions.rs).
OF_CXX = {"__cxa_call_terminate"}


def files(folder):
    """A file of ours defines the functions that the list names and no other. A file of the original defines, of all
    public functions, just these."""
    expected, name = {}, None
    for line in facts("files.txt"):
        if line.startswith("["):
            name = line[1:line.index("]")]
            expected[name] = set()
        else:
            expected[name].add(line)
    public = set(names("functions.txt")) | set().union(*expected.values())
    for name, functions in expected.items():
        has = defined(os.path.join(folder, name + ".so"))
        if has is None:
            print(f"note: there is no {name}.so in {folder}")
            continue
        base = defined(os.path.join(folder, "libggml-base.so")) or set()
        ours = any(n.startswith("ggml_rs_") for n in base)
        extra, missing = sorted((has - OF_CXX if ours else has & public) - functions), sorted(functions - has)
        check(f"{name}.so defines {len(functions)} functions", " ".join([f"+{n}" for n in extra[:8]] + [f"-{n}" for n in missing[:8]]))
        if ours:
            check(f"all of {name}.so is in libggml-base.so too", " ".join(sorted(functions - base)[:8]))


def refused(language, source, include, *flags):
    """The first errors and warnings of a strict C11 or C++17 compiler about a source; nothing if there are none."""
    compiler = [*CC.split(), "-std=c11"] if language == "C11" else [*CXX.split(), "-std=c++17", "-x", "c++"]
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", include]
    r = subprocess.run([*compiler, *strict, *flags, source], capture_output=True, text=True)
    return r.stderr[:800].strip() if r.returncode else ""


def headers(include):
    listed = sorted(h for h in os.listdir(include) if h.endswith(".h"))
    source = os.path.join(work_dir(), "alone.c")
    for h in listed:
        with open(source, "w", encoding="utf-8") as f:
            f.write(f'#include "{h}"\n#include "{h}"\n')
        for define in ([], ["-DGGML_SHARED"], ["-DGGML_BACKEND_DL"]):
            for language in ("C++17",) if h == "ggml-cpp.h" else ("C11", "C++17"):
                check(" ".join([h, "compiles alone as", language, *define]), refused(language, source, include, *define))
    missing = [h for h in (*HEADERS, "ggml-backend-impl.h", "ggml-cpp.h") if h not in listed]
    check("all headers are there", ", ".join(missing) and "missing: " + ", ".join(missing))
    macros = os.path.join(HERE, "..", "host", "macros.c")
    for define in ([], ["-DGGML_BACKEND_DL", "-DNDEBUG", "-DGGML_BACKEND_SHARED"]):
        for language in ("C11", "C++17"):
            check(" ".join(["macros as", language, *define]), refused(language, macros, include, *define))
    # The layout of tensors depends on this number: a host of another one must not compile.
    said = refused("C11", macros, include, "-DGGML_MAX_NAME=1040")
    check("a host of another GGML_MAX_NAME is refused", "is built with GGML_MAX_NAME" not in said and f"not by this name: {said}")


def symbols(libraries):
    exported = set()
    for path in libraries:
        names_of = defined(path)
        if names_of is None:
            check("symbols", f"{NM} cannot read {path}")
            return
        exported |= names_of
    public, plugin = set(names("functions.txt")), set(names("plugin.txt"))
    for what, expected in (("public functions", public), ("names for loadable backends", plugin)):
        missing = sorted(expected - exported)
        check(f"{len(expected)} {what} are exported", missing and f"{len(missing)} missing: " + " ".join(missing[:40]) + (" ..." if len(missing) > 40 else ""))
    extra = sorted(s for s in exported - public - plugin - set(names("allowed.txt")) if not s.startswith("ggml_rs_"))
    check("nothing else is exported", extra and f"{len(extra)}: " + " ".join(extra[:40]) + (" ..." if len(extra) > 40 else ""))


def main():
    a = sys.argv[1:]
    if len(a) < 2 or a[0] not in ("layout", "signatures", "headers", "symbols", "backends", "files"):
        sys.exit(__doc__.strip())
    if a[0] == "layout":
        layout(a[1], a[2] if len(a) > 2 else None)
    elif a[0] == "signatures":
        signatures(a[1], a[3] if len(a) > 3 and a[2] == "--write" else None)
    elif a[0] == "headers":
        headers(a[1])
    elif a[0] == "backends":
        backends(a[1], a[3] if len(a) > 3 and a[2] == "--write" else None)
    elif a[0] == "files":
        files(a[1])
    else:
        symbols(a[1:])
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
