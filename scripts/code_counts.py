#!/usr/bin/env python3
"""Counts what should stay small: lines, markers of bugs in the sources, variables of our own, unsafe blocks where
docs/HOUSE.md expects few: code_counts.py

(src/imports.rs checks imports, src/tensor/family.rs the places of operations, scripts/comments.py comments;
`cargo clippy -- -W clippy::too_many_lines` finds long functions.)"""
import collections
import re
from pathlib import Path

from processes import ROOT, known

# Where unsafe code belongs: C's layouts and functions, system calls, instruction sets.
EXPECTED = ("abi/", "capi/", "sys/", "cpu/simd/")
TESTS = re.compile(r"tests?\.rs$|(^|/)tests/|testing\.rs$")


def unsafe_blocks(text):
    """In the code before the unit tests, without comments and strings."""
    text = re.sub(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"', "", text.partition("#[cfg(test)]\nmod tests {")[0])
    return len(re.findall(r"\bunsafe\s*\{", text))


def lines(*patterns):
    """Lines of the repository's files that one of the patterns matches."""
    return sum(Path(ROOT, file).read_bytes().count(b"\n") for file in known(*patterns))


def own_variables():
    """Variables that the original does not have, but for those of the system and of tests."""
    table = Path(ROOT, "src/environment/table.rs").read_text(encoding="utf-8")
    return re.findall(r'"(\w+)", (?!System|Tests)\w+, since "[^"]*", original NO\b', table)


def main():
    folder = Path(ROOT, "src")
    sources = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.rs"))}
    pages = [f"docs/{name}.md" for name in ("TESTS", "PERFORMANCE", "BENCHMARKS")]
    print(f"lines: src {lines('src/*.rs')}, Python and shell of scripts {lines('scripts/*.py', 'scripts/*.sh')}, "
          f"TESTS, PERFORMANCE and BENCHMARKS {lines(*pages)}, HOUSE {lines('docs/HOUSE.md')}")
    print(f"markers of bugs in src: {sum(text.count('mutant::on') for text in sources.values())}")
    own = own_variables()
    print(f"variables of our own: {len(own)} ({', '.join(own)})")
    blocks = {path: unsafe_blocks(text) for path, text in sources.items()}
    outside = collections.Counter()
    for path, n in blocks.items():
        if n and not path.startswith(EXPECTED) and not TESTS.search(path):
            outside[path.split("/")[0]] += n
    print(f"unsafe blocks: {sum(blocks.values())}, of them {outside.total()} outside {', '.join(e[:-1] for e in EXPECTED)}, tests aside")
    print("   " + ", ".join(f"{part} {n}" for part, n in outside.most_common()))
    forbid = [path for path, text in sources.items() if "#![forbid(unsafe_code)]" in text]
    of_kernels = [sum(path.startswith("cpu/ops/") for path in paths) for paths in (forbid, sources)]
    print(f"files that forbid unsafe code: {len(forbid)} of {len(sources)}; of the kernel families {of_kernels[0]} of {of_kernels[1]}")


if __name__ == "__main__":
    main()
