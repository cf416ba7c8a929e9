#!/usr/bin/env python3
"""Tests of upstream_diff.py: the parser, every section on small trees, and facts about two real versions of the
original.

usage: test_upstream_diff.py [unittest's arguments]

The facts need the trees of ggml 0.26.0 and 0.28.0: UPSTREAM_OLD and UPSTREAM_NEW name them, or UPSTREAM_FETCH=1 has
cargo fetch them. The last line counts the tests.
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
from upstream import areas, bodies, cmake, exports, interface, layout, operations, sources, tables
from upstream.declarations import parse
from upstream.tokens import balance, choose, text_of, tokenize
from upstream.tree import Tree, changed_lines
from upstream.values import Constants

HERE = os.path.dirname(os.path.abspath(__file__))

# The smallest tree that has something for every section.
BASE = {
    "CMakeLists.txt": 'set(GGML_VERSION_MAJOR 0)\nset(GGML_VERSION_MINOR 1)\nset(GGML_VERSION_PATCH 0)\noption(GGML_A "a (b)" OFF)\noption(GGML_B "b" ON)\n',
    "include/ggml.h": """
#pragma once
#ifdef GGML_SHARED
#    define GGML_API __attribute__ ((visibility ("default"))) extern
#else
#    define GGML_API extern
#endif
#define GGML_DEPRECATED(func, hint) func __attribute__((deprecated(hint)))
#include <stddef.h>
#include <stdint.h>
#define GGML_MAX_SRC 10 // ten
#define GGML_TWICE (2 * GGML_MAX_SRC)
#define GGML_SAY "hello" /* a text */
#ifdef __cplusplus
extern "C" {
#endif
enum ggml_op { GGML_OP_NONE = 0, GGML_OP_ADD, GGML_OP_SCALE, GGML_OP_CPY, GGML_OP_GLU, GGML_OP_SUM, GGML_OP_COUNT, };
enum ggml_type { GGML_TYPE_F32 = 0, GGML_TYPE_F16 = 1, GGML_TYPE_COUNT = 2 };
struct ggml_context;
struct ggml_tensor {
    enum ggml_type type;
    int64_t ne[4];
    void * data; // where it is
    struct { int a; union { float f; int i; } u; } extra;
};
typedef void (*ggml_callback)(struct ggml_tensor * t, void * user_data);
// adds b to a
GGML_API struct ggml_tensor * ggml_add(
        struct ggml_context * ctx,
        struct ggml_tensor  * a,
        struct ggml_tensor  * b);
GGML_API struct ggml_tensor * ggml_scale(struct ggml_context * ctx, struct ggml_tensor * a, float s);
GGML_API struct ggml_tensor * ggml_norm(struct ggml_context * ctx, struct ggml_tensor * a);
GGML_API void ggml_set_callback(ggml_callback callback, void * user_data);
GGML_API int ggml_old(void);
#ifdef __cplusplus
static_assert(GGML_OP_COUNT == 6, "count");
}
#endif
""",
    "include/ggml-backend.h": '#pragma once\n#include "ggml.h"\nGGML_API int ggml_backend_wander(void);\n',
    "src/ggml-impl.h": '#pragma once\n#include "ggml.h"\nvoid ggml_inner(void);\nstatic inline int ggml_small(int x) {\n    return x + 1;\n}\n',
    "src/CMakeLists.txt": "add_library(ggml-base ../include/ggml.h ggml.c)\nadd_library(ggml ggml-backend-reg.cpp)\n"
                          "foreach (target ggml-base ggml)\n    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)\nendforeach()\n",
    "src/ggml.c": """
#include "ggml-impl.h"
#define LIMIT 4
static const char * GGML_OP_NAME[GGML_OP_COUNT] = { "NONE", "ADD", "SCALE", "CPY", "GLU", "SUM" };
static const struct traits type_traits[GGML_TYPE_COUNT] = {
    [GGML_TYPE_F32] = { .type_name = "f32", .blck_size = 1, },
    [GGML_TYPE_F16] = { .type_name = "f16", .blck_size = 1, },
};
static_assert(GGML_OP_COUNT == 6, "GGML_OP_COUNT != 6");
int ggml_open_counter = 0;
void ggml_inner(void) { }
int ggml_old(void) { return 1; }
struct ggml_tensor * ggml_add(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b) {
    struct ggml_tensor * result = ggml_dup(ctx, a);
    result->op = GGML_OP_ADD;
    return result;
}
static struct ggml_tensor * ggml_scale_impl(struct ggml_context * ctx, struct ggml_tensor * a, float s) {
    GGML_ASSERT(ggml_is_padded_1d(a));
    int32_t params[] = { 1, 2 };
    ggml_set_op_params_f32(a, 0, s);
    a->op = GGML_OP_SCALE;
    return a;
}
struct ggml_tensor * ggml_scale(struct ggml_context * ctx, struct ggml_tensor * a, float s) {
    return ggml_scale_impl(ctx, a, s);
}
struct ggml_tensor * ggml_norm(struct ggml_context * ctx, struct ggml_tensor * a) {
    return ggml_add(ctx, ggml_scale(ctx, a, 2.0f), a);
}
void ggml_set_callback(ggml_callback callback, void * user_data) {
    GGML_LOG_INFO("%s: set\\n", __func__);
    if (getenv("GGML_LOUD")) { ggml_inner(); }
}
""",
    "src/ggml-backend-reg.cpp": """
#include "ggml-backend.h"
static const char * read_setting(const char * name) { return getenv(name); }
int ggml_backend_wander(void) { return read_setting("GGML_SETTING") != nullptr; }
""",
    "src/ggml-cpu/ggml-cpu.c": """
static void * ggml_cpu_get_proc_address(const char * name) { return strcmp(name, "ggml_cpu_one") == 0 ? one : 0; }
static void ggml_compute_forward(struct ggml_compute_params * params, struct ggml_tensor * tensor) {
    switch (tensor->op) {
        case GGML_OP_ADD: { ggml_compute_forward_add(params, tensor); } break;
        case GGML_OP_SCALE: { ggml_compute_forward_scale(params, tensor); } break;
        case GGML_OP_CPY: { ggml_compute_forward_dup(params, tensor); } break;
        case GGML_OP_SUM: { ggml_compute_forward_sum(params, tensor); } break;
        default: break;
    }
}
int ggml_get_n_tasks(int op) {
    switch (op) {
        case GGML_OP_ADD:
        case GGML_OP_SCALE: return 4;
        case GGML_OP_CPY: return 2;
        case GGML_OP_SUM: return 1;
        default: return 1;
    }
}
""",
    "src/ggml-cpu/ops.cpp": """
template <typename T> static float helper(T x) { return x; }
static float shared_by_two(float x) { return x; }
void ggml_compute_forward_add(const ggml_compute_params * params, ggml_tensor * dst) { shared_by_two(1); }
static void ggml_compute_forward_scale_f32(ggml_tensor * dst) {
    shared_by_two(2);
    helper<float>(3);
}
void ggml_compute_forward_scale(const ggml_compute_params * params, ggml_tensor * dst) { ggml_compute_forward_scale_f32(dst); }
void ggml_compute_forward_dup(const ggml_compute_params * params, ggml_tensor * dst) { }
void ggml_compute_forward_sum(const ggml_compute_params * params, ggml_tensor * dst) { }
""",
    "src/ggml-rpc/ggml-rpc.cpp": "enum rpc_cmd { RPC_CMD_HELLO = 0, RPC_CMD_GET, RPC_CMD_COUNT };\nstruct rpc_msg { uint64_t a; uint64_t b; };\n",
    "src/ggml-vulkan/vulkan-shaders/scale.comp": '#include "head.glsl"\nvoid main() { }\n',
    "src/ggml-vulkan/vulkan-shaders/swiglu.comp": '#include "head.glsl"\nvoid main() { }\n',
    "src/ggml-vulkan/vulkan-shaders/head.glsl": "int head = 1;\n",
    "src/ggml-cuda/scale.cu": "int one;\nint two;\n",
}


class Files:
    """Two trees on disk: BASE, and BASE with replacements [(file, old text, new text)]; a new text of None removes the
    file."""

    def __init__(self, *edits):
        self.folder = tempfile.TemporaryDirectory(prefix="upstream-test-")
        self.paths = [os.path.join(self.folder.name, side) for side in ("old", "new")]
        changed = dict(BASE)
        for file, old, new in edits:
            if new is None:
                del changed[file]
            elif old is None:
                changed[file] = new
            else:
                assert changed[file].count(old) == 1, f"{file}: {old!r}"
                changed[file] = changed[file].replace(old, new)
        for path, files in zip(self.paths, (BASE, changed)):
            for name, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
                with open(os.path.join(path, name), "w", encoding="utf-8") as f:
                    f.write(text)

    def trees(self):
        return [Tree(path) for path in self.paths]


class Case(unittest.TestCase):
    maxDiff = None

    def lines(self, section, *edits):
        files = Files(*edits)
        self.addCleanup(files.folder.cleanup)
        return section(*files.trees())


class Reading(Case):
    def test_comments_and_strings(self):
        tokens, comments = tokenize('a /* b\n"c */ "// d" \'"\' // e "f\n1e+5 R"x(")"\n)x" g\\\nh')
        self.assertEqual([t.text for t in tokens], ["a", '"// d"', "'\"'", "1e+5", 'R"x(")"\n)x"', "g", "h"])
        self.assertEqual(len(comments), 2)
        self.assertEqual([t.line for t in tokens], [1, 2, 2, 3, 3, 4, 5])

    def test_directives(self):
        tokens, _ = tokenize('  # define A(x) \\\n  (x) /* one\n two */ + "//" // three\nb')
        self.assertEqual([(t.kind, t.text) for t in tokens], [("directive", '# define A(x) (x) + "//"'), ("name", "b")])

    def chosen(self, text):
        return text_of(choose(tokenize(text)[0])[0])

    def test_branches(self):
        self.assertEqual(self.chosen("#if A\nint a;\n#elif B\nint b;\n#else\nint c;\n#endif\nint d;"), "int a; int b; int c; int d;")
        self.assertEqual(self.chosen("#if 0\nint a;\n#else\nint b;\n#endif"), "int b;")
        self.assertEqual(self.chosen("#ifdef __cplusplus\nextern \"C\" {\n#endif\nint a;\n#ifdef __cplusplus\n}\n#endif"), 'extern "C" { int a; }')
        self.assertEqual(self.chosen("#ifdef A\nint f(int a) {\n#else\nint f(long a) {\n#endif\nreturn a; }"), "int f(int a) { return a; }")
        self.assertEqual(self.chosen("#if A\n#if B\nint b;\n#endif\nint a;\n#endif"), "int b; int a;")

    def test_balance(self):
        self.assertTrue(balance(tokenize("{ ( [ ] ) }")[0]))
        self.assertFalse(balance(tokenize("{ ( }")[0]))
        self.assertFalse(balance(tokenize("} {")[0]))

    def prototypes(self, text):
        return [f.prototype() for f in parse(text).functions]

    def test_prototypes(self):
        self.assertEqual(self.prototypes("GGML_API struct t *\n  f(const struct t * a, /* b */ unsigned int,\n int c[4], void (*d)(int e, char), ...);"),
                         ["t * f(const t * a, unsigned int, int c[4], void (*d) (int, char), ...)"])
        self.assertEqual(self.prototypes("extern int f(void); int g();"), ["int f(void)", "int g(void)"])
        self.assertEqual(self.prototypes('GGML_DEPRECATED(GGML_API int f(int a, int b), "use (g), please");\nint g(int);'), ["int f(int a, int b)", "int g(int)"])
        f = parse('GGML_DEPRECATED(GGML_API int f(int a), "no"); static inline int g(void) { return 1; }'
                  "__attribute__((format(printf, 1, 2))) int h(int);").functions
        self.assertEqual([(x.exported, x.deprecated, x.static, x.inline) for x in f], [(True, True, False, False), (False, False, True, True), (False,) * 4])
        self.assertEqual([(x.name, x.c_linkage) for x in parse('extern "C" { int a(void); } extern "C" int b(void); int c(void);').functions],
                         [("a", True), ("b", True), ("c", False)])

    def test_typedefs(self):
        d = parse("typedef bool (*call)(struct t * a, bool ask, void * data); typedef void fun(int); typedef struct t * handle; typedef unsigned char byte;")
        self.assertEqual(d.typedefs, {"call": "bool (*) (t *, bool, void *)", "fun": "void (int)", "handle": "t *", "byte": "unsigned char"})

    def test_structs(self):
        d = parse("struct a { int x, *y, z[2]; struct { int p; struct { int q; } in; } m; union { int u; float v; }; unsigned bits : 3; "
                  "void (*call)(struct a * self, int); const char * const * names; enum { X, Y } mood; static int none; }; typedef struct { short s; } b; struct c;")
        self.assertEqual(d.aggregates["a"].fields, [
            ("x", "int"), ("y", "int *"), ("z", "int [2]"), ("m.p", "int"), ("m.in.q", "int"), ("u", "int"), ("v", "float"), ("bits", "unsigned"),
            ("call", "void (*) (a *, int)"), ("names", "const char * const *"),
            ("mood", "enum")])
        self.assertEqual(d.aggregates["b"].fields, [("s", "short")])
        self.assertNotIn("c", d.aggregates)

    def test_cpp(self):
        d = parse("namespace n { template <typename T, int N = 2> struct s : base<T> { public: s(int a) : x{a}, y(1) { go(); } int get() const { return x; }\n"
                  "bool operator==(const s & o) const { return true; } std::map<int, std::vector<T>> m; int x = 3; static int none; int y; };\n"
                  "template <> void f<1, 2>(int a) { } static auto g(int a) -> long { return a; } namespace { int hidden() { return 1; } } }\n"
                  "n::s<int> n::s<int>::make(int a) { return {}; } MACRO(x)\nint last(void) { return 0; }")
        self.assertEqual([f.name for f in d.functions], ["s::s", "s::get", "s::operator==", "f<1,2>", "g", "hidden", "n::s<int>::make", "last"])
        self.assertEqual(d.aggregates["s"].fields, [("m", "std::map < int, std::vector < T >>"), ("x", "int"), ("y", "int")])
        self.assertTrue(next(f for f in d.functions if f.name == "hidden").static)

    def test_functions_end_where_they_end(self):
        d = parse("int a(void) {\n    if (x) {\n    }\n}\n\nint b = { 1 };\nint c(void)\n{\n}\n")
        self.assertEqual([(f.name, f.line, f.last) for f in d.functions], [("a", 1, 4), ("c", 7, 9)])
        self.assertEqual(text_of(d.variables["b"].init), "{ 1 }")

    def test_numbers(self):
        d = parse("#define A 3\n#define B (A << 2 | 1)\n#define F(x) x\n#define D 0x10uLL\n#define Z 1/0\n"
                  "enum e { P = -2, Q, R = B, S = 'a', T = (1 + 2) * 3 - ~0, U = unknown(), V };")
        c = Constants([d])
        self.assertEqual(c.enums["e"], [("P", -2), ("Q", -1), ("R", 13), ("S", 97), ("T", 10), ("U", None), ("V", None)])
        self.assertEqual([c.macro(n) for n in "ABFDZ"], [3, 13, None, 16, None])

    def test_changed_lines(self):
        old = [f"line {n}" for n in range(500)]
        self.assertEqual(changed_lines(old, old), (0, 0))
        self.assertEqual(changed_lines(old, old[:100] + ["new"] * 3 + old[150:]), (3, 50))
        self.assertEqual(changed_lines(["x"] * 30, ["x"] * 40), (10, 0))
        self.assertEqual(changed_lines([], ["a", "b"]), (2, 0))
        self.assertEqual(changed_lines(["a", "b", "c"], ["b", "d"]), (1, 2))


class Interface(Case):
    def test_functions(self):
        self.assertEqual(self.lines(
            interface.functions,
            ("include/ggml.h", "float s);", "double s);"),
            ("include/ggml.h", "GGML_API int ggml_old(void);\n", "GGML_API int ggml_backend_wander(void);\n"),
            ("include/ggml.h", "* a);\nGGML_API void", "* a); GGML_API int ggml_new(const struct ggml_tensor * t);\nGGML_API void"),
            ("include/ggml.h", "void ggml_set_callback(ggml_callback callback, void * user_data)", "void ggml_set_callback(ggml_callback call, void * user_data)"),
            ("include/ggml.h", "        struct ggml_tensor  * b);", "        struct ggml_tensor*b);"),
            ("include/ggml-backend.h", "GGML_API int ggml_backend_wander(void);\n", ""),
            ("src/ggml-impl.h", "x + 1", "x + 2")), [
                "~ ggml-backend.h: ggml_backend_wander: moved to ggml.h",
                "+ ggml.h: int ggml_new(const ggml_tensor * t)",
                "- ggml.h: int ggml_old(void)",
                "~ ggml.h: ggml_tensor * ggml_scale(ggml_context * ctx, ggml_tensor * a, float s) -> "
                "ggml_tensor * ggml_scale(ggml_context * ctx, ggml_tensor * a, double s)",
                "~ ggml.h: ggml_set_callback: names of parameters: void ggml_set_callback(ggml_callback callback, void * user_data) -> "
                "void ggml_set_callback(ggml_callback call, void * user_data)",
                "~ ggml-impl.h: ggml_small: inline body +1 -1"])

    def test_marks_of_functions(self):
        self.assertEqual(self.lines(
            interface.functions,
            ("include/ggml.h", "GGML_API int ggml_old(void);", 'GGML_DEPRECATED(GGML_API int ggml_old(void), "use another");'),
            ("src/ggml-impl.h", "void ggml_inner", "GGML_API void ggml_inner")), [
                "~ ggml.h: ggml_old: exported, C linkage -> exported, C linkage, deprecated", "~ ggml-impl.h: ggml_inner: no marks -> exported"])

    STRUCT = (
        ("include/ggml.h", "    void * data; // where it is\n    struct { int a;", "    struct { double a; char more;"),
        ("include/ggml.h", "u; } extra;", "u; } extra;\n    const char * label;"),
        ("include/ggml.h", "(struct ggml_tensor * t, void * user_data);", "(struct ggml_tensor * t, int);"))

    @unittest.skipUnless(layout.compiler(), "no C compiler for x86-64")
    def test_types(self):
        self.assertEqual(self.lines(interface.types, *self.STRUCT), [
            "+ ggml_tensor.extra.more: char at 48, 1 bytes, between others",
            "+ ggml_tensor.label: const char * at 56, 8 bytes, behind all others",
            "- ggml_tensor.data: void * at 40, 8 bytes",
            "~ ggml_tensor.extra.a: type int -> double",
            "~ ggml_tensor.extra.a: size 4 -> 8",
            "~ ggml_tensor.extra.a: offset 48 -> 40",
            "~ ggml_tensor: size 56 -> 64",
            "~ ggml.h: typedef ggml_callback: void (*) (ggml_tensor *, void *) -> void (*) (ggml_tensor *, int)"])

    def test_types_without_a_compiler(self):
        kept = os.environ.get("CC")
        os.environ["CC"] = "no-such-compiler"
        self.addCleanup(lambda: os.environ.pop("CC") if kept is None else os.environ.__setitem__("CC", kept))
        self.assertEqual(self.lines(interface.types, *self.STRUCT), [
            "! no sizes and offsets: no C compiler for x86-64",
            "+ ggml_tensor.extra.more: char, between others",
            "+ ggml_tensor.label: const char *, behind all others",
            "- ggml_tensor.data: void *",
            "~ ggml_tensor.extra.a: type int -> double",
            "~ ggml.h: typedef ggml_callback: void (*) (ggml_tensor *, void *) -> void (*) (ggml_tensor *, int)"])

    @unittest.skipUnless(layout.compiler(), "no C compiler for x86-64")
    def test_headers_that_do_not_compile(self):
        found = self.lines(interface.types, ("include/ggml.h", "    void * data;", "    no_such_type * data;"))
        self.assertRegex(found[0], "^! no sizes and offsets: the headers do not compile: .*no_such_type")
        self.assertIn("~ ggml_tensor.data: type void * -> no_such_type *", found)

    def test_structs_come_go_and_turn(self):
        found = self.lines(interface.types,
                           ("include/ggml.h", "    int64_t ne[4];\n    void * data; // where it is\n", "    void * data;\n    int64_t ne[4];\n"),
                           ("include/ggml.h", "struct ggml_context;", "struct ggml_fresh { char c; };\nstruct ggml_context;"))
        self.assertTrue(any(re.match(r"\+ ggml.h: struct ggml_fresh(, 1 bytes)?: c: char", line) for line in found), found)
        self.assertTrue(any(re.match(r"~ ggml_tensor: members in another order: (data|ne) moved", line) for line in found), found)

    def test_enums(self):
        self.assertEqual(self.lines(
            interface.enums,
            ("include/ggml.h", "GGML_OP_NONE = 0, GGML_OP_ADD,", "GGML_OP_NONE = 0, GGML_OP_NEW, GGML_OP_ADD,"),
            ("include/ggml.h", "GGML_TYPE_F16 = 1, GGML_TYPE_COUNT = 2", "GGML_TYPE_COUNT = 1"),
            ("src/ggml-impl.h", "void ggml_inner", "enum ggml_mood { GOOD = 1 << 2, BAD };\nvoid ggml_inner")), [
                "+ enum ggml_mood: GOOD 4, BAD 5",
                "+ ggml_op: GGML_OP_NEW 1",
                "~ ggml_op: GGML_OP_ADD .. GGML_OP_COUNT: 6 numbers +1, 1 .. 6 -> 2 .. 7",
                "- ggml_type: GGML_TYPE_F16 1",
                "~ ggml_type: GGML_TYPE_COUNT 2 -> 1"])

    def test_numbers_that_move_apart(self):
        self.assertEqual(self.lines(interface.enums, ("include/ggml.h", "GGML_OP_CPY, GGML_OP_GLU, GGML_OP_SUM,", "GGML_OP_GLU, GGML_OP_CPY, GGML_OP_SUM,")), [
            "~ ggml_op: GGML_OP_CPY 3 -> 4", "~ ggml_op: GGML_OP_GLU 4 -> 3"])

    def test_macros(self):
        self.assertEqual(self.lines(
            interface.macros, ("include/ggml.h", "GGML_MAX_SRC 10 // ten", "GGML_MAX_SRC 12 // twelve\n#define GGML_MORE 1"),
            ("include/ggml.h", '"hello" /* a text */', '"bye"'), ("include/ggml.h", "#define GGML_TWICE (2 * GGML_MAX_SRC)\n", "")), [
                "~ ggml.h: GGML_MAX_SRC 10 -> 12", "+ ggml.h: GGML_MORE 1", "- ggml.h: GGML_TWICE 20", '~ ggml.h: GGML_SAY "hello" -> "bye"'])

    def test_static_assertions(self):
        self.assertEqual(self.lines(
            interface.asserts, ("include/ggml.h", "GGML_OP_COUNT == 6", "GGML_OP_COUNT == 7"),
            ("src/ggml.c", "static_assert(GGML_OP_COUNT == 6", "static_assert(sizeof(int) == 4);\n_Static_assert(GGML_OP_COUNT == 7")), [
                "~ include/ggml.h: GGML_OP_COUNT == 6 -> 7", "~ src/ggml.c: GGML_OP_COUNT == 6 -> 7", "+ src/ggml.c: sizeof(int) == 4"])

    def test_comments(self):
        self.assertEqual(self.lines(interface.comments, ("include/ggml.h", "// adds b to a", "/* adds b to a\n * b may be NULL */")), ["+ ggml.h: b may be NULL"])

    def test_exports(self):
        self.assertEqual(self.lines(
            exports.exports, ("src/CMakeLists.txt", "CODE ON", "CODE ON C_VISIBILITY_PRESET hidden"), ("include/ggml.h", "GGML_API int ggml_old(void);\n", ""),
            ("src/ggml-impl.h", "static inline", "GGML_API int ggml_new_inner(void);\nstatic inline")), [
                "+ ggml_new_inner (src/ggml-impl.h)", "- ggml_old (include/ggml.h)",
                "~ visibility of ggml-base: default -> hidden", "- libggml-base no longer shows ggml_inner", "- libggml-base no longer shows ggml_open_counter",
                "~ visibility of ggml: default -> hidden"])

    def test_exports_without_marks(self):
        self.assertEqual(self.lines(exports.exports, ("src/ggml.c", "void ggml_inner(void) { }", "static void ggml_inner(void) { }\nint ggml_loose(void) { return 1; }")), [
            "- libggml-base no longer shows ggml_inner", "+ libggml-base shows ggml_loose, which no header marks"])


class Inside(Case):
    def test_tables(self):
        self.assertEqual(self.lines(
            tables.tables, ("src/ggml.c", '"SCALE", "CPY"', '"SCALE", "FRESH", "CPY"'), ("src/ggml.c", '"f16", .blck_size = 1,', '"f16", .blck_size = 2,'),
            ("src/ggml.c", "= {\n    [GGML_TYPE_F32]", "= {\n    [GGML_TYPE_NEW] = { .blck_size = 3 },\n    [GGML_TYPE_F32]")), [
                '+ ggml.c: GGML_OP_NAME[3] "FRESH"', "+ ggml.c: type_traits[GGML_TYPE_NEW] { .blck_size = 3 }", "~ ggml.c: type_traits[GGML_TYPE_F16].blck_size: 1 -> 2"])

    def test_tables_of_the_formats(self):
        text = "GGML_TABLE_BEGIN(uint8_t, grid, 3)\n    1, 2, 3\nGGML_TABLE_END()\n"
        old, new = parse(text), parse(text.replace("2,", "7,"))
        self.assertEqual([[text_of(t) for _, t in tables.entries(d.variables["grid"].init)] for d in (old, new)], [["1", "2", "3"], ["1", "7", "3"]])

    def test_environment(self):
        self.assertEqual(self.lines(
            tables.environment, ("src/ggml-backend-reg.cpp", '"GGML_SETTING"', '"GGML_OTHER"'),
            ("src/ggml.c", 'getenv("GGML_LOUD")', "getenv(LOUD)"), ("src/ggml.c", "#define LIMIT 4", '#define LIMIT 4\n#define LOUD "GGML_LOUD"'),
            ("src/ggml-cuda/scale.cu", "int one;", 'int one = getenv("A_CARD") != 0; // getenv("NEVER")')), [
                "+ GGML_OTHER (src/ggml-backend-reg.cpp)", "- GGML_SETTING (src/ggml-backend-reg.cpp)", "+ A_CARD (src/ggml-cuda/scale.cu)"])

    def test_a_variable_that_moves(self):
        self.assertEqual(self.lines(tables.environment, ("src/ggml.c", 'getenv("GGML_LOUD")', "0"),
                                    ("src/ggml-cuda/scale.cu", "int one;", 'int one = getenv("GGML_LOUD") != 0;')),
                         ["~ GGML_LOUD: src/ggml.c -> src/ggml-cuda/scale.cu"])

    def test_lookups(self):
        self.assertEqual(self.lines(tables.lookups, ("src/ggml-cpu/ggml-cpu.c", '"ggml_cpu_one"', '"ggml_cpu_two"')), [
            "- ggml_cpu_one (src/ggml-cpu/ggml-cpu.c)", "+ ggml_cpu_two (src/ggml-cpu/ggml-cpu.c)"])

    def test_sources(self):
        self.assertEqual(self.lines(
            sources.inside, ("src/ggml-rpc/ggml-rpc.cpp", "RPC_CMD_COUNT", "RPC_CMD_SET, RPC_CMD_COUNT"), ("src/ggml-rpc/ggml-rpc.cpp", "uint64_t b;", "uint32_t b;"),
            ("src/ggml.c", "LIMIT 4", "LIMIT 5")), [
                "~ ggml-rpc.cpp: rpc_msg.b: type uint64_t -> uint32_t", "+ ggml-rpc.cpp: rpc_cmd: RPC_CMD_SET 2", "~ ggml-rpc.cpp: rpc_cmd: RPC_CMD_COUNT 2 -> 3",
                "~ ggml.c: LIMIT 4 -> 5"])

    def operations(self, *edits):
        return self.lines(operations.operations, *edits)

    def test_operations_of_functions(self):
        by_operation, rest = self.operations(
            ("src/ggml-cpu/ops.cpp", "{ return x; }\nstatic float shared", "{ return x + 1; }\nstatic float shared"),
            ("src/ggml-cpu/ops.cpp", "shared_by_two(float x) { return x; }", "shared_by_two(float x) { return 2 * x; }"),
            ("src/ggml-cpu/ops.cpp", "ggml_compute_forward_sum(const ggml_compute_params * params, ggml_tensor * dst) { }",
             "ggml_compute_forward_sum(const ggml_compute_params * params, ggml_tensor * dst) { sum(); }"),
            ("src/ggml-backend-reg.cpp", "return getenv(name);", "return name ? getenv(name) : nullptr;"))
        self.assertEqual(by_operation, [
            "~ ADD, SCALE: src/ggml-cpu/ops.cpp shared_by_two +1 -1",
            "~ SCALE: src/ggml-cpu/ops.cpp helper +1 -1",
            "~ SUM: src/ggml-cpu/ops.cpp ggml_compute_forward_sum +1 -1"])
        self.assertEqual(areas.by_area(rest), ["~ registry: src/ggml-backend-reg.cpp read_setting +1 -1"])

    def test_operations_of_constructors(self):
        by_operation, _ = self.operations(
            ("src/ggml.c", "ggml_is_padded_1d(a)", "ggml_is_contiguous(a)"),
            ("src/ggml.c", "ggml_scale(ctx, a, 2.0f)", "ggml_scale(ctx, a, 3.0f)"),
            ("src/ggml.c", "return ggml_scale_impl(ctx, a, s);", "return ggml_scale_impl(ctx, a, s * 2);"))
        self.assertEqual(by_operation, [
            "~ SCALE: src/ggml.c ggml_scale +1 -1", "~ SCALE: src/ggml.c ggml_scale_impl +1 -1",
            "~ ggml_norm: src/ggml.c ggml_norm +1 -1, made of ADD, SCALE"])

    def test_operations_of_cases(self):
        by_operation, rest = self.operations(
            ("src/ggml-cpu/ggml-cpu.c", "        case GGML_OP_CPY: return 2;\n", "        case GGML_OP_CPY: return 3;\n        case GGML_OP_GLU: return 2;\n"),
            ("src/ggml-cpu/ggml-cpu.c", "case GGML_OP_SUM: { ggml_compute_forward_sum(params, tensor); }", "case GGML_OP_SUM: { ggml_compute_forward_dup(params, tensor); }"))
        self.assertEqual(by_operation, [
            "~ CPY: src/ggml-cpu/ggml-cpu.c case in ggml_get_n_tasks +1 -1", "+ GLU: src/ggml-cpu/ggml-cpu.c case in ggml_get_n_tasks +1 -0",
            "~ SUM: src/ggml-cpu/ggml-cpu.c case in ggml_compute_forward +1 -1"])
        self.assertEqual(rest, [])

    def test_operations_of_shaders(self):
        shaders = "src/ggml-vulkan/vulkan-shaders/"
        by_operation, _ = self.operations(
            (shaders + "head.glsl", "1", "2"), (shaders + "scale.comp", "{ }", "{ return; }"), (shaders + "sum_rows.comp", None, "void main() { }"),
            (shaders + "swiglu.comp", None, None))
        self.assertEqual(by_operation, [
            f"~ SCALE: {shaders}head.glsl +1 -1", f"~ SCALE: {shaders}scale.comp +1 -1", f"- GLU: {shaders}swiglu.comp +0 -3",
            f"+ SUM: {shaders}sum_rows.comp +1 -0"])

    def test_assertions_and_parameters(self):
        edits = (("src/ggml.c", "GGML_ASSERT(ggml_is_padded_1d(a));", "GGML_ASSERT( ggml_is_contiguous_rows (a) );"),
                 ("src/ggml.c", "params[] = { 1, 2 };", "params[] = { 1, 2, 3 };"), ("src/ggml.c", "(a, 0, s)", "(a, 1, s)"))
        self.assertEqual(self.lines(bodies.asserts, *edits),
                         ["- ggml.c ggml_scale_impl: ggml_is_padded_1d(a)", "+ ggml.c ggml_scale_impl: ggml_is_contiguous_rows(a)"])
        self.assertEqual(self.lines(bodies.op_params, *edits), [
            "- ggml.c ggml_scale_impl: ggml_set_op_params_f32(a, 0, s)", "- ggml.c ggml_scale_impl: params = {1, 2}",
            "+ ggml.c ggml_scale_impl: ggml_set_op_params_f32(a, 1, s)", "+ ggml.c ggml_scale_impl: params = {1, 2, 3}"])

    def test_log_lines(self):
        self.assertEqual(self.lines(areas.log_lines, ("src/ggml.c", '"%s: set\\n"', '"%s: done\\n"')), [
            '- ggml.c ggml_set_callback: INFO "%s: set\\n", __func__', '+ ggml.c ggml_set_callback: INFO "%s: done\\n", __func__'])

    def test_a_change_of_comments_only(self):
        edits = (("src/ggml.c", "    int32_t params[]", "    // a remark\n    int32_t   params[]"),
                 ("src/ggml-cpu/ops.cpp", "    helper<float>(3);", "    helper<float>(3); /* three */"))
        self.assertEqual(self.operations(*edits), ([], []))
        self.assertEqual(self.lines(areas.files, *edits), ["~ cpu: src/ggml-cpu/ops.cpp +1 -1", "~ core: src/ggml.c +2 -1"])

    def test_cmake(self):
        self.assertEqual(self.lines(
            cmake.changes, ("CMakeLists.txt", 'option(GGML_A "a (b)" OFF)', '# option(GGML_C "" ON)\noption(GGML_A "a (b)" ON)\noption(GGML_D "d")'),
            ("CMakeLists.txt", 'option(GGML_B "b" ON)\n', ""), ("src/CMakeLists.txt", "ggml.c)", "ggml.c more.c)\nmessage(STATUS hello)")), [
                "~ option GGML_A: OFF -> ON", "- option GGML_B: ON", "+ option GGML_D: OFF", "~ src/CMakeLists.txt: add_library(ggml-base): +more.c",
                "~ src/CMakeLists.txt: 1 other commands"])

    def test_files(self):
        self.assertEqual(self.lines(
            areas.files, ("src/ggml-cuda/scale.cu", "int two;", "int three;\nint four;"), ("src/ggml-cuda/fresh.cu", None, "int five;\n"),
            ("src/ggml-rpc/ggml-rpc.cpp", None, None), ("src/ggml.c", "LIMIT 4", "LIMIT 5")), [
                "- rpc: src/ggml-rpc/ggml-rpc.cpp +0 -3", "~ core: src/ggml.c +1 -1", "~ other backend cuda: 1 files changed, 1 new, 0 gone, +4 -1"])


class Program(Case):
    def run_it(self, *args, **env):
        clean = {k: v for k, v in os.environ.items() if k not in ("CRATE", "VERSION", "DIR", "BASE", "BASE_CRATE", "BASE_VERSION", "CHECK")}
        return subprocess.run([sys.executable, os.path.join(HERE, "upstream_diff.py"), *args], env={**clean, **env}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)

    def trees(self, *edits):
        files = Files(*edits)
        self.addCleanup(files.folder.cleanup)
        return dict(zip(("BASE", "DIR"), files.paths))

    def test_no_change(self):
        r = self.run_it(CHECK="1", **self.trees())
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertTrue(r.stdout.endswith("\n0 items in 0 of 19 sections\n"), r.stdout)

    def test_a_change(self):
        both = self.trees(("src/ggml.c", "LIMIT 4", "LIMIT 5"), ("CMakeLists.txt", "MINOR 1", "MINOR 2"))
        r = self.run_it(**both)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertIn("== version: 1\n~ 0.1.0 -> 0.2.0\n", r.stdout)
        self.assertTrue(r.stdout.endswith("\n5 items in 4 of 19 sections\n"), r.stdout)
        self.assertEqual(self.run_it(CHECK="0", **both).returncode, 0)
        again = self.run_it(CHECK="1", PYTHONHASHSEED="7", **both)
        self.assertEqual((again.returncode, again.stdout), (1, r.stdout))

    def test_the_older_tree(self):
        for old, new in (("MINOR 2", "MINOR 1"), ("MINOR 10", "MINOR 9")):
            both = self.trees(("CMakeLists.txt", "MINOR 1", new))
            with open(os.path.join(both["BASE"], "CMakeLists.txt")) as f:
                text = f.read()
            with open(os.path.join(both["BASE"], "CMakeLists.txt"), "w") as f:
                f.write(text.replace("MINOR 1", old))
            r = self.run_it(**both)
            versions = [f"0.{t[6:]}.0" for t in (old, new)]
            self.assertEqual(r.returncode, 0)
            self.assertIn(f"{versions[1]} is older than {versions[0]}", r.stderr)
            self.assertIn(f"== version: 1\n~ {versions[0]} -> {versions[1]} backwards", r.stdout)
            r = self.run_it(BASE=both["DIR"], DIR=both["BASE"])
            self.assertEqual(r.stderr, "")
            self.assertIn(f"== version: 1\n~ {versions[1]} -> {versions[0]}\n", r.stdout)

    def test_causes(self):
        cargo = "error: failed to select a version for the requirement `some = \"=9\"`\ncandidate versions found which didn't match: 0.11.0, 0.9.0, ...\n"
        pip = "ERROR: Could not find a version that satisfies the requirement some==9 (from versions: 0.1.0, 0.2.0, 0.9.1, 0.10.0)\nERROR: No matching"
        self.assertEqual(fetch.cause("some", "9", cargo), "some has no version 9; the newest are 0.11.0, 0.9.0, ...")
        self.assertEqual(fetch.cause("some", "9", pip), "some has no version 9; the newest are 0.10.0, 0.9.1, 0.2.0")
        self.assertEqual(fetch.cause("some", "9", "error: no matching package named `some` found\n"), "there is no crate of the name some")
        self.assertIn("offline", fetch.cause("some", "9", cargo + "As a reminder, you're using offline mode (--offline)"))
        for unknown in ("", "error: Could not resolve host", "requirement some==9 (from versions: none)"):
            self.assertIsNone(fetch.cause("some", "9", unknown))

    def test_a_version_that_does_not_exist(self):
        """Runs with a fake cargo that prints a text."""
        with tempfile.TemporaryDirectory() as work:
            cargo = os.path.join(work, "cargo")
            with open(cargo, "w") as f:
                f.write("#!/bin/sh\necho \"candidate versions found which didn't match: 2.0.0, 1.0.0\"\nexit 101\n")
            os.chmod(cargo, 0o755)
            r = self.run_it(VERSION="9.9.9", GGML_CACHE=work, CARGO_HOME=work, PATH=work + os.pathsep + os.environ["PATH"])
            self.assertEqual((r.returncode, r.stdout), (3, ""))
            self.assertIn("llama-cpp-sys-4 has no version 9.9.9; the newest are 2.0.0, 1.0.0", r.stderr)
            self.assertNotIn("network", r.stderr)

    def test_wrong_calls(self):
        both = self.trees()
        for args, env in (((), {}), (("x",), both), ((), {**both, "DIR": "/nowhere"}), ((), {**both, "CRATE": "some"}), ((), {"CRATE": "some"}),
                          ((), {**both, "BASE_VERSION": "1"})):
            r = self.run_it(*args, **env)
            self.assertEqual((r.returncode, r.stdout), (2, ""), (args, env))
            self.assertIn("usage:", r.stderr)

    def test_no_crate(self):
        with tempfile.TemporaryDirectory() as work:
            r = self.run_it(VERSION="0.0.0-none", GGML_CACHE=work, CARGO_HOME=work, CARGO_NET_OFFLINE="true")
            self.assertEqual((r.returncode, r.stdout), (3, ""))
            self.assertRegex(r.stderr, "cannot fetch|cargo is missing")
            self.assertNotIn("Traceback", r.stderr)

    def test_a_whole_llama_cpp(self):
        both = self.trees()
        with tempfile.TemporaryDirectory() as work:
            os.symlink(both["DIR"], os.path.join(work, "ggml"))
            self.assertEqual(self.run_it(BASE=both["BASE"], DIR=work, CHECK="1").returncode, 0)


# The report about 0.26.0 and 0.28.0: section -> whole items; -> the number of items, if it is known otherwise.
FACTS = {
    "version": ["~ 0.26.0 -> 0.28.0"],
    "functions in headers": [
        "+ ggml.h: ggml_prec ggml_prec_get_acc(const ggml_tensor * a)",
        "+ ggml.h: ggml_prec ggml_prec_get_src(const ggml_tensor * a, int idx)",
        "+ ggml.h: ggml_tensor * ggml_top_k_mask(ggml_context * ctx, ggml_tensor * mask, ggml_tensor * top_k, ggml_tensor * score, ggml_tensor * blocks, ggml_tensor * extra)",
        "+ ggml-backend.h: void ggml_backend_tensor_copy_n(const ggml_tensor * const * srcs, ggml_tensor * const * dsts, size_t n_tensors)",
    ],
    "types": [
        "~ ggml_backend_buffer_i: size 88 -> 112",
        "+ ggml_backend_buffer_i.set_tensor_n: void (*) (ggml_backend_buffer_t, ggml_tensor * const *, const void * const *, const size_t *, const size_t *, size_t)"
        " at 88, 8 bytes, behind all others",
        "+ ggml.h: struct ggml_fp8_e4m3_t, 1 bytes: bits: uint8_t",
    ],
    "enums": [
        "+ ggml_op: GGML_OP_TOP_K_MASK 91", "~ ggml_op: GGML_OP_UNARY .. GGML_OP_COUNT: 11 numbers +1, 91 .. 101 -> 92 .. 102",
        "+ ggml_type: GGML_TYPE_F8_E4M3 43", "~ ggml_type: GGML_TYPE_COUNT 43 -> 44", "+ ggml_ftype: GGML_FTYPE_MOSTLY_F8_E4M3 29",
    ],
    "macros": ["~ ggml-rpc.h: RPC_PROTO_MAJOR_VERSION 7 -> 8", "~ ggml-rpc.h: RPC_PROTO_PATCH_VERSION 0 -> 1"],
    "static assertions": ["~ include/ggml-rpc.h: GGML_OP_COUNT == 101 -> 102", "~ src/ggml.c: GGML_OP_COUNT == 101 -> 102 (2 places)"],
    "exported names": [
        "~ visibility of ggml-base: default -> hidden", "~ visibility of ggml: default -> hidden", "- libggml-base no longer shows ggml_graph_view",
        "- libggml-base no longer shows ggml_critical_section_mutex", "- libggml-base no longer shows ggml_print_backtrace",
        "+ quantize_row_f8_e4m3_ref (src/ggml-quants.h)",
    ],
    "tables": ['+ ggml.c: GGML_OP_NAME[91] "TOP_K_MASK"'],
    "types and numbers inside the sources": ["+ ggml-rpc.cpp: rpc_cmd: RPC_CMD_SET_TENSOR_2D 18", "~ ggml-rpc.cpp: rpc_cmd: RPC_CMD_COUNT 19 -> 24"],
    "environment variables": ["+ GGML_RPC_NO_COMM (src/ggml-rpc/ggml-rpc.cpp)"],
    "functions looked up by name": ["+ ggml_backend_comm_init (src/ggml-rpc/ggml-rpc.cpp)"],
    "operations": [
        "~ SCALE: src/ggml.c ggml_scale_impl +1 -1", "~ SCALE: src/ggml-cpu/ops.cpp ggml_compute_forward_scale_f32 +12 -13",
        "+ TOP_K_MASK: src/ggml.c ggml_top_k_mask +33 -0", "+ TOP_K_MASK: src/ggml-cpu/ops.cpp ggml_compute_forward_top_k_mask +72 -0",
        "~ ggml_conv_1d: src/ggml.c ggml_conv_1d +2 -1, made of MUL_MAT, CONT, RESHAPE, PERMUTE, IM2COL",
        "~ MUL_MAT_ID: src/ggml-cpu/ggml-cpu.c ggml_compute_forward_mul_mat_id +5 -1",
        "~ ADD_ID: src/ggml-vulkan/vulkan-shaders/add_id.comp +10 -2",
    ],
    "other functions": ["+ scheduler: src/ggml-backend.cpp ggml_backend_sched_copy_input +33 -0", "~ quants: src/ggml-quants.c ggml_validate_row_data +10 -0"],
    "assertions in functions": ["- ggml.c ggml_scale_impl: ggml_is_padded_1d(a)", "+ ggml.c ggml_scale_impl: ggml_is_contiguous_rows(a)"],
    "op_params": ["+ ggml.c ggml_prec_get_acc: ggml_get_op_params_i32(a, 3)"],
    "cmake": ["+ option GGML_SYCL_SUPPORT_XMX: ON"],
}
COUNTS = {"functions in headers": 14, "enums": 5, "macros": 2}


def real_trees():
    """The two trees, or None."""
    if os.environ.get("UPSTREAM_FETCH") == "1":
        return [upstream_diff.fetched("llama-cpp-sys-2", "0.1.161"), upstream_diff.fetched("llama-cpp-sys-4", "0.11.0")]
    found = [os.environ.get(name, "") for name in ("UPSTREAM_OLD", "UPSTREAM_NEW")]
    return found if all(found) else None


class Facts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            trees = real_trees()
        except SystemExit as e:
            raise AssertionError(e.code) from None
        if trees is None:
            raise unittest.SkipTest("UPSTREAM_OLD and UPSTREAM_NEW name no trees")
        cls.old, cls.new = map(Tree, trees)
        cls.sections = dict(upstream_diff.sections(cls.old, cls.new))

    def test_what_is_known(self):
        for title, items in FACTS.items():
            for item in items:
                if title == "types" and not layout.compiler():
                    continue
                with self.subTest(title):
                    self.assertIn(item, self.sections[title])

    def test_how_much_is_known(self):
        for title, count in COUNTS.items():
            with self.subTest(title):
                self.assertEqual(len(self.sections[title]), count, self.sections[title])

    @unittest.skipUnless(layout.compiler(), "no C compiler for x86-64")
    def test_committed_facts_are_those_of_the_sources(self):
        version = re.search(r"\d+\.\d+\.\d+", upstream_facts.read("functions.txt")).group()
        tree = {t.version(): t for t in (self.old, self.new)}.get(version)
        if tree is None:
            self.skipTest(f"the lists in c_tests/abi are about {version}")
        for name, make in upstream_facts.LISTS:
            with self.subTest(name):
                self.assertEqual(make(tree, upstream_facts.listed_headers()), upstream_facts.read(name))


def main():
    program = unittest.main(exit=False, verbosity=1, warnings="ignore")
    result = program.result
    for _, why in result.skipped:
        print(f"note: left out: {why}")
    # A class whose preparation fails, or that is left out, has no tests that ran.
    left_out = sum(isinstance(test, unittest.TestCase) for test, _ in result.skipped)
    bad = {getattr(test, "test_case", test) for test, _ in result.failures + result.errors}
    ran = sum(isinstance(test, unittest.TestCase) for test in bad)
    print(f"upstream: {result.testsRun - ran - left_out} passed, {len(bad)} failed")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
