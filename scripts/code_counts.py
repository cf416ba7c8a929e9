#!/usr/bin/env python3
"""Counts that show how well the sources follow the rules of docs/HOUSE.md: code_counts.py

Variables of our own; unsafe blocks where there should be few, and files that forbid unsafe code; files that know
a number format. (src/imports.rs checks imports, src/tensor/family.rs the places of operations, scripts/comments.py
comments; `cargo clippy -- -W clippy::too_many_lines` finds long functions.)"""
import collections
import os
import re
import subprocess

from processes import ROOT

# Where unsafe code belongs: C's layouts and functions, system calls, instruction sets.
EXPECTED = ("src/abi/", "src/capi/", "src/sys/", "src/cpu/simd/")
TESTS = re.compile(r"tests?\.rs$|/tests/|testing\.rs$")
# Written by `make headers`, `status`, `shaders` and `upstream-facts`, by the oracle, and by `test_debian.sh symbols`.
GENERATED = ("include/", "docs/STATUS.md", "src/vulkan/spirv/", "c_tests/abi/", "c_tests/host/facts/", "packaging/debian/")
FORMAT = re.compile(r"(?<![A-Za-z])(Q1_0|q1_0|BlockQ1_0)(?![A-Za-z0-9])") # TQ1_0 is not Q1_0


def texts(*patterns):
    """Path -> text of the files of the repository that match one of the patterns."""
    listed = subprocess.run(["git", "ls-files", *patterns], capture_output=True, text=True, check=True).stdout.split("\n")
    return {path: open(path, errors="replace").read() for path in listed if os.path.isfile(path)}


def unsafe_blocks(text):
    """In the code before the unit tests, without comments and strings."""
    text = re.sub(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"', "", text.partition("#[cfg(test)]\nmod tests {")[0])
    return len(re.findall(r"\bunsafe\s*\{", text))


def main():
    os.chdir(ROOT)
    sources = texts("src/*.rs")
    # That the original does not have, but for those of the system and of tests.
    own = re.findall(r'"(\w+)", (?!System|Tests)\w+, since "[^"]*", original NO\b', sources["src/environment/table.rs"])
    print(f"variables of our own: {len(own)} ({', '.join(own)})")
    blocks = {path: unsafe_blocks(text) for path, text in sources.items()}
    outside = collections.Counter()
    for path, n in blocks.items():
        if n and not path.startswith(EXPECTED) and not TESTS.search(path):
            outside[path.split("/")[1]] += n
    print(f"unsafe blocks: {sum(blocks.values())}, of them {outside.total()} outside {', '.join(e[4:-1] for e in EXPECTED)}, tests aside")
    print("   " + ", ".join(f"{folder} {n}" for folder, n in outside.most_common()))
    forbid = [path for path, text in sources.items() if "#![forbid(unsafe_code)]" in text]
    of_kernels = [sum(p.startswith("src/cpu/ops/") for p in paths) for paths in (forbid, sources)]
    print(f"files that forbid unsafe code: {len(forbid)} of {len(sources)}; of the kernel families {of_kernels[0]} of {of_kernels[1]}")
    folders = ("src", "include", "c_tests", "vulkan_shaders", "scripts", "packaging", "docs/STATUS.md", "fuzz", "tools", "examples")
    known = [path for path, text in texts(*folders, ":!scripts/code_counts.py").items() if FORMAT.search(path + text)]
    by_hand = [path for path in known if not path.startswith(GENERATED)]
    print(f"files that know the number format Q1_0: {len(by_hand)} written by hand, {len(known) - len(by_hand)} generated")
    print("\n".join(f"   {path}" for path in by_hand))


if __name__ == "__main__":
    main()
