#!/usr/bin/env python3
"""Compares two outputs of sched_diff, seed by seed. The first library is the reference. The second must do the same,
but may

- wait more often (`waits`): for a backend in flight that uses the memory that is written next;
- copy a view of an input at once (`at once`), where the reference copies it in the destination's queue, and so reads
  bytes that the host may be writing by then;
- make a new plan where the reference uses a plan that was made for other edges.

If the reference ended the process, only checks that the second library did not crash. Some seeds have no right
placement to compare with. On these the reference gives a backend memory that it cannot use, or a copy from before the
memory was written (`impossible`). There the second library does neither, except for results that take the memory of a
source which their own backend reads through another: both libraries do that, on few seeds. On others the host has
placed a view where its memory cannot be used, and a node reads it (`views elsewhere`): the reference copies it in the
order of the wrong backend. The share of such seeds has a limit.

    compare.py REFERENCE OTHER"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
from checks import Checks  # noqa: E402

WAIT = re.compile(r"  .*: (synchronize|event sync \d+|wait \d+|record \d+)\n$")
COPY = re.compile(r"  .* -> .*: cpy_async .* @\S+ -> (.*) ([01])\n$")


def seeds(path):
    name, lines = None, []
    for line in open(path, errors="replace"):
        if line.startswith("==== seed"):
            if name is not None:
                yield name, lines
            name, lines = line.split()[-1], []
        elif name is not None:
            lines.append(line)
    if name is not None:
        yield name, lines


def wrong(lines):
    """Where a node cannot have a right result: its own memory or a source is another backend's, or its source is an old
    copy."""
    return [line for line in lines if line.startswith("impossible: ") and "no memory" not in line]


def placed_views(lines):
    return any(line.startswith("views elsewhere: ") for line in lines)


def same_place(want, got):
    """A wait of a stream's queue, and the same wait of the host."""
    return ": wait " in want and want.replace(": wait ", ": event sync ") == got


def follow(want, got):
    """Compares both line by line. Returns the kinds of differences, and the place of one that is not allowed, or
    None."""
    kinds, i, j = set(), 0, 0
    while i < len(want) or j < len(got):
        w, g = want[i] if i < len(want) else "", got[j] if j < len(got) else ""
        if w == g or same_place(w, g):
            i, j = i + 1, j + 1
            continue
        copy = COPY.match(w)
        if WAIT.match(g):
            kinds.add("waits")
            j += 1
        elif copy:
            target, taken = copy[1], copy[2] == "1"
            kinds.add("at once")
            i += 1
            if taken:  # the same bytes to the same place, now
                if not re.match(r"  (set|cpy|get) ", g) or (target not in g and " get " not in f" {g}"):
                    return kinds, i - 1
                j += 1
            else:
                while i < len(want) and WAIT.match(want[i]):
                    i += 1
        else:
            return kinds, i
    return kinds, None


def main():
    same = waits = at_once = impossible = stricter = misplaced = both = 0
    bad, names, other = [], [], dict(seeds(sys.argv[2]))
    for name, want in seeds(sys.argv[1]):
        names.append(name)
        got = other.get(name, [])
        if any(line.startswith("#### signal") for line in got):
            bad.append((name, "crashed"))
        elif wrong(got) and not wrong(want):
            bad.append((name, wrong(got)[0].strip()))
        elif wrong(want) or want != got and placed_views(want):
            misplaced += 1
            both += bool(wrong(got))
        elif want and want[-1].startswith("####"):
            impossible += 1
        elif want == got:
            same += 1
        else:
            kinds, at = follow(want, got)
            if at is None:
                waits, at_once = waits + ("at once" not in kinds), at_once + ("at once" in kinds)
                continue
            at_got = next((k for k, (x, y) in enumerate(zip(want, got)) if x != y), 0)
            if want[at_got:at_got + 1] == ["alloc 1\n"] and got[at_got].endswith(": synchronize\n"):
                stricter += 1
                continue
            bad.append((name, f"line {at}:\n  want {''.join(want[at:at + 1]).strip()}\n  got  {''.join(got[at_got:at_got + 1]).strip()}"))
    total = same + waits + at_once
    text = (f"{total} equal (of these {waits} with more waits, {at_once} with inputs copied at once), {stricter} planned again where the "
            f"reference was not, {impossible} impossible for the reference, {misplaced} misplaced by the reference ({both} by both), {len(bad)} different")
    failed = bool(bad) or not same or same < total // 2 or 20 * at_once > total or 100 * stricter > total or 3 * both > misplaced or 3 * misplaced > len(names) or set(names) != set(other)
    c = Checks()
    c.check(not failed, "random graphs over random devices", text)
    for name, why in bad[:10]:
        print(f"seed {name}: {why}")
    return c.finish()


if __name__ == "__main__":
    sys.exit(main())
