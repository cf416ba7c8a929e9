#!/usr/bin/env python3
"""Compares the results of two runs of ops: the original's and the library's under test.

usage: compare.py ORIGINAL.bin TESTED.bin [-v]

For each op and type, prints the number of cases and the worst error beside its bound, as the normalised mean square
error: the sum of squared differences over the sum of squared values. Before that, prints a table of ops by types, with
the worst error only. A case that the original computes and the tested library does not is a failure. Cases that the
original cannot compute are only listed.
"""
import array
import math
import os
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
from checks import Checks  # noqa: E402

OK, UNSUPPORTED, CRASHED, FAILED = range(4)
STATUS = ("computed", "unsupported", "crashed", "failed")

FLOATS = ("f32", "f16", "bf16", "f8_e4m3")

# Bit-equal. These only move or convert values, or compute integers: the formats determine the result, not the kernel.
MOVES = set("CONT DUP CPY CONCAT REPEAT GET_ROWS SET_ROWS SET ARGMAX ARGSORT TOP_K COUNT_EQUAL DIAG_MASK_INF DIAG_MASK_ZERO TRI DIAG FILL "
            "PAD PAD_REFLECT_1D ROLL IM2COL IM2COL_3D GET_REL_POS WIN_PART WIN_UNPART TOP_K_MASK".split())
# Bit-equal too. Each value is one operation of IEEE 754, which rounds in one way only (and then again into halves).
ROUNDED_ONCE = set("ADD SUB MUL DIV ADD1 ADD_ID ADD_REL_POS ACC SQR SQRT CLAMP LEAKY_RELU".split())
# Units of the last place: sums in double precision that are rounded once at the end, functions of the C library, and a
# product followed by a sum, which a compiler may round once or twice. One unit of F32 is at most 2^-23 of a value; its
# square is 1.4e-14.
LAST_PLACE = set("SUM SUM_ROWS MEAN CUMSUM SIN COS LOG SCALE ARANGE REPEAT_BACK GET_ROWS_BACK POOL_1D POOL_2D POOL_2D_BACK COL2IM_1D "
                 "IM2COL_BACK TIMESTEP_EMBEDDING SILU_BACK".split())


def bound(op, kind, details):
    """The largest normalised mean square error that two correct ways of computing may differ by."""
    quantized = kind not in FLOATS and not kind.startswith("i")
    if op == "ARGSORT":
        # Equal elements may be in either order, which changes a few indices; a wrong order is off by far more.
        return 5e-3
    if op in ("CPY", "SET_ROWS") and kind == "q8_0":
        # The original rounds ties to even with AVX2 and away from zero without: a value between two steps may go either
        # way, by 1/127 of the block's greatest, one value in thousands.
        return 1e-6
    if op in MOVES:
        return 0.0
    if op in ROUNDED_ONCE and not quantized:
        return 0.0
    if op == "ADD":
        # The sum is quantized again: where it is between two steps it may go either way, as above.
        return 1e-5
    if op in LAST_PLACE and kind == "f32":
        return 2e-14
    if op in ("CONV_1D", "CONV_2D", "CONV_3D"):
        # Columns of the image are halves on both sides, and the original rounds an F32 kernel to halves too: 2^-11
        # relative, evenly spread, is (2^-11)^2 / 12 = 2e-8 for each of the two. Short sums that cancel multiply it.
        return 1e-6
    if op in ("MUL_MAT", "MUL_MAT_ID", "OUT_PROD"):
        # F32: sums of up to 512 products in another order, eps^2 = 3.6e-15 each. F16, BF16: the original rounds the
        # right side to the left side's format, 2^-11 (as above) and 2^-8: (2^-8)^2 / 12 = 1.3e-6, more where sums
        # cancel. Quantized: the right side becomes 8-bit integers, here by blocks of 32 and there by blocks of 32 or
        # 256: steps of 1/127 of the greatest value are 1.6e-5 for evenly spread numbers, and one short column of sums
        # that cancel has had twelve times that (Q5_K). test-backend-ops allows 5e-4 for the same reason.
        return {"f32": 1e-11, "f8_e4m3": 1e-11, "f16": 1e-6, "bf16": 3e-5}.get(kind, 5e-4)
    if op == "FLASH_ATTN_EXT":
        # F32: as products, and exponentials that differ by 2 units of the last place. F16: the original sums the values
        # in halves, 2^-11 at every step; BF16: it rounds the queries to 2^-8. Quantized: the queries become 8-bit
        # integers, as in products.
        return {"f32": 1e-11, "f16": 2e-5, "bf16": 2e-5, "f8_e4m3": 2e-5}.get(kind, 5e-4)
    if op in ("UNARY", "GLU") and ("GELU" in details or "GEGLU" in details) and not (kind == "f32" and ("QUICK" in details or "ERF" in details)):
        # The original's GELU is a table with halves for argument and value: (2^-11)^2 for each. GEGLU_QUICK of halves:
        # the GELU is rounded before it is multiplied.
        return 1e-6
    if op == "NORM" and "far from zero" in details:
        # The original's mean of numbers near 100 is rounded to 2^-18. The rest spreads by 0.58: (3.8e-6 / 0.58)^2.
        return 5e-11
    if kind == "f32" or op == "LIGHTNING_INDEXER":
        # All others: about a hundred operations of F32 in another order, with exponentials, roots and divisions among
        # them. Measured: 1e-16 to 3e-13.
        return 2e-12
    # The same, rounded to halves or bfloat16s at the end: where the sums differ in the last place, a value between two
    # of them may go either way, by 2^-11 or 2^-8; one in thousands does.
    return 1e-7


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    if data[:8] != b"GGMLOPS1":
        sys.exit(f"compare: {path} is not a result file")
    at, cases = 8, {}
    while at < len(data):
        (n,) = struct.unpack_from("<I", data, at)
        name = data[at + 4:at + 4 + n].decode()
        at += 4 + n
        status, kind, *ne, count = struct.unpack_from("<iiqqqqq", data, at)
        at += struct.calcsize("<iiqqqqq")
        values = array.array("f")
        values.frombytes(data[at:at + 4 * count])
        at += 4 * count
        cases[name] = (status, kind, ne, values)
    return cases


def error(a, b):
    """Returns the normalised mean square error of b against a, and the other faults of b."""
    if len(a) != len(b):
        return math.inf, f"{len(b)} values, expected {len(a)}"
    num = den = 0.0
    for x, y in zip(a, b):
        if math.isfinite(x) and math.isfinite(y):
            num += (x - y) * (x - y)
            den += x * x
        elif not (x == y or (math.isnan(x) and math.isnan(y))):
            return math.inf, f"{y} where {x} is expected"
    return (num / den if den > 0 else num), ""


def overview(groups):
    """Ops by types. 0: bit-equal. -: the op does not take the type, or the original cannot. Quantized formats share a
    column, with the worst of them."""
    columns = ("f32", "f16", "bf16", "f8_e4m3", "integers", "quantized")
    rows = {}
    for (op, kind), g in groups.items():
        if not g["n"]:
            continue
        column = kind if kind in FLOATS else "integers" if kind.startswith("i") and kind[1:].isdigit() else "quantized"
        cell = rows.setdefault(op, {}).setdefault(column, {"worst": -1.0, "kind": "", "n": 0, "kinds": 0})
        cell["n"] += g["n"]
        cell["kinds"] += 1
        if g["worst"] > cell["worst"]:
            cell["worst"], cell["kind"] = g["worst"], kind
    print(f"{'worst error':24} {columns[0]:>6} {columns[1]:>8} {columns[2]:>8} {columns[3]:>8} {columns[4]:>8}  {columns[5]:<26} cases")
    for op in sorted(rows):
        cells = []
        for column in columns:
            cell = rows[op].get(column)
            text = "-" if cell is None else "0" if cell["worst"] == 0 else f"{cell['worst']:.0e}"
            if column == "quantized" and cell is not None:
                text += f" ({cell['kinds']} formats" + (f", worst {cell['kind']})" if cell["worst"] > 0 else ")")
            cells.append(text)
        total = sum(cell["n"] for cell in rows[op].values())
        print(f"{op:24} {cells[0]:>6} {cells[1]:>8} {cells[2]:>8} {cells[3]:>8} {cells[4]:>8}  {cells[5]:<26} {total:5d}")
    print()


def divides_by_zero(op, details):
    """Padding an empty tensor in a circle. The original then divides by zero, which ends the process on x86-64 and
    gives zero on ARM (ORACLE_FOR=arm). This library refuses it."""
    arm = os.environ.get("ORACLE_FOR") == "arm"
    return arm and op == "PAD" and "circular" in details and re.search(r"[ x]0[ x]", details)


def main():
    args = [a for a in sys.argv[1:] if a != "-v"]
    loud = "-v" in sys.argv
    if len(args) != 2:
        sys.exit(__doc__.strip())
    original, tested = read(args[0]), read(args[1])
    groups = {}
    for name, (status, kind, ne, values) in original.items():
        op, group, details = name.split("|", 2)
        g = groups.setdefault((op, group), {"n": 0, "worst": 0.0, "bound": 0.0, "bad": [], "missing": [], "original": []})
        mine = tested.get(name)
        if status != OK or divides_by_zero(op, details):
            g["original"].append(details)
            continue
        if mine is None or mine[0] == UNSUPPORTED:
            g["missing"].append(details)
            continue
        if mine[0] != OK:
            g["bad"].append(f"{details}: {STATUS[mine[0]]}")
            continue
        g["n"] += 1
        limit = bound(op, group, details)
        g["bound"] = max(g["bound"], limit)
        e, why = error(values, mine[3])
        if mine[1] != kind or mine[2] != ne:
            e, why = math.inf, "another shape or type"
        g["worst"] = max(g["worst"], e)
        if e > limit:
            g["bad"].append(f"{details}: {why or f'error {e:.1e} over {limit:.0e}'}")
        elif loud:
            print(f"  {name}: {e:.1e}")
    overview(groups)
    c = Checks()
    print(f"{'op':20} {'type':8} {'cases':>5} {'worst':>9} {'bound':>7}")
    for (op, group), g in groups.items():
        print(f"{op:20} {group:8} {g['n']:5d} {g['worst']:9.1e} {g['bound']:7.0e}"
              + (f"  {len(g['bad'])} wrong" if g["bad"] else "") + (f"  {len(g['missing'])} not supported" if g["missing"] else "")
              + (f"  {len(g['original'])} that the original cannot" if g["original"] else ""))
    for (op, group), g in groups.items():
        problems = list(g["bad"])
        if g["missing"]:
            problems.append(f"not supported: {', '.join(g['missing'][:4])}" + (" ..." if len(g["missing"]) > 4 else ""))
        if problems:
            c.check(False, f"{op} {group}", "; ".join(problems[:4]) + (f" and {len(problems) - 4} more" if len(problems) > 4 else ""))
        elif g["n"]:
            c.check(True, f"{op} {group}", f"{g['n']} cases, worst error {g['worst']:.1e}")
    return c.finish()


if __name__ == "__main__":
    sys.exit(main())
