#!/usr/bin/env python3
"""Tests of upstream_diff.py: every section on small trees, and facts about two real versions of the original.

usage: test_upstream_diff.py [unittest's arguments]

The facts need the trees of ggml 0.26.0 and 0.28.0: UPSTREAM_OLD and UPSTREAM_NEW name them, or UPSTREAM_FETCH=1 has
cargo fetch them. pip fetches libclang. The last line counts the tests.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import fetch
import upstream_diff
import upstream_facts
from upstream.tree import Tree, differing, until

# The smallest tree that has something for every section.
BASE = {
    "CMakeLists.txt": 'set(GGML_VERSION_MAJOR 0)\nset(GGML_VERSION_MINOR 1)\nset(GGML_VERSION_PATCH 0)\noption(GGML_A "a (b)" OFF)\noption(GGML_B "b" ON)\n',
    "include/ggml.h": """
#pragma once
#include <stdint.h>
#define GGML_API __attribute__((visibility("default"))) extern
#define GGML_DEPRECATED(func, hint) func __attribute__((deprecated(hint)))
#define GGML_MAX_SRC 10 // ten
#define GGML_TWICE (2 * GGML_MAX_SRC)
#define GGML_SAY "hello" /* a text */
enum ggml_op { GGML_OP_NONE = 0, GGML_OP_ADD, GGML_OP_SCALE, GGML_OP_CPY, GGML_OP_GLU, GGML_OP_SUM, GGML_OP_COUNT, };
enum ggml_type { GGML_TYPE_F32 = 0, GGML_TYPE_F16 = 1, GGML_TYPE_COUNT = 2 };
struct ggml_tensor { enum ggml_type type; int64_t ne[4]; void * data; struct { int a; union { float f; int i; } u; } extra; };
typedef void (*ggml_callback)(struct ggml_tensor * t, void * user_data);
// adds b to a
GGML_API struct ggml_tensor * ggml_add(struct ggml_tensor * a,
                                       struct ggml_tensor * b);
GGML_API struct ggml_tensor * ggml_scale(struct ggml_tensor * a, float s);
GGML_API int ggml_old(void);
""",
    "include/ggml-backend.h": '#include "ggml.h"\nGGML_API int ggml_backend_wander(void);\n',
    "src/ggml-impl.h": 'void ggml_inner(void);\nstatic inline int ggml_small(int x) { return x + 1; }\n',
    "src/CMakeLists.txt": "add_library(ggml-base ../include/ggml.h ggml.c)\nset_target_properties(ggml-base PROPERTIES POSITION_INDEPENDENT_CODE ON)\n",
    "src/ggml.c": """
#include "ggml-impl.h"
#define LIMIT 4
static const char * GGML_OP_NAME[GGML_OP_COUNT] = { "NONE", "ADD", "SCALE", "CPY",
    "GLU", "SUM" };
void ggml_inner(void) { }
struct ggml_tensor * ggml_add(struct ggml_tensor * a, struct ggml_tensor * b) { result->op = GGML_OP_ADD; }
static struct ggml_tensor * ggml_scale_impl(struct ggml_tensor * a, float s) {
    GGML_ASSERT(ggml_is_padded_1d(a));
    int32_t params[] = { 1, 2 }; ggml_set_op_params_f32(a, 0, s); a->op = GGML_OP_SCALE;
}
struct ggml_tensor * ggml_scale(struct ggml_tensor * a, float s) { return ggml_scale_impl(a, s); }
struct ggml_tensor * ggml_norm(struct ggml_tensor * a) { return ggml_add(ggml_scale(a, 2.0f), a); }
void ggml_speak(ggml_callback callback) { if (getenv("GGML_LOUD")) { GGML_LOG_INFO("%s: set\\n", __func__); } }
""",
    "src/ggml-backend-reg.cpp": 'static std::string read(const char * name, int two) { return getenv(name); }\nbool asked(void) { return read("GGML_SETTING", 2) != nullptr; }\n',
    "src/ggml-cpu/ggml-cpu.c": """
static void * ggml_cpu_get_proc_address(const char * name) { return strcmp(name, "ggml_cpu_one") == 0 ? one : 0; }
static void ggml_compute_forward(struct ggml_compute_params * params, struct ggml_tensor * tensor) {
    switch (tensor->op) { case GGML_OP_ADD: { ggml_compute_forward_add(params, tensor); } break; case GGML_OP_SCALE: { ggml_compute_forward_scale(params, tensor); } break;
        case GGML_OP_CPY: { ggml_compute_forward_dup(params, tensor); } break; case GGML_OP_SUM: { ggml_compute_forward_sum(params, tensor); } break; default: break; }
}
int ggml_get_n_tasks(int op) { switch (op) { case GGML_OP_ADD: case GGML_OP_SCALE: return 4; case GGML_OP_CPY: return 2; case GGML_OP_SUM: return 1; } }
""",
    "src/ggml-cpu/ops.cpp": """
template <typename T> static float helper(T x) { return x; }
static float shared_by_two(float x) { return x; }
void ggml_compute_forward_add(const ggml_compute_params * params, ggml_tensor * dst) { shared_by_two(1); }
static void ggml_compute_forward_scale_f32(ggml_tensor * dst) { helper<float>(shared_by_two(3)); }
void ggml_compute_forward_scale(const ggml_compute_params * params, ggml_tensor * dst) { ggml_compute_forward_scale_f32(dst); }
""",
    "src/ggml-rpc/ggml-rpc.cpp": "enum rpc_cmd {\n    RPC_CMD_HELLO = 0,\n    RPC_CMD_COUNT };\nstruct rpc_msg {\n    uint64_t a;\n    uint64_t b;\n};\n",
    "src/ggml-cuda/scale.cu": "int one;\nint two;\n",
}
H, C, OPS, CPU, RPC, CUDA = "include/ggml.h", "src/ggml.c", "src/ggml-cpu/ops.cpp", "src/ggml-cpu/ggml-cpu.c", "src/ggml-rpc/ggml-rpc.cpp", "src/ggml-cuda/scale.cu"

# Sections, the replacements [(file, old text, new text)], what the sections say. A new text of None removes a file, an
# old one of None makes it.
ROWS = [
    (["functions in headers"], [
        (H, "float s);", "double s);"), (H, "GGML_API int ggml_old(void);\n", 'GGML_API int ggml_backend_wander(void);\n'),
        (H, "struct ggml_tensor * b);", "struct ggml_tensor*b); GGML_API int ggml_new(const struct ggml_tensor * t, ...);"),
        ("include/ggml-backend.h", "GGML_API int ggml_backend_wander(void);\n", ""),
        ("src/ggml-impl.h", "void ggml_inner(void)", 'GGML_DEPRECATED(GGML_API void ggml_inner(void), "no")')], [
            "~ ggml_backend_wander: ggml-backend.h: int ggml_backend_wander(void) [exported] -> ggml.h: int ggml_backend_wander(void) [exported]",
            "~ ggml_inner: ggml-impl.h: void ggml_inner(void) -> ggml-impl.h: void ggml_inner(void) [exported, deprecated]",
            "+ ggml.h: int ggml_new(const ggml_tensor * t, ...) [exported]", "- ggml.h: int ggml_old(void) [exported]",
            "~ ggml_scale: ggml.h: ggml_tensor * ggml_scale(ggml_tensor * a, float s) [exported] -> ggml.h: ggml_tensor * ggml_scale(ggml_tensor * a, double s) [exported]"]),
    (["types"], [
        (H, "void * data; struct { int a;", "struct { double a; char more;"), (H, "u; } extra;", "u; } extra; const char * label;"),
        (H, "(struct ggml_tensor * t, void * user_data);", "(struct ggml_tensor * t, int);"), (H, "enum ggml_type {", "struct ggml_new { char c; };\nenum ggml_type {")], [
            "+ ggml.h: ggml_new, 1 bytes: c: char", "~ ggml_tensor: ggml.h, 56 bytes, aligned to 8 -> ggml.h, 64 bytes, aligned to 8",
            "~ ggml_tensor.extra: struct (unnamed) at 48, 8 bytes -> struct (unnamed) at 40, 16 bytes",
            "~ ggml_tensor.extra.a: int at 48, 4 bytes -> double at 40, 8 bytes", "+ ggml_tensor.extra.more: char at 48, 1 bytes",
            "+ ggml_tensor.label: const char * at 56, 8 bytes", "- ggml_tensor.data: void * at 40, 8 bytes",
            "~ typedef ggml_callback: ggml.h: void (*)(ggml_tensor *, void *) -> ggml.h: void (*)(ggml_tensor *, int)"]),
    (["types"], [(H, "void * data;", "no_such_type * data;")], ["! not understood: include/ggml.h: unknown type name 'no_such_type'"]),
    (["enums"], [
        (H, "GGML_OP_NONE = 0, GGML_OP_ADD,", "GGML_OP_NONE = 0, GGML_OP_NEW, GGML_OP_ADD,"), (H, "GGML_TYPE_F16 = 1, GGML_TYPE_COUNT = 2", "GGML_TYPE_COUNT = 1"),
        ("src/ggml-impl.h", "void ggml_inner", "enum ggml_mood { GOOD = 1 << 2, BAD };\nvoid ggml_inner")], [
            "+ enum ggml_mood: GOOD 4, BAD 5", "+ ggml_op: GGML_OP_NEW 1", "~ ggml_op: GGML_OP_ADD .. GGML_OP_COUNT: 6 numbers +1, 1 .. 6 -> 2 .. 7",
            "- ggml_type: GGML_TYPE_F16 1", "~ ggml_type: GGML_TYPE_COUNT 2 -> 1"]),
    (["macros", "comments in public headers"], [
        (H, "10 // ten", "12 // twelve\n#define GGML_MORE 1"), (H, '"hello" /* a text */', '"bye"'), (H, "// adds b to a", "/* adds b to a\n * b may be NULL */")], [
            "~ ggml.h: GGML_MAX_SRC: 10 -> 12", "+ ggml.h: GGML_MORE: 1", '~ ggml.h: GGML_SAY: "hello" -> "bye"', "~ ggml.h: GGML_TWICE: 20 -> 24",
            "- ggml.h: ten", "- ggml.h: a text", "+ ggml.h: twelve", "+ ggml.h: b may be NULL"]),
    (["tables", "types and lines between functions"], [
        (C, '"CPY",\n', '"CPY",\n    "FRESH",\n'), (C, "LIMIT 4", "LIMIT 5"), (RPC, "    RPC_CMD_COUNT", "    RPC_CMD_SET,\n    RPC_CMD_COUNT"),
        (RPC, "    uint64_t a;\n    uint64_t b;\n};", "    uint64_t b;\n    uint64_t a;\n};\nunion w { int a; };")], [
            '+ src/ggml.c: GGML_OP_NAME: "FRESH",', f"+ {RPC}: rpc_cmd: RPC_CMD_SET,", f"~ {RPC}: rpc_msg in another order", f"+ {RPC}: w: union w {{ int a; }};",
            "- src/ggml.c: #define LIMIT 4", "+ src/ggml.c: #define LIMIT 5"]),
    (["environment variables", "functions looked up by name"], [
        ("src/ggml-backend-reg.cpp", '"GGML_SETTING"', '"GGML_OTHER"'), (C, 'getenv("GGML_LOUD")', "getenv(LOUD)"), (C, "#define LIMIT 4", '#define LOUD "GGML_LOUD"'),
        (CUDA, "int one;", 'int one = getenv("A_CARD") != 0; // getenv("NEVER")'), (CPU, '"ggml_cpu_one"', '"ggml_cpu_two"')], [
            "+ GGML_OTHER: src/ggml-backend-reg.cpp", "- GGML_SETTING: src/ggml-backend-reg.cpp", f"+ A_CARD: {CUDA}",
            '- ggml-cpu.c ggml_cpu_get_proc_address: "ggml_cpu_one"', '+ ggml-cpu.c ggml_cpu_get_proc_address: "ggml_cpu_two"']),
    (["operations", "other functions"], [
        (OPS, "{ return x; }\nstatic float shared", "{ return x + 1; }\nstatic float shared"), (OPS, "shared_by_two(float x) { return x; }", "shared_by_two(float x) { return 2 * x; }"),
        (C, "ggml_is_padded_1d(a)", "ggml_is_contiguous(a)"), (C, "ggml_scale(a, 2.0f)", "ggml_scale(a, 3.0f)"), (CPU, "forward_sum(params", "forward_dup(params"),
        (CPU, "case GGML_OP_CPY: return 2;", "case GGML_OP_CPY: return 3; case GGML_OP_GLU: return 2;"),
        ("src/ggml-backend-reg.cpp", "return getenv(name);", "return name ? getenv(name) : nullptr;")], [
            f"~ ADD, SCALE: {OPS} shared_by_two +1 -1", f"~ SCALE: {OPS} helper +1 -1", f"~ SCALE: {C} ggml_scale_impl +1 -1", f"~ CPY: {CPU} case in ggml_get_n_tasks +1 -1",
            f"+ GLU: {CPU} case in ggml_get_n_tasks +1 -0", f"~ SUM: {CPU} case in ggml_compute_forward +1 -1",
            f"~ ggml_norm: {C} ggml_norm +1 -1, made of ADD, SCALE", "~ registry: src/ggml-backend-reg.cpp read +1 -1"]),
    (["operations", "other functions", "types and lines between functions", "files"], [
        (C, "    int32_t params[]", "    // a remark\n    int32_t   params []"), (OPS, "{ helper<float>(", "{ /* three */ helper<float>(")], [
            "~ cpu: src/ggml-cpu/ops.cpp +1 -1", "~ core: src/ggml.c +1 -0"]),
    (["assertions in functions", "op_params", "log lines"], [
        (C, "GGML_ASSERT(ggml_is_padded_1d(a));", "GGML_ASSERT(ggml_is_contiguous_rows(a) && \n \")\");"), (C, "params[] = { 1, 2 };", "params[] = { 1, 2, 3 };"),
        (C, "(a, 0, s)", "(a, 1, s)"), (C, '"%s: set\\n"', '"%s: done\\n"')], [
            "- ggml.c ggml_scale_impl: ggml_is_padded_1d(a)", '+ ggml.c ggml_scale_impl: ggml_is_contiguous_rows(a) && ")"',
            "- ggml.c ggml_scale_impl: ggml_set_op_params_f32(a, 0, s)", "- ggml.c ggml_scale_impl: params[] = { 1, 2 }",
            "+ ggml.c ggml_scale_impl: ggml_set_op_params_f32(a, 1, s)", "+ ggml.c ggml_scale_impl: params[] = { 1, 2, 3 }",
            '- ggml.c ggml_speak: INFO("%s: set\\n", __func__)', '+ ggml.c ggml_speak: INFO("%s: done\\n", __func__)']),
    (["cmake", "files"], [
        ("CMakeLists.txt", 'option(GGML_A "a (b)" OFF)\noption(GGML_B "b" ON)\n', '# option(GGML_C "" ON)\noption(GGML_A "a (b)" ON)\noption(GGML_D "d")\n'),
        ("src/CMakeLists.txt", "ggml.c)", "ggml.c more.c)\nmessage(STATUS hello)"), (CUDA, "int two;", "int three;\nint four;"),
        ("src/ggml-cuda/fresh.cu", None, "int five;\n"), (RPC, None, None)], [
            "~ CMakeLists.txt: option(GGML_A): -OFF +ON", '- CMakeLists.txt: option(GGML_B): -"b" -ON', '+ CMakeLists.txt: option(GGML_D): +"d"',
            "~ src/CMakeLists.txt: add_library(ggml-base): +more.c", f"- rpc: {RPC} +0 -8",
            "~ build: CMakeLists.txt +3 -2", "~ build: src/CMakeLists.txt +2 -1", "~ other backend cuda: 1 files changed, 1 new, 0 gone, +4 -1"]),
]


def two_trees(case, edits):
    """The folders of BASE, and of BASE with replacements."""
    folder = tempfile.TemporaryDirectory(prefix="upstream-test-")
    case.addCleanup(folder.cleanup)
    changed = dict(BASE)
    for file, old, new in edits:
        part = old is not None and new is not None
        case.assertTrue(not part or changed[file].count(old) == 1, f"{file}: {old!r}")
        changed[file] = changed[file].replace(old, new) if part else new
    for side, files in (("old", BASE), ("new", changed)):
        for name, text in files.items():
            if text is not None:
                os.makedirs(os.path.dirname(os.path.join(folder.name, side, name)), exist_ok=True)
                with open(os.path.join(folder.name, side, name), "w", encoding="utf-8") as f:
                    f.write(text)
    return [os.path.join(folder.name, side) for side in ("old", "new")]


class Sections(unittest.TestCase):
    maxDiff = None

    def test_texts(self):
        tree = Tree(two_trees(self, [("a.c", None, 'a /* b\n"c */ "// d" \'"\' // e "f\nR"x(//")x" 1\'000 // g')])[1])
        self.assertEqual(tree.plain("a.c"), 'a  \n "// d" \'"\'  \nR"x(//")x" 1\'000  ')
        self.assertEqual([until('a, (b, ")") + c) d'), until("a { ; } b; c", ";"), until("a ( b")], ['a, (b, ")") + c', "a { ; } b", "a ( b"])
        self.assertEqual(differing(["a", "b ", "c", "a"], ["a", "b", "d"]), [["a", "c"], ["d"]])

    def test_pieces(self):
        # Branches of an #if that are whole functions, and some that are parts of one.
        source = (
                  "struct t::u {\n    int f() { return std::g(); }\n    ~u() {\n    }\n};\n#ifdef A\nint a() {\n}\n#else\nint b() {\n}\n#endif\n#if B\nint c(int) {\n#else\nint c(long) {\n"
                  "#endif\n}\ntemplate <> float d<float>(block<3> x)\n{\n}\nstd::vector<int> e(std::map<int, int> & m) {\n}\nnamespace n { class w { void x() {\n}\n}; }\n")
        tree = Tree(two_trees(self, [("src/gguf.cpp", None, source)])[1])
        self.assertEqual(sorted(tree.functions("src/gguf.cpp")), ["a", "b", "c", "d", "e", "w::x"])


for number, row in enumerate(ROWS):
    def check(self, row=row):
        trees = [Tree(path) for path in two_trees(self, row[1])]
        found = [item for section in row[0] for item in upstream_diff.SECTIONS[section](*trees)]
        self.assertEqual(found[:1] if found[0][0] == "!" else found, row[2])
    setattr(Sections, f"test_{number}_{row[0][0].replace(' ', '_')}", check)


class Program(unittest.TestCase):
    def run_it(self, *args, **env):
        clean = {k: v for k, v in os.environ.items() if k not in ("CRATE", "VERSION", "DIR", "BASE", "BASE_CRATE", "BASE_VERSION", "CHECK")}
        return subprocess.run([sys.executable, upstream_diff.__file__, *args], env={**clean, **env}, capture_output=True, text=True)

    def trees(self, *edits):
        return dict(zip(("BASE", "DIR"), two_trees(self, edits)))

    def test_no_change_in_a_whole_llama_cpp(self):
        both = self.trees()
        with tempfile.TemporaryDirectory() as work:
            os.symlink(both["DIR"], os.path.join(work, "ggml"))
            r = self.run_it(BASE=both["BASE"], DIR=work, CHECK="1")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertTrue(r.stdout.endswith("\n0 items in 0 of 18 sections\n"), r.stdout)

    def test_a_change(self):
        both = self.trees((C, "LIMIT 4", "LIMIT 5"), ("CMakeLists.txt", "MINOR 1", "MINOR 2"))
        r = self.run_it(CHECK="0", **both)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertIn("== version: 1\n~ 0.1.0 -> 0.2.0\n", r.stdout)
        self.assertTrue(r.stdout.endswith("\n6 items in 4 of 18 sections\n"), r.stdout)
        again = self.run_it(CHECK="1", PYTHONHASHSEED="7", **both)
        self.assertEqual((again.returncode, again.stdout), (1, r.stdout))
        r = self.run_it(BASE=both["DIR"], DIR=both["BASE"])
        self.assertEqual(r.returncode, 0)
        self.assertIn("0.1.0 is older than 0.2.0", r.stderr)
        self.assertIn("== version: 1\n~ 0.2.0 -> 0.1.0 backwards", r.stdout)

    def test_causes(self):
        cargo = "error: failed to select a version for the requirement `some = \"=9\"`\ncandidate versions found which didn't match: 0.11.0, 0.9.0, ...\n"
        pip = "ERROR: Could not find a version that satisfies the requirement some==9 (from versions: 0.1.0, 0.2.0, 0.9.1, 0.10.0)\nERROR: No matching"
        for said, cause in ((cargo, "some has no version 9; the newest are 0.11.0, 0.9.0, ..."), (pip, "some has no version 9; the newest are 0.10.0, 0.9.1, 0.2.0"),
                            ("error: no matching package named `some` found\n", "there is no crate of the name some"), ("", None), ("error: Could not resolve host", None),
                            ("requirement some==9 (from versions: none)", None)):
            self.assertEqual(fetch.cause("some", "9", said), cause)
        self.assertIn("offline", fetch.cause("some", "9", cargo + "As a reminder, you're using offline mode (--offline)"))

    def test_what_cannot_be_had(self):
        """A version that does not exist, with a fake cargo that prints cargo's message; a crate without network;
        libclang without network."""
        with tempfile.TemporaryDirectory() as work:
            with open(os.path.join(work, "cargo"), "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as f:
                f.write("#!/bin/sh\necho \"candidate versions found which didn't match: 2.0.0, 1.0.0\" >&2\nexit 101\n")
            nowhere = {"GGML_CACHE": work, "CARGO_HOME": work, "PIP_NO_INDEX": "1", "CARGO_NET_OFFLINE": "true"}
            for env, said in (({"VERSION": "9.9.9", "PATH": work + os.pathsep + os.environ["PATH"]}, r"llama-cpp-sys-4 has no version 9.9.9; the newest are 2.0.0, 1.0.0\n$"),
                              ({"VERSION": "0.0.0-none"}, "cannot fetch|cargo is missing"),
                              (self.trees(), r"^fetching libclang .*\nfetch: cannot fetch libclang [\d.]+ with pip, .*python3-pip .*\n$")):
                r = self.run_it(**nowhere, **env)
                self.assertEqual((r.returncode, r.stdout), (3, ""))
                self.assertRegex(r.stderr, said)

    def test_wrong_calls(self):
        both = self.trees()
        for args, env in (([], {}), (["x"], both), ([], {**both, "DIR": "/nowhere"}), ([], {**both, "CRATE": "some"}), ([], {"CRATE": "some"}), ([], {**both, "BASE_VERSION": "1"})):
            r = self.run_it(*args, **env)
            self.assertEqual((r.returncode, r.stdout, "usage:" in r.stderr), (2, "", True), (args, env))


# The report about 0.26.0 and 0.28.0: section -> whole items; -> the number of items, if it is known otherwise.
FACTS = {
    "version": ["~ 0.26.0 -> 0.28.0"],
    "functions in headers": ["+ ggml.h: ggml_prec ggml_prec_get_acc(const ggml_tensor * a) [exported]", "+ ggml-impl.h: float ggml_f8_e4m3_to_fp32(uint8_t x) [static]"],
    "types": [
        "~ ggml_backend_buffer_i: ggml-backend-impl.h, 88 bytes, aligned to 8 -> ggml-backend-impl.h, 112 bytes, aligned to 8", "+ ggml.h: ggml_fp8_e4m3_t, 1 bytes: bits: uint8_t",
        "+ ggml_backend_buffer_i.cpy_tensor_n: bool (*)(ggml_backend_buffer_t, const ggml_tensor *const *, ggml_tensor *const *, size_t) at 104, 8 bytes",
        "+ typedef ggml_backend_sched_copy_callback: ggml-backend.h: bool (*)(ggml_backend_t, const ggml_tensor *, ggml_tensor *, ggml_cgraph *, void *)"],
    "enums": [
        "+ ggml_op: GGML_OP_TOP_K_MASK 91", "~ ggml_op: GGML_OP_UNARY .. GGML_OP_COUNT: 11 numbers +1, 91 .. 101 -> 92 .. 102",
        "+ ggml_type: GGML_TYPE_F8_E4M3 43", "~ ggml_type: GGML_TYPE_COUNT 43 -> 44", "+ ggml_ftype: GGML_FTYPE_MOSTLY_F8_E4M3 29"],
    "macros": ["~ ggml-rpc.h: RPC_PROTO_MAJOR_VERSION: 7 -> 8", "~ ggml-rpc.h: RPC_PROTO_PATCH_VERSION: 0 -> 1"],
    "comments in public headers": ["+ ggml.h: an id of -1 skips the slot and zeroes the matching row of the result"],
    "exported names": ["~ visibility: default -> hidden", "- ggml_graph_view: src/ggml-impl.h", "+ quantize_row_f8_e4m3_ref: src/ggml-quants.h"],
    "tables": ['+ src/ggml.c: GGML_OP_NAME: "TOP_K_MASK",'],
    "types and lines between functions": ["+ src/ggml-rpc/ggml-rpc.cpp: rpc_cmd: RPC_CMD_SET_TENSOR_2D,", '+ src/ggml.c: static_assert(GGML_OP_COUNT == 102, "GGML_OP_COUNT != 102");'],
    "environment variables": ["+ GGML_RPC_NO_COMM: src/ggml-rpc/ggml-rpc.cpp", "~ GGML_RPC_DEBUG: -src/ggml-rpc/ggml-rpc.cpp -src/ggml-rpc/transport.cpp +src/ggml-rpc/log.h"],
    "functions looked up by name": ['+ ggml-rpc.cpp ggml_backend_rpc_get_proc_address: "ggml_backend_comm_init"'],
    "operations": [
        "~ SCALE: src/ggml.c ggml_scale_impl +1 -1", "~ SCALE: src/ggml-cpu/ops.cpp ggml_compute_forward_scale_f32 +12 -13", "+ TOP_K_MASK: src/ggml.c ggml_top_k_mask +33 -0",
        "~ ggml_conv_1d: src/ggml.c ggml_conv_1d +2 -1, made of MUL_MAT, CONT, RESHAPE, PERMUTE, IM2COL", "+ ARGMAX: src/ggml-backend.cpp case in ggml_op_alloc_size_may_expand +1 -0"],
    "other functions": ["+ scheduler: src/ggml-backend.cpp ggml_backend_sched_copy_input +33 -0", "~ quants: src/ggml-quants.c ggml_validate_row_data +10 -0"],
    "assertions in functions": ["- ggml.c ggml_scale_impl: ggml_is_padded_1d(a)", "+ ggml.c ggml_scale_impl: ggml_is_contiguous_rows(a)"],
    "op_params": ["+ ggml.c ggml_prec_get_acc: ggml_get_op_params_i32(a, 3)"],
    "log lines": ['+ ggml-rpc.cpp ggml_backend_rpc_start_server: INFO("Accepted client connection\\n")'],
    "cmake": ["~ src/ggml-rpc/CMakeLists.txt: ggml_add_backend_library(ggml-rpc): +log.cpp"],
    "files": ["~ vulkan: src/ggml-vulkan/vulkan-shaders/add_id.comp +10 -2", "~ other backend hip: 1 files changed, 0 new, 0 gone, +1 -1"],
}
COUNTS = {"functions in headers": 14, "enums": 5, "macros": 2, "environment variables": 66}


class Facts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        trees = [os.environ.get(name, "") for name in ("UPSTREAM_OLD", "UPSTREAM_NEW")]
        try:
            if os.environ.get("UPSTREAM_FETCH") == "1":
                trees = [upstream_diff.fetched("llama-cpp-sys-2", "0.1.161"), upstream_diff.fetched("llama-cpp-sys-4", "0.11.0")]
            if not all(trees):
                raise unittest.SkipTest("UPSTREAM_OLD and UPSTREAM_NEW name no trees")
            cls.old, cls.new = map(Tree, trees)
            cls.sections = dict(upstream_diff.sections(cls.old, cls.new))
        except SystemExit as e:
            raise AssertionError(e.code) from None

    def test_what_is_known(self):
        self.assertEqual([(title, item) for title, items in FACTS.items() for item in items if item not in self.sections[title]], [])
        self.assertEqual({title: len(self.sections[title]) for title in COUNTS}, COUNTS)

    def test_committed_facts_are_those_of_the_sources(self):
        version = re.search(r"\d+\.\d+\.\d+", upstream_facts.read("functions.txt")).group()
        tree = {t.version(): t for t in (self.old, self.new)}.get(version) or self.skipTest(f"the lists in c_tests/abi are about {version}")
        for name, make in upstream_facts.LISTS:
            with self.subTest(name):
                self.assertEqual(make(tree, upstream_facts.listed_headers()), upstream_facts.read(name))


def main():
    upstream_diff.clang.cindex() # ends with one line if it cannot be had
    result = unittest.main(exit=False, verbosity=1, warnings="ignore").result
    for _, why in result.skipped:
        print(f"note: left out: {why}")
    # A class that is left out has no tests that ran.
    left_out = sum(isinstance(test, unittest.TestCase) for test, _ in result.skipped)
    bad = {getattr(test, "test_case", test) for test, _ in result.failures + result.errors}
    print(f"upstream: {result.testsRun - sum(isinstance(test, unittest.TestCase) for test in bad) - left_out} passed, {len(bad)} failed")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
