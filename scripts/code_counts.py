#!/usr/bin/env python3
"""Counts that show how well the sources follow the rules of docs/HOUSE.md: code_counts.py [ROOT]

Unsafe blocks where there should be few, files that forbid unsafe code, long functions, fields of the scheduler, and
operations whose family has another name in another part of the library; lines, markers of bugs in production code, and
variables of our own. (src/imports.rs checks imports, scripts/comments.py comments.)"""
import os
import re
import subprocess
import sys

# Where unsafe code belongs: C's layouts and functions, system calls, instruction sets.
EXPECTED = ("src/abi/", "src/capi/", "src/sys/", "src/cpu/simd/")
LONG = 80


def sources(root):
    for folder, _, names in sorted(os.walk(os.path.join(root, "src"))):
        for name in sorted(names):
            if name.endswith(".rs"):
                path = os.path.join(folder, name)
                with open(path) as f:
                    yield os.path.relpath(path, root), f.read()


def code(text):
    """Without comments, and with strings emptied."""
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)


def without_tests(text):
    at = text.find("#[cfg(test)]\nmod tests {")
    return text if at < 0 else text[:at]


def functions(text):
    """Name and lines of every function: from its first line to the line that closes its indentation."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        m = re.match(r"(\s*)(?:pub(?:\([^)]*\))? )?(?:const )?(?:unsafe )?(?:extern \"\w*\" )?fn (\w+)", line)
        if not m:
            continue
        for j in range(i, len(lines)):
            if lines[j].startswith(m.group(1) + "}") or lines[j].rstrip().endswith(";") and j == i:
                yield m.group(2), j - i + 1
                break


def families(root):
    """Operation -> name of its family, from the one table (src/tensor/family.rs)."""
    with open(os.path.join(root, "src/tensor/family.rs")) as f:
        table = f.read().split("\nfamilies! {\n")[1].split("\n}\n")[0]
    return {op: name for name, ops in re.findall(r'"(\w+)":([^;]*);', table) for op in re.findall(r"GGML_OP_(\w+)", ops)}


def places(root):
    """(folder, operation) -> the files there that have it: constructors, kernels, Vulkan recipes, gradients. The unit
    tests of src/tensor/family.rs check more; this only counts."""
    found = {}
    for folder, pattern in [("src/tensor/ops", r"(?:new\(|node\(|=> |set_op\()GGML_OP_(\w+)"), ("src/graph/backward", r"\bGGML_OP_(\w+)")]:
        for path, text in sources(root):
            place = os.path.relpath(path, folder).split("/")[0].removesuffix(".rs")
            if path.startswith(folder + "/") and place != "mod":
                for op in re.findall(pattern, code(without_tests(text))):
                    found.setdefault((folder, op), set()).add(place)
    with open(os.path.join(root, "src/cpu/table.rs")) as f:
        for op, place in re.findall(r"\bop\(\s*GGML_OP_(\w+),\s*(\w+)::", f.read()):
            found.setdefault(("src/cpu/ops", op), set()).add(place)
    with open(os.path.join(root, "src/vulkan/ops/mod.rs")) as f:
        for ops, place in re.findall(r"((?:\|?\s*GGML_OP_\w+\s*)+)=>[\s{(]*(\w+)::", f.read()):
            for op in re.findall(r"GGML_OP_(\w+)", ops):
                found.setdefault(("src/vulkan/ops", op), set()).add(place)
    return found


# Written by `make headers`, `status`, `shaders` and `upstream-facts`, by the oracle, and by `test_debian.sh symbols`.
GENERATED = ("include/", "docs/STATUS.md", "src/vulkan/spirv/", "c_tests/abi/", "c_tests/host/facts/", "packaging/debian/")


def format_files(root, name="Q1_0"):
    """Files that contain the name of one number format: written by hand, and generated. Prose does not count."""
    pattern = re.compile(r"(?<![A-Za-z0-9])(?:\w*_)?(?:%s|%s)(?![A-Za-z0-9])|Block%s\b" % (name, name.lower(), name), re.A)
    other = re.compile(r"[A-Za-z]" + name, re.I)  # TQ1_0 is not Q1_0
    by_hand, generated = [], []
    for folder in ("src", "include", "c_tests", "vulkan_shaders", "scripts", "packaging", "docs", "fuzz", "tools", "examples"):
        for where, _, files in os.walk(os.path.join(root, folder)):
            if "target" in where.split(os.sep):
                continue
            for file in files:
                path = os.path.relpath(os.path.join(where, file), root)
                if path == "scripts/code_counts.py" or path.startswith("docs/") and not path.startswith(GENERATED):
                    continue
                with open(os.path.join(root, path), errors="replace") as f:
                    text = other.sub("", f.read())
                if pattern.search(text) or name.lower() in os.path.splitext(file)[0].split("quant_")[-1:]:
                    (generated if path.startswith(GENERATED) else by_hand).append(path)
    return sorted(by_hand), sorted(generated)


def lines(root, *patterns):
    """Lines of all files of the repository that one of the patterns matches."""
    files = subprocess.run(["git", "ls-files", *patterns], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    return sum(open(os.path.join(root, f), "rb").read().count(b"\n") for f in files if f and os.path.isfile(os.path.join(root, f)))


def own_variables(root):
    """Variables that the original does not have, but for those of the system and of tests."""
    with open(os.path.join(root, "src/environment/table.rs"), encoding="utf-8") as f:
        return re.findall(r'"(\w+)", (?!System|Tests)\w+, since "[^"]*", original NO\b', f.read())


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files = list(sources(root))
    pages = [f"docs/{name}.md" for name in ("TESTS", "PERFORMANCE", "BENCHMARKS")]
    print(f"lines: src {lines(root, 'src/*.rs')}, Python and shell of scripts {lines(root, 'scripts/*.py', 'scripts/*.sh')}, "
          f"TESTS, PERFORMANCE and BENCHMARKS {lines(root, *pages)}, HOUSE {lines(root, 'docs/HOUSE.md')}")
    print(f"markers of bugs in src: {sum(len(re.findall(r'mutant::on', t)) for _, t in files)}")
    own = own_variables(root)
    print(f"variables of our own: {len(own)} ({', '.join(own)})")
    blocks = {p: len(re.findall(r"\bunsafe\s*\{", code(without_tests(t)))) for p, t in files}
    outside = {p: n for p, n in blocks.items() if n and not p.startswith(EXPECTED) and not re.search(r"tests?\.rs$|/tests/|testing\.rs$", p)}
    print(f"unsafe blocks: {sum(blocks.values())}, of them {sum(outside.values())} outside {', '.join(e[4:-1] for e in EXPECTED)}, tests aside")
    by_folder = {}
    for path, n in outside.items():
        by_folder[path.split("/")[1]] = by_folder.get(path.split("/")[1], 0) + n
    print("   " + ", ".join(f"{k} {v}" for k, v in sorted(by_folder.items(), key=lambda x: -x[1])))
    forbid = [p for p, t in files if "#![forbid(unsafe_code)]" in t]
    print(f"files that forbid unsafe code: {len(forbid)} of {len(files)}; of the kernel families {sum(p.startswith('src/cpu/ops/') for p in forbid)} "
          f"of {sum(p.startswith('src/cpu/ops/') for p, _ in files)}")
    long = [(p, name, n) for p, t in files for name, n in functions(t) if n > LONG]
    print(f"functions of more than {LONG} lines: {len(long)}")
    for p, name, n in long:
        print(f"   {p}: {name}, {n}")
    for p, t in files:
        m = re.search(r"pub struct Scheduler \{\n(.*?)\n\}", t, re.S)
        if m:
            fields = re.findall(r"^    (?:pub(?:\([^)]*\))? )?\w+:", m.group(1), re.M)
            print(f"fields of Scheduler: {len(fields)}")
            print(f"files with `impl Scheduler`: {sum(bool(re.search(r'^impl Scheduler ', text, re.M)) for _, text in files)}")
    family = families(root)
    found = places(root)
    differ = sorted({op for (_, op), where in found.items() if op in family and where != {family[op]}})
    print(f"operations outside the file of their family (constructor, kernel, Vulkan recipe, gradient): {len(differ)} of {len(family)} "
          f"({len(found)} places)")
    for op in differ:
        print(f"   {op}")
    by_hand, generated = format_files(root)
    print(f"files that know the number format Q1_0: {len(by_hand)} written by hand, {len(generated)} generated")
    for path in by_hand:
        print(f"   {path}")


if __name__ == "__main__":
    main()
