#!/usr/bin/env python3
"""Compares the results of two runs of ops: the original's and the library's under test.

usage: compare.py ORIGINAL.bin TESTED.bin [-v]

For each op and type it prints the number of cases and the worst error (normalised mean square error: the squared differences'
sum over the squared values' sum) beside the bound. An op that the tested library does not support is listed; it is a failure
where llama.cpp's BERT and llama graphs need the op. Cases that the original itself cannot compute are only listed.
"""
import array
import math
import struct
import sys

OK, UNSUPPORTED, CRASHED, FAILED = range(4)
STATUS = ("computed", "unsupported", "crashed", "failed")

# what the graphs of the hosts that must run now are made of
NEEDED = set("ADD SUB MUL DIV SCALE SQR SQRT NORM RMS_NORM L2_NORM MUL_MAT MUL_MAT_ID GET_ROWS SET_ROWS CPY CONT DUP SOFT_MAX ROPE UNARY GLU "
             "CLAMP CONCAT REPEAT SUM_ROWS SUM MEAN ARGSORT ARGMAX TOP_K FLASH_ATTN_EXT ADD_ID DIAG_MASK_INF".split())
# these only move values, or compute integers: nothing may differ
EXACT = set("CONT DUP CONCAT REPEAT ARGSORT ARGMAX COUNT_EQUAL DIAG_MASK_INF DIAG_MASK_ZERO TRI DIAG FILL PAD PAD_REFLECT_1D ROLL".split())


def bound(op, kind, details):
    """The largest normalised mean square error that is still two ways of computing the same thing."""
    if op == "ARGSORT":
        return 5e-3  # equal elements may stand in either order; a wrong order is off by far more
    if op in EXACT:
        return 0.0
    if op in ("CONV_1D", "CONV_2D", "CONV_3D") and kind == "f32":
        return 1e-6  # columns are halves, and the original rounds the kernel to halves too
    if op in ("MUL_MAT", "MUL_MAT_ID", "OUT_PROD", "CONV_1D", "CONV_2D"):
        # the right side is rounded to the left side's partner format: half, bfloat16, or blocks of 8-bit integers
        return {"f32": 1e-11, "f16": 1e-6, "bf16": 3e-5}.get(kind, 5e-4)
    if op == "FLASH_ATTN_EXT":
        return {"f32": 1e-7}.get(kind, 5e-4)
    if op in ("CPY", "SET_ROWS", "GET_ROWS", "IM2COL"):
        if kind == "q8_0":
            return 1e-6  # a value that lies between two steps may go either way
        return 0.0 if kind in ("f32", "f16", "bf16", "i32") else 1e-13
    if op in ("UNARY", "GLU"):
        return 1e-6 if "GELU" in details or "GEGLU" in details else {"f32": 1e-10}.get(kind, 1e-6)  # the original's GELU is a table of halves
    if op == "SOFT_MAX":
        return 1e-10
    if op == "NORM" and "far from zero" in details:
        # the original's mean of numbers near 100 is rounded to 2^-18; what is left of them spreads by 0.58: (3.8e-6 / 0.58)^2
        return 5e-11
    if op == "ADD" and kind not in ("f32", "f16", "bf16"):
        return 1e-5  # quantized again after the addition
    return {"f32": 1e-11}.get(kind, 1e-7)


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
    """-> (normalised mean square error of b against a, what is wrong besides)"""
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
        if status != OK:
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
    passed = failed = 0
    print(f"{'op':20} {'type':8} {'cases':>5} {'worst':>9} {'bound':>7}")
    for (op, group), g in groups.items():
        print(f"{op:20} {group:8} {g['n']:5d} {g['worst']:9.1e} {g['bound']:7.0e}"
              + (f"  {len(g['bad'])} wrong" if g["bad"] else "") + (f"  {len(g['missing'])} not supported" if g["missing"] else "")
              + (f"  {len(g['original'])} that the original cannot" if g["original"] else ""))
    for (op, group), g in groups.items():
        problems = list(g["bad"])
        if g["missing"] and op in NEEDED:
            problems.append(f"not supported: {', '.join(g['missing'][:4])}" + (" ..." if len(g["missing"]) > 4 else ""))
        if problems:
            failed += 1
            print(f"FAIL {op} {group}: {'; '.join(problems[:4])}" + (f" and {len(problems) - 4} more" if len(problems) > 4 else ""))
        elif g["n"]:
            passed += 1
            print(f"PASS {op} {group}: {g['n']} cases, worst error {g['worst']:.1e}")
    later = sorted({f"{op} {group}" for (op, group), g in groups.items() if g["missing"] and op not in NEEDED})
    if later:
        print(f"note: not supported yet: {', '.join(later)}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
