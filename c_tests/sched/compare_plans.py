#!/usr/bin/env python3
"""Compares two outputs of sched_diff where the second library may place tensors elsewhere in its buffers. Placement,
splits and copies must be the same. Addresses, waits, and when buffers are made, may differ. The second library may keep
a plan where the reference, which has only one, makes another and logs it (`realloc`). No plan may be larger than the
reference's, and no buffer larger than the reference's have been so far (the reference frees large buffers when another
plan does not fit into them).

    compare_plans.py REFERENCE OTHER"""
import re
import sys

from compare import Checks, placed_views, seeds, wrong

ADDRESS = re.compile(r"(@|from )(0x[0-9a-f]+|\(nil\))")
BYTES = re.compile(r"(size|measured)( \w+)? (\d+)\n")
# Lines that depend on when buffers are made, and on the current user of their memory.
SKIPPED = re.compile(r"  (alloc|free) |  .*: (synchronize|event sync \d+|wait \d+|record \d+|eval)|  (cpy|set|get) |  .*(cpy_async|set_async|get_async)")


def plain(lines):
    """The lines without what depends on the plan, and the sizes of plans and buffers, each with its name."""
    kept, sizes, place, kind = [], [], 0, ""
    for line in lines:
        if SKIPPED.match(line):
            continue
        match = BYTES.fullmatch(line)
        if match:
            place, kind = place + 1 if kind == match[1] else 0, match[1]
            sizes.append((kind, match[2] or place, int(match[3])))
            line = "size\n"
        else:
            kind = ""
        kept.append(ADDRESS.sub(r"\1", line))
    return kept, sizes


def without_kept(want, got):
    """The reference's lines without those about plans that it made where the other library kept its own; and how
    many."""
    rest, n = [], 0
    for line in want:
        if line.startswith("realloc:") and got[len(rest):len(rest) + 1] != [line]:
            n += 1
        else:
            rest.append(line)
    return rest, n


def main():
    a, b = dict(seeds(sys.argv[1])), dict(seeds(sys.argv[2]))
    same = impossible = plans_kept = misplaced = both = 0
    bytes_theirs = bytes_ours = 0
    bad = []
    for name, want in a.items():
        got = b.get(name, [])
        if any(line.startswith("#### signal") for line in got):
            bad.append((name, "crashed"))
            continue
        if want and want[-1].startswith("####"):
            impossible += 1
            continue
        if wrong(got) and not wrong(want):
            bad.append((name, wrong(got)[0].strip()))
            continue
        if wrong(want) or placed_views(want):
            misplaced += 1
            both += bool(wrong(got))
            continue
        (want, theirs), (got, ours) = plain(want), plain(got)
        larger, most = None, {}
        for (kind, who, x), (_, _, y) in zip(theirs, ours):
            if kind == "size":
                x = most[who] = max(x, most.get(who, 0))
            if y > x:
                larger = larger or f"{kind} {who}: {y} bytes instead of {x}"
            bytes_theirs, bytes_ours = bytes_theirs + x, bytes_ours + y
        want, n_kept = without_kept(want, got)
        plans_kept += n_kept
        if want != got:
            at = next((i for i, (x, y) in enumerate(zip(want, got)) if x != y), min(len(want), len(got)))
            bad.append((name, f"line {at}:\n  want {''.join(want[at:at + 1]).strip()}\n  got  {''.join(got[at:at + 1]).strip()}"))
        elif larger:
            bad.append((name, larger))
        else:
            same += 1
    failed = bool(bad) or not same or 3 * both > misplaced or 3 * misplaced > len(a) or set(a) != set(b)
    text = f"{same} equal with {bytes_ours / max(bytes_theirs, 1):.3f} times the bytes, {plans_kept} plans kept, {impossible} impossible for the reference, {misplaced} misplaced by the reference ({both} by both), {len(bad)} different"
    c = Checks()
    c.check(not failed, "small plans for random graphs over random devices", text)
    for name, why in bad[:10]:
        print(f"seed {name}: {why}")
    return c.finish()


sys.exit(main())
