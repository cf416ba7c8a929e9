#!/usr/bin/env python3
"""Compares a text of one fact a line ("name: value") with the committed facts; reports each fact that differs.

usage: facts.py TEXT FACTS [PENDING]
PENDING lists beginnings of names that the library does not build yet. If a fact with such a name differs, it is skipped
and counted.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
from checks import Checks  # noqa: E402


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return [line.rstrip("\n") for line in f if line.strip()]


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__.strip())
    got = dict(line.split(": ", 1) if ": " in line else (line, "") for line in read(sys.argv[1]))
    pending = [p for p in read(sys.argv[3]) if not p.startswith("#")] if len(sys.argv) == 4 else []
    c, same, skipped = Checks(), 0, 0
    if not got:
        c.check(False, sys.argv[1], "the program printed nothing")
        return c.finish()
    for line in read(sys.argv[2]):
        name, value = line.split(": ", 1) if ": " in line else (line, "")
        if got.get(name) == value:
            same += 1
        elif any(name.startswith(p) for p in pending):
            skipped += 1
        else:
            c.check(False, name, f"{got.get(name, 'nothing')}, expected {value}"[:400])
    if same:
        c.check(True, f"{same} facts")
    if skipped:
        print(f"note: {skipped} facts are of what is not built yet")
    return c.finish()


if __name__ == "__main__":
    sys.exit(main())
