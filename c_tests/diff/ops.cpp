// Computes many small graphs of one op on the CPU device, from inputs that are the same everywhere, and writes the
// results to a file. Run it with two libraries and compare the files with compare.py.
//
//   ops OUT.bin [-t THREADS] [-k NAME_PART] [-s N] [-r] [-v]
//
// -s takes one in N cases of the grid (grid.h), always the same ones. -r is for the original: see grid.h. Each case
// runs in a child process, so that a crash is a result of the case. Ops that the device does not support are recorded
// as unsupported.
#include "../common/data.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <csignal>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using T = ggml_tensor *;

namespace {

enum Status : int32_t { OK = 0, UNSUPPORTED = 1, CRASHED = 2, FAILED = 3 };

// The graph of a case: inputs with their values, in order.
struct Graph {
    ggml_context * c;
    struct Input {
        T       t;
        float   lo, hi;
        int64_t below;    // when positive: whole numbers in [0, below)
        bool    distinct; // no number twice in a row
        bool    mask;   // an attention mask: 0, or minus infinity for a third of it
        bool    gaps;   // indices: a third of them is -1, "none"
    };
    std::vector<Input> inputs;

    T in(ggml_type type, std::vector<int64_t> ne, float lo = -1.0f, float hi = 1.0f) {
        T t = ggml_new_tensor(c, type, (int) ne.size(), ne.data());
        inputs.push_back({ t, lo, hi, 0, false, false, false });
        return t;
    }
    T f(std::vector<int64_t> ne, float lo = -1.0f, float hi = 1.0f) { return in(GGML_TYPE_F32, ne, lo, hi); }
    T index(std::vector<int64_t> ne, int64_t below, bool distinct = false, ggml_type type = GGML_TYPE_I32) {
        T t = in(type, ne);
        inputs.back().below    = below;
        inputs.back().distinct = distinct;
        return t;
    }
    T index_with_gaps(std::vector<int64_t> ne, int64_t below) {
        T t = index(ne, below, true);
        inputs.back().gaps = true;
        return t;
    }
    T mask(ggml_type type, std::vector<int64_t> ne) {
        T t = in(type, ne);
        inputs.back().mask = true;
        return t;
    }
};

struct Case {
    std::string              name; // "op|type|details"
    std::function<T(Graph &)> build;
};

std::vector<Case> cases;

void add(const std::string & op, const std::string & type, const std::string & details, std::function<T(Graph &)> build) {
    cases.push_back({ op + "|" + type + "|" + details, std::move(build) });
}

const char * type_name(ggml_type t) { return ggml_type_name(t); }

std::string shape(const std::vector<int64_t> & ne) {
    std::string s;
    for (size_t i = 0; i < ne.size(); i++) {
        s += (i ? "x" : "") + std::to_string(ne[i]);
    }
    return s;
}

const ggml_type floats[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16 };
// Every format of weights in blocks, and the float of one byte.
const std::vector<ggml_type> weights = [] {
    std::vector<ggml_type> all = { GGML_TYPE_F8_E4M3 };
    for (int i = 0; i < GGML_TYPE_COUNT; i++) {
        const auto type = static_cast<ggml_type>(i);
        if (ggml_is_quantized(type) && type != GGML_TYPE_Q8_1 && type != GGML_TYPE_Q8_K) { all.push_back(type); }
    }
    return all;
}();

void elementwise() {
    using Binary = T (*)(ggml_context *, T, T);
    const struct { const char * name; Binary make; float lo; } binary[] = { { "ADD", ggml_add, -1 }, { "SUB", ggml_sub, -1 }, { "MUL", ggml_mul, -1 }, { "DIV", ggml_div, 0.5f } };
    const std::vector<std::vector<int64_t>> pairs[] = {
        { { 32, 5 }, { 32, 5 } }, { { 17, 5, 3, 2 }, { 17 } }, { { 17, 5, 3, 2 }, { 1, 5, 1, 2 } }, { { 64, 3, 2 }, { 16, 1, 2 } }, { { 1, 7 }, { 1, 7 } }, { { 384, 9 }, { 384 } },
    };
    for (auto & op : binary) {
        for (auto type : floats) {
            for (auto & p : pairs) {
                add(op.name, type_name(type), shape(p[0]) + "," + shape(p[1]), [=](Graph & g) { T a = g.in(type, p[0]); return op.make(g.c, a, g.in(type, p[1], op.lo, 2)); });
            }
            if (type != GGML_TYPE_F32) {
                add(op.name, type_name(type), "with f32", [=](Graph & g) { T a = g.in(type, { 33, 4 }); return op.make(g.c, a, g.f({ 33 }, op.lo, 2)); });
            }
        }
        add(op.name, "f32", "transposed left", [=](Graph & g) { T a = ggml_transpose(g.c, g.f({ 6, 20 })); return op.make(g.c, ggml_cont(g.c, a), g.f({ 20, 6 }, op.lo, 2)); });
        add(op.name, "f32", "permuted right", [=](Graph & g) { T a = g.f({ 12, 5, 6 }); return op.make(g.c, a, ggml_permute(g.c, g.f({ 12, 6, 5 }, op.lo, 2), 0, 2, 1, 3)); });
        add(op.name, "f32", "view left", [=](Graph & g) { T a = g.f({ 20, 6 }); return op.make(g.c, ggml_view_2d(g.c, a, 10, 4, a->nb[1], 16), g.f({ 10, 4 }, op.lo, 2)); });
        add(op.name, "f32", "inplace chain", [=](Graph & g) { T a = g.f({ 20, 6 }); T b = g.f({ 20, 6 }, op.lo, 2); return op.make(g.c, op.make(g.c, a, b), b); });
    }
    for (auto type : weights) {
        add("ADD", type_name(type), "quantized left", [=](Graph & g) { T a = g.in(type, { 256, 3 }); return ggml_add(g.c, a, g.f({ 256, 3 })); });
    }
    using Unary = T (*)(ggml_context *, T);
    const struct { const char * name; Unary make; float lo, hi; } plain[] = {
        { "SQR", ggml_sqr, -3, 3 }, { "SQRT", ggml_sqrt, 0, 5 }, { "LOG", ggml_log, 0.01f, 5 }, { "SIN", ggml_sin, -6, 6 }, { "COS", ggml_cos, -6, 6 }, { "SUM", ggml_sum, -1, 1 },
        { "SUM_ROWS", ggml_sum_rows, -1, 1 }, { "MEAN", ggml_mean, -1, 1 }, { "DUP", ggml_dup, -1, 1 }, { "CONT", ggml_cont, -1, 1 }, { "CUMSUM", ggml_cumsum, -1, 1 },
    };
    for (auto & op : plain) {
        for (auto type : floats) {
            if (type != GGML_TYPE_F32 && (op.make == ggml_cumsum)) {
                continue;
            }
            for (auto ne : { std::vector<int64_t>{ 33, 5 }, { 128, 3, 2, 2 }, { 1, 9 }, { 1027 } }) {
                add(op.name, type_name(type), shape(ne), [=](Graph & g) { return op.make(g.c, g.in(type, ne, op.lo, op.hi)); });
            }
        }
        if (op.make != ggml_cumsum) {
            add(op.name, "f32", "permuted", [=](Graph & g) { return op.make(g.c, ggml_permute(g.c, g.f({ 12, 5, 6 }, op.lo, op.hi), 0, 2, 1, 3)); });
        }
    }
    for (auto type : floats) {
        for (int u = 0; u < GGML_UNARY_OP_COUNT; u++) {
            if (u == GGML_UNARY_OP_XIELU) {
                continue;
            }
            add("UNARY", type_name(type), ggml_unary_op_name((ggml_unary_op) u), [=](Graph & g) { return ggml_unary(g.c, g.in(type, { 67, 5, 2 }, -8, 8), (ggml_unary_op) u); });
        }
        add("UNARY", type_name(type), "XIELU", [=](Graph & g) { return ggml_xielu(g.c, g.in(type, { 67, 5 }, -4, 4), 0.5f, 0.75f, 1.5f, -1e-6f); });
        for (int u = 0; u < GGML_GLU_OP_COUNT; u++) {
            const auto op = (ggml_glu_op) u;
            if (op == GGML_GLU_OP_SWIGLU_OAI || op == GGML_GLU_OP_SWIGLU_CLAMP) {
                continue; // these take parameters
            }
            add("GLU", type_name(type), std::string(ggml_glu_op_name(op)), [=](Graph & g) { return ggml_glu(g.c, g.in(type, { 70, 5 }, -6, 6), op, false); });
            add("GLU", type_name(type), std::string(ggml_glu_op_name(op)) + " swapped", [=](Graph & g) { return ggml_glu(g.c, g.in(type, { 70, 5 }, -6, 6), op, true); });
            add("GLU", type_name(type), std::string(ggml_glu_op_name(op)) + " split", [=](Graph & g) { T a = g.in(type, { 35, 5, 2 }, -6, 6); return ggml_glu_split(g.c, a, g.in(type, { 35, 5, 2 }, -6, 6), op); });
        }
    }
    add("GLU", "f32", "SWIGLU_OAI", [=](Graph & g) { T a = g.f({ 35, 5 }, -6, 6); return ggml_swiglu_oai(g.c, a, g.f({ 35, 5 }, -6, 6), 1.702f, 3.0f); });
    add("GLU", "f32", "SWIGLU_CLAMP", [=](Graph & g) { T a = g.f({ 35, 5 }, -6, 6); return ggml_swiglu_clamp(g.c, a, g.f({ 35, 5 }, -6, 6), 2.5f); });
    for (auto type : { GGML_TYPE_F32, GGML_TYPE_F16 }) {
        add("SCALE", type_name(type), "0.37", [=](Graph & g) { return ggml_scale(g.c, g.in(type, { 67, 5 }), 0.37f); });
        add("CLAMP", type_name(type), "-0.5..0.25", [=](Graph & g) { return ggml_clamp(g.c, g.in(type, { 67, 5 }), -0.5f, 0.25f); });
        add("LEAKY_RELU", type_name(type), "0.1", [=](Graph & g) { return ggml_leaky_relu(g.c, g.in(type, { 67, 5 }), 0.1f, false); });
        add("FILL", type_name(type), "1.5", [=](Graph & g) { return ggml_fill(g.c, g.in(type, { 67, 5 }), 1.5f); });
    }
    add("SCALE", "f32", "with bias", [=](Graph & g) { return ggml_scale_bias(g.c, g.f({ 67, 5 }), 0.37f, -2.0f); });
    add("SCALE", "f32", "inplace", [=](Graph & g) { return ggml_scale_inplace(g.c, g.f({ 67, 5 }), 2.0f); });
    add("ADD1", "f32", "67x5", [=](Graph & g) { T a = g.f({ 67, 5 }); return ggml_add1(g.c, a, g.f({ 1 })); });
    add("ADD_ID", "f32", "32x3x5", [=](Graph & g) { T a = g.f({ 32, 3, 5 }); T b = g.f({ 32, 8 }); return ggml_add_id(g.c, a, b, g.index({ 3, 5 }, 8)); });
    add("ACC", "f32", "view", [=](Graph & g) { T a = g.f({ 16, 6, 2 }); T b = g.f({ 8, 3, 2 }); return ggml_acc(g.c, a, b, a->nb[1], a->nb[2], a->nb[3], 24); });
    add("SET", "f32", "view", [=](Graph & g) { T a = g.f({ 16, 6, 2 }); T b = g.f({ 8, 3, 2 }); return ggml_set(g.c, a, b, a->nb[1], a->nb[2], a->nb[3], 24); });
    add("ARANGE", "f32", "0..10 by 0.7", [=](Graph & g) { return ggml_arange(g.c, 0, 10, 0.7f); });
    add("TIMESTEP_EMBEDDING", "f32", "5", [=](Graph & g) { return ggml_timestep_embedding(g.c, g.f({ 5 }, 0, 100), 32, 10000); });
}

void norms() {
    for (auto ne : { std::vector<int64_t>{ 64, 5 }, { 384, 7 }, { 33, 4, 3, 2 }, { 1, 5 }, { 1024, 2 } }) {
        add("NORM", "f32", shape(ne), [=](Graph & g) { return ggml_norm(g.c, g.f(ne, -2, 3), 1e-5f); });
        add("RMS_NORM", "f32", shape(ne), [=](Graph & g) { return ggml_rms_norm(g.c, g.f(ne, -2, 3), 1e-6f); });
        add("L2_NORM", "f32", shape(ne), [=](Graph & g) { return ggml_l2_norm(g.c, g.f(ne, -2, 3), 1e-6f); });
    }
    add("NORM", "f32", "view", [=](Graph & g) { T a = g.f({ 64, 8 }); return ggml_norm(g.c, ggml_view_2d(g.c, a, 32, 8, a->nb[1], 64), 1e-5f); });
    add("RMS_NORM", "f32", "view", [=](Graph & g) { T a = g.f({ 64, 8 }); return ggml_rms_norm(g.c, ggml_view_2d(g.c, a, 32, 8, a->nb[1], 64), 1e-5f); });
    add("RMS_NORM", "f32", "then mul", [=](Graph & g) { T a = g.f({ 96, 6 }); return ggml_mul(g.c, ggml_rms_norm(g.c, a, 1e-5f), g.f({ 96 })); });
    add("RMS_NORM", "f32", "then mul and add", [=](Graph & g) { T a = g.f({ 96, 6 }); T w = g.f({ 96 }); return ggml_add(g.c, ggml_mul(g.c, ggml_rms_norm(g.c, a, 1e-5f), w), g.f({ 96, 6 })); });
    add("NORM", "f32", "then mul and add", [=](Graph & g) { T a = g.f({ 96, 6 }); T w = g.f({ 96 }); return ggml_add(g.c, ggml_mul(g.c, ggml_norm(g.c, a, 1e-12f), w), g.f({ 96 })); });
    add("RMS_NORM", "f32", "large values", [=](Graph & g) { return ggml_rms_norm(g.c, g.f({ 256, 3 }, -3e4f, 3e4f), 1e-6f); });
    add("NORM", "f32", "far from zero", [=](Graph & g) { return ggml_norm(g.c, g.f({ 256, 3 }, 99, 101), 1e-5f); });
    add("GROUP_NORM", "f32", "8x6x12 in 4", [=](Graph & g) { return ggml_group_norm(g.c, g.f({ 8, 6, 12, 2 }), 4, 1e-6f); });
    add("RMS_NORM_BACK", "f32", "64x5", [=](Graph & g) { T a = g.f({ 64, 5 }); return ggml_rms_norm_back(g.c, a, g.f({ 64, 5 }), 1e-5f); });
    add("SILU_BACK", "f32", "64x5", [=](Graph & g) { T a = g.f({ 64, 5 }); return ggml_silu_back(g.c, a, g.f({ 64, 5 })); });
}

void products() {
    struct Shape { std::vector<int64_t> a, b; };
    const Shape shapes[] = { { { 256, 5 }, { 256, 3 } }, { { 512, 7 }, { 512, 1 } }, { { 256, 16 }, { 256, 33 } }, { { 256, 4, 2 }, { 256, 3, 6 } }, { { 256, 64 }, { 256, 2 } }, { { 1024, 3 }, { 1024, 4 } } };
    auto all = [](std::function<void(ggml_type)> use) {
        for (auto t : floats) { use(t); }
        for (auto t : weights) { use(t); }
    };
    all([&](ggml_type type) {
        for (auto & s : shapes) {
            add("MUL_MAT", type_name(type), shape(s.a) + "," + shape(s.b), [=](Graph & g) { T a = g.in(type, s.a); return ggml_mul_mat(g.c, a, g.f(s.b)); });
        }
        add("MUL_MAT_ID", type_name(type), "4 of 256x6, broadcast", [=](Graph & g) { T a = g.in(type, { 256, 6, 4 }); T b = g.f({ 256, 1, 5 }); return ggml_mul_mat_id(g.c, a, b, g.index({ 2, 5 }, 4, true)); });
        add("MUL_MAT_ID", type_name(type), "8 of 256x9, own rows", [=](Graph & g) { T a = g.in(type, { 256, 9, 8 }); T b = g.f({ 256, 3, 17 }); return ggml_mul_mat_id(g.c, a, b, g.index({ 3, 17 }, 8, true)); });
        add("GET_ROWS", type_name(type), "256x9", [=](Graph & g) { T a = g.in(type, { 256, 9 }); return ggml_get_rows(g.c, a, g.index({ 7 }, 9)); });
        add("GET_ROWS", type_name(type), "256x5x3", [=](Graph & g) { T a = g.in(type, { 256, 5, 3 }); return ggml_get_rows(g.c, a, g.index({ 4, 3 }, 5)); });
        add("CPY", type_name(type), "to f32", [=](Graph & g) { T a = g.in(type, { 256, 3 }); return ggml_cast(g.c, a, GGML_TYPE_F32); });
    });
    for (auto type : floats) {
        for (auto & s : { Shape{ { 33, 5 }, { 33, 3 } }, { { 7, 9, 2, 1 }, { 7, 4, 4, 3 } }, { { 1, 5 }, { 1, 6 } }, { { 32, 48, 12 }, { 32, 31, 12 } }, { { 384, 384 }, { 384, 9 } } }) {
            add("MUL_MAT", type_name(type), shape(s.a) + "," + shape(s.b), [=](Graph & g) { T a = g.in(type, s.a); return ggml_mul_mat(g.c, a, g.f(s.b)); });
        }
        add("MUL_MAT", type_name(type), "permuted both", [=](Graph & g) {
            T k = ggml_permute(g.c, g.in(type, { 32, 4, 20 }), 0, 2, 1, 3);
            return ggml_mul_mat(g.c, k, ggml_permute(g.c, g.f({ 32, 8, 11 }), 0, 2, 1, 3));
        });
        add("MUL_MAT", type_name(type), "views", [=](Graph & g) {
            T a = g.in(type, { 96, 10 });
            T b = g.f({ 96, 8 });
            return ggml_mul_mat(g.c, ggml_view_2d(g.c, a, 32, 9, a->nb[1], 32 * ggml_type_size(type)), ggml_view_2d(g.c, b, 32, 5, b->nb[1], 128));
        });
        add("MUL_MAT", type_name(type), "same type both", [=](Graph & g) { T a = g.in(type, { 64, 9 }); return ggml_mul_mat(g.c, a, g.in(type, { 64, 6 })); });
    }
    add("MUL_MAT", "q8_0", "permuted right", [=](Graph & g) { T a = g.in(GGML_TYPE_Q8_0, { 64, 9, 4 }); return ggml_mul_mat(g.c, a, ggml_permute(g.c, g.f({ 64, 4, 5 }), 0, 2, 1, 3)); });
    add("OUT_PROD", "f32", "6x5,7x5", [=](Graph & g) { T a = g.f({ 6, 5 }); return ggml_out_prod(g.c, a, g.f({ 7, 5 })); });
    for (auto to : { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_F8_E4M3, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL }) {
        add("CPY", type_name(to), "from f32", [=](Graph & g) { T a = g.f({ 256, 3, 2 }); return ggml_cast(g.c, a, to); });
        for (auto index : { GGML_TYPE_I64, GGML_TYPE_I32 }) {
            add("SET_ROWS", type_name(to), std::string("256x9, ") + type_name(index), [=](Graph & g) { T a = g.in(to, { 256, 9 }); T b = g.f({ 256, 4 }); return ggml_set_rows(g.c, a, b, g.index({ 4 }, 9, true, index)); });
        }
        add("SET_ROWS", type_name(to), "batched", [=](Graph & g) { T a = g.in(to, { 64, 9, 4 }); T b = g.f({ 64, 5, 4 }); return ggml_set_rows(g.c, a, b, g.index({ 5, 2 }, 9, true, GGML_TYPE_I64)); });
        if (ggml_blck_size(to) == 1) {
            for (auto from : floats) {
                add("CPY", type_name(to), std::string("permuted ") + type_name(from), [=](Graph & g) { return ggml_cast(g.c, ggml_permute(g.c, g.in(from, { 12, 5, 6 }), 0, 2, 1, 3), to); });
                add("CPY", type_name(to), std::string("transposed ") + type_name(from), [=](Graph & g) { T a = ggml_transpose(g.c, g.in(from, { 33, 18 })); return ggml_cpy(g.c, a, g.in(to, { 18, 33 })); });
                add("CPY", type_name(to), std::string("into a view ") + type_name(from), [=](Graph & g) {
                    T a = g.in(from, { 12, 5 });
                    T b = g.in(to, { 24, 8 });
                    return ggml_cpy(g.c, a, ggml_view_2d(g.c, b, 12, 5, b->nb[1], 2 * b->nb[1] + 4 * b->nb[0]));
                });
                add("CPY", type_name(to), std::string("reshaped ") + type_name(from), [=](Graph & g) { T a = ggml_permute(g.c, g.in(from, { 12, 5, 6 }), 1, 0, 2, 3); return ggml_cpy(g.c, a, g.in(to, { 36, 10 })); });
            }
        }
    }
    add("CPY", "i32", "f32 to i32", [=](Graph & g) { return ggml_cast(g.c, g.f({ 33, 5 }, -100, 100), GGML_TYPE_I32); });
    add("CPY", "i32", "i32 to f32", [=](Graph & g) { return ggml_cast(g.c, g.index({ 33, 5 }, 1000), GGML_TYPE_F32); });
    add("CPY", "i32", "i32 cont", [=](Graph & g) { return ggml_cont(g.c, ggml_transpose(g.c, g.index({ 33, 5 }, 1000))); });
    add("GET_ROWS", "i32", "33x5", [=](Graph & g) { T a = g.index({ 33, 5 }, 1000); return ggml_get_rows(g.c, a, g.index({ 3 }, 5)); });
    add("GET_ROWS", "f32", "odd width", [=](Graph & g) { T a = g.f({ 67, 5 }); return ggml_get_rows(g.c, a, g.index({ 9 }, 5)); });
    add("GET_ROWS", "f32", "view", [=](Graph & g) { T a = g.f({ 64, 8 }); return ggml_get_rows(g.c, ggml_view_2d(g.c, a, 16, 8, a->nb[1], 64), g.index({ 9 }, 8)); });
    add("GET_ROWS_BACK", "f32", "33x5", [=](Graph & g) { T a = g.f({ 33, 4 }); T b = g.index({ 4 }, 5); return ggml_get_rows_back(g.c, a, b, g.f({ 33, 5 })); });
}

void attention() {
    add("SOFT_MAX", "f32", "plain", [=](Graph & g) { return ggml_soft_max(g.c, g.f({ 67, 5, 3 }, -5, 5)); });
    add("SOFT_MAX", "f32", "scaled", [=](Graph & g) { return ggml_soft_max_ext(g.c, g.f({ 67, 5, 3 }, -5, 5), nullptr, 0.125f, 0); });
    for (auto type : { GGML_TYPE_F32, GGML_TYPE_F16 }) {
        add("SOFT_MAX", "f32", std::string("mask ") + type_name(type), [=](Graph & g) { T a = g.f({ 64, 5, 4, 2 }, -5, 5); return ggml_soft_max_ext(g.c, a, g.mask(type, { 64, 7, 1, 2 }), 0.125f, 0); });
        add("SOFT_MAX", "f32", std::string("alibi ") + type_name(type), [=](Graph & g) { T a = g.f({ 33, 5, 12 }, -5, 5); return ggml_soft_max_ext(g.c, a, g.mask(type, { 33, 5 }), 0.25f, 8); });
        add("SOFT_MAX", "f32", std::string("sinks ") + type_name(type), [=](Graph & g) {
            T a = g.f({ 33, 5, 4 }, -5, 5);
            T s = ggml_soft_max_ext(g.c, a, g.mask(type, { 33, 5 }), 0.25f, 0);
            ggml_soft_max_add_sinks(s, g.f({ 4 }, -3, 3));
            return s;
        });
    }
    add("SOFT_MAX", "f32", "inplace", [=](Graph & g) { return ggml_soft_max_inplace(g.c, g.f({ 67, 5 }, -5, 5)); });
    add("SOFT_MAX_BACK", "f32", "33x5", [=](Graph & g) { T a = g.f({ 33, 5 }); return ggml_soft_max_ext_back(g.c, a, g.f({ 33, 5 }, 0, 0.1f), 0.5f, 0); });
    for (auto type : { GGML_TYPE_F32, GGML_TYPE_F16 }) {
        const struct { const char * name; int mode; } modes[] = { { "normal", GGML_ROPE_TYPE_NORMAL }, { "neox", GGML_ROPE_TYPE_NEOX } };
        for (auto & m : modes) {
            const int mode = m.mode;
            const std::string n = m.name;
            add("ROPE", type_name(type), n, [=](Graph & g) { T a = g.in(type, { 64, 4, 7 }); return ggml_rope(g.c, a, g.index({ 7 }, 500), 64, mode); });
            add("ROPE", type_name(type), n + " partial", [=](Graph & g) { T a = g.in(type, { 80, 3, 5, 2 }); return ggml_rope(g.c, a, g.index({ 5 }, 500), 32, mode); });
            add("ROPE", type_name(type), n + " base 500000", [=](Graph & g) { T a = g.in(type, { 128, 2, 5 }); return ggml_rope_ext(g.c, a, g.index({ 5 }, 3000), nullptr, 128, mode, 8192, 500000, 1, 0, 1, 32, 1); });
            add("ROPE", type_name(type), n + " factors", [=](Graph & g) { T a = g.in(type, { 64, 4, 7 }); T p = g.index({ 7 }, 500); return ggml_rope_ext(g.c, a, p, g.f({ 32 }, 0.5f, 8), 64, mode, 4096, 10000, 1, 0, 1, 0, 0); });
            add("ROPE", type_name(type), n + " yarn", [=](Graph & g) { T a = g.in(type, { 64, 4, 7 }); return ggml_rope_ext(g.c, a, g.index({ 7 }, 9000), nullptr, 64, mode, 4096, 10000, 0.25f, 1, 1.1f, 32, 1); });
            add("ROPE", type_name(type), n + " offset", [=](Graph & g) { T a = g.in(type, { 64, 4, 7 }); return ggml_rope_set_offset(ggml_rope(g.c, a, g.index({ 7 }, 500), 32, mode), 16); });
            add("ROPE", type_name(type), n + " view", [=](Graph & g) { T a = g.in(type, { 192, 4, 7 }); T v = ggml_view_3d(g.c, a, 64, 4, 7, a->nb[1], a->nb[2], 64 * a->nb[0]); return ggml_rope(g.c, v, g.index({ 7 }, 500), 64, mode); });
            add("ROPE_BACK", type_name(type), n, [=](Graph & g) { T a = g.in(type, { 64, 4, 7 }); return ggml_rope_ext_back(g.c, a, g.index({ 7 }, 500), nullptr, 64, mode, 4096, 10000, 1, 0, 1, 32, 1); });
        }
        for (int mode : { GGML_ROPE_TYPE_MROPE, GGML_ROPE_TYPE_IMROPE, GGML_ROPE_TYPE_VISION }) {
            add("ROPE", type_name(type), "multi " + std::to_string(mode), [=](Graph & g) {
                int s[4] = { 16, 8, 8, 0 };
                T a = g.in(type, { 64, 4, 7 });
                return ggml_rope_multi(g.c, a, g.index({ 28 }, 500), nullptr, mode == GGML_ROPE_TYPE_VISION ? 32 : 64, s, mode, 4096, 10000, 1, 0, 1, 32, 1);
            });
        }
    }
    struct Attention { int64_t k, v, heads, kv_heads, n, kv, batch; bool mask; float bias, cap; bool sinks; };
    const Attention list[] = {
        { 64, 64, 4, 4, 5, 33, 1, true, 0, 0, false }, { 64, 64, 8, 2, 1, 70, 1, true, 0, 0, false }, { 40, 40, 4, 4, 3, 17, 2, false, 0, 0, false }, { 128, 96, 4, 1, 4, 50, 1, true, 8, 0, false },
        { 64, 64, 4, 4, 5, 33, 1, true, 0, 30, false }, { 64, 64, 4, 2, 6, 40, 1, true, 0, 0, true }, { 80, 80, 2, 2, 70, 90, 1, true, 0, 0, false }, { 128, 128, 8, 2, 3, 300, 1, true, 0, 0, false },
    };
    for (auto type : { GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_BF16, GGML_TYPE_F8_E4M3, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0 }) {
        for (auto & s : list) {
            if (ggml_blck_size(type) > 1 && (s.k % 32 != 0 || s.v % 32 != 0)) {
                continue;
            }
            add("FLASH_ATTN_EXT", type_name(type), std::to_string(s.k) + "/" + std::to_string(s.v) + " h" + std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + " n" + std::to_string(s.n) + " kv" + std::to_string(s.kv) +
                    (s.bias != 0 ? " alibi" : "") + (s.cap != 0 ? " softcap" : "") + (s.sinks ? " sinks" : "") + (s.mask ? "" : " no mask"), [=](Graph & g) {
                T q = g.f({ s.k, s.n, s.heads, s.batch }), k = g.in(type, { s.k, s.kv, s.kv_heads, s.batch }), v = g.in(type, { s.v, s.kv, s.kv_heads, s.batch });
                T m = s.mask ? g.mask(GGML_TYPE_F16, { s.kv, s.n }) : nullptr;
                T r = ggml_flash_attn_ext(g.c, q, k, v, m, 1.0f / std::sqrt((float) s.k), s.bias, s.cap);
                ggml_prec_set_acc(r, GGML_PREC_F32);
                if (s.sinks) {
                    ggml_flash_attn_ext_add_sinks(r, g.f({ s.heads }, -2, 2));
                }
                return r;
            });
        }
        add("FLASH_ATTN_EXT", type_name(type), "permuted", [=](Graph & g) {
            T q = ggml_permute(g.c, g.f({ 64, 4, 5 }), 0, 2, 1, 3), k = ggml_permute(g.c, g.in(type, { 64, 4, 32 }), 0, 2, 1, 3), v = ggml_permute(g.c, g.in(type, { 64, 4, 32 }), 0, 2, 1, 3);
            return ggml_flash_attn_ext(g.c, q, k, v, g.mask(GGML_TYPE_F16, { 32, 5 }), 0.125f, 0, 0);
        });
    }
    add("DIAG_MASK_INF", "f32", "9x7", [=](Graph & g) { return ggml_diag_mask_inf(g.c, g.f({ 9, 7, 2 }), 2); });
    add("DIAG_MASK_ZERO", "f32", "9x7", [=](Graph & g) { return ggml_diag_mask_zero(g.c, g.f({ 9, 7, 2 }), 2); });
    add("TRI", "f32", "lower", [=](Graph & g) { return ggml_tri(g.c, g.f({ 9, 9, 2 }), GGML_TRI_TYPE_LOWER_DIAG); });
    add("DIAG", "f32", "9", [=](Graph & g) { return ggml_diag(g.c, g.f({ 9, 1, 2 })); });
}

void rearrangements() {
    for (auto type : { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_I32 }) {
        auto in = [=](Graph & g, std::vector<int64_t> ne) { return type == GGML_TYPE_I32 ? g.index(ne, 1000) : g.in(type, ne); };
        for (int dim = 0; dim < 4; dim++) {
            add("CONCAT", type_name(type), "dim " + std::to_string(dim), [=](Graph & g) {
                std::vector<int64_t> a = { 7, 5, 3, 2 }, b = a;
                b[(size_t) dim] += 2;
                T x = in(g, a);
                return ggml_concat(g.c, x, in(g, b), dim);
            });
        }
        add("CONCAT", type_name(type), "permuted", [=](Graph & g) { T a = ggml_permute(g.c, in(g, { 7, 3, 5 }), 0, 2, 1, 3); return ggml_concat(g.c, a, in(g, { 7, 5, 4 }), 2); });
        add("REPEAT", type_name(type), "8x3x2", [=](Graph & g) { return ggml_repeat_4d(g.c, in(g, { 8, 3, 1 }), 16, 3, 5, 2); });
    }
    add("REPEAT_BACK", "f32", "16x6", [=](Graph & g) { T a = g.f({ 16, 6, 2 }); return ggml_repeat_back(g.c, a, g.f({ 8, 3 })); });
    for (auto ne : { std::vector<int64_t>{ 9, 5 }, { 257, 3 }, { 1, 4 }, { 1000, 2, 2 } }) {
        add("ARGSORT", "f32", shape(ne) + " asc", [=](Graph & g) { return ggml_argsort(g.c, g.index(ne, 5000, true, GGML_TYPE_F32), GGML_SORT_ORDER_ASC); });
        add("ARGSORT", "f32", shape(ne) + " desc", [=](Graph & g) { return ggml_argsort(g.c, g.index(ne, 5000, true, GGML_TYPE_F32), GGML_SORT_ORDER_DESC); });
        if (ne.size() == 2) {
            add("ARGMAX", "f32", shape(ne), [=](Graph & g) { return ggml_argmax(g.c, g.f(ne)); });
        }
    }
    add("TOP_K", "f32", "7 of 100, values", [=](Graph & g) { // the order is not promised: the sorted values are
        T a = g.f({ 100, 3 });
        T k = ggml_top_k(g.c, a, 7);
        T v = ggml_get_rows(g.c, ggml_reshape_3d(g.c, a, 1, 100, 3), k);
        return ggml_sum_rows(g.c, ggml_reshape_2d(g.c, v, 7, 3));
    });
    add("ARGSORT", "f32", "top 5 of 64", [=](Graph & g) { return ggml_argsort_top_k(g.c, g.f({ 64, 3 }), 5); });
    add("COUNT_EQUAL", "i32", "50x4", [=](Graph & g) { T a = g.index({ 50, 4 }, 3); return ggml_count_equal(g.c, a, g.index({ 50, 4 }, 3)); });
    for (auto type : { GGML_TYPE_F16, GGML_TYPE_F32 }) {
        add("IM2COL", type_name(type), "2d", [=](Graph & g) { T a = g.in(GGML_TYPE_F16, { 3, 3, 2, 4 }); return ggml_im2col(g.c, a, g.f({ 12, 10, 2, 2 }), 1, 2, 1, 0, 1, 2, true, type); });
        add("IM2COL", type_name(type), "1d", [=](Graph & g) { T a = g.in(GGML_TYPE_F16, { 3, 4, 5 }); return ggml_im2col(g.c, a, g.f({ 20, 4, 2 }), 2, 0, 1, 0, 1, 0, false, type); });
        add("CONV_2D", type_name(type), "3x3", [=](Graph & g) { T a = g.in(type, { 3, 3, 2, 4 }); return ggml_conv_2d(g.c, a, g.f({ 12, 10, 2, 2 }), 1, 1, 1, 1, 1, 1); });
        add("CONV_1D", type_name(type), "3", [=](Graph & g) { T a = g.in(type, { 3, 4, 5 }); return ggml_conv_1d(g.c, a, g.f({ 20, 4 }), 1, 1, 1); });
    }
    for (auto op : { GGML_OP_POOL_MAX, GGML_OP_POOL_AVG }) {
        const std::string n = op == GGML_OP_POOL_MAX ? "max" : "avg";
        add("POOL_1D", "f32", n, [=](Graph & g) { return ggml_pool_1d(g.c, g.f({ 20, 4 }), op, 4, 4, 0); });
        add("POOL_2D", "f32", n, [=](Graph & g) { return ggml_pool_2d(g.c, g.f({ 12, 10, 3 }), op, 3, 2, 2, 2, 1, 0); });
    }
    add("PAD", "f32", "ends", [=](Graph & g) { return ggml_pad(g.c, g.f({ 12, 5, 2 }), 3, 2, 1, 1); });
    add("PAD", "f32", "both sides", [=](Graph & g) { return ggml_pad_ext(g.c, g.f({ 12, 5, 2 }), 1, 2, 3, 0, 1, 1, 0, 2); });
    add("PAD_REFLECT_1D", "f32", "2,3", [=](Graph & g) { return ggml_pad_reflect_1d(g.c, g.f({ 12, 5 }), 2, 3); });
    add("ROLL", "f32", "3,-1", [=](Graph & g) { return ggml_roll(g.c, g.f({ 12, 5, 4 }), 3, -1, 2, 0); });
    add("UPSCALE", "f32", "nearest", [=](Graph & g) { return ggml_upscale(g.c, g.f({ 6, 5, 2 }), 2, GGML_SCALE_MODE_NEAREST); });
    add("UPSCALE", "f32", "bilinear", [=](Graph & g) { return ggml_interpolate(g.c, g.f({ 6, 5, 2 }), 13, 9, 2, 1, GGML_SCALE_MODE_BILINEAR); });
    add("CROSS_ENTROPY_LOSS", "f32", "33x5", [=](Graph & g) { T a = g.f({ 33, 5 }, -3, 3); return ggml_cross_entropy_loss(g.c, a, g.f({ 33, 5 }, 0, 0.06f)); });
    add("SSM_CONV", "f32", "9x6", [=](Graph & g) { T a = g.f({ 9, 6, 2 }); return ggml_ssm_conv(g.c, a, g.f({ 4, 6 })); });
}

// Convolutions, windows, recurrences, training: ops of few models.
void rarities() {
    for (auto type : { GGML_TYPE_F32, GGML_TYPE_F16 }) {
        const char * n = type_name(type);
        add("CONV_2D", n, "direct", [=](Graph & g) { T a = g.in(type, { 3, 2, 4, 5 }); return ggml_conv_2d_direct(g.c, a, g.f({ 12, 10, 4, 2 }), 1, 2, 1, 0, 2, 1); });
        add("CONV_3D", n, "direct", [=](Graph & g) { T a = g.in(type, { 3, 2, 2, 3 * 4 }); return ggml_conv_3d_direct(g.c, a, g.f({ 8, 7, 5, 3 * 2 }), 1, 2, 1, 1, 0, 1, 1, 2, 1, 3, 2, 4); });
        add("CONV_2D_DW", n, "direct", [=](Graph & g) { T a = g.in(type, { 3, 3, 1, 6 }); return ggml_conv_2d_dw_direct(g.c, a, g.f({ 12, 10, 6, 2 }), 2, 1, 1, 1, 1, 2); });
        add("CONV_TRANSPOSE_1D", n, "stride 2", [=](Graph & g) { T a = g.in(type, { 5, 3, 4 }); return ggml_conv_transpose_1d(g.c, a, g.f({ 9, 4 }), 2, 0, 1); });
        add("CONV_TRANSPOSE_2D", n, "stride 2", [=](Graph & g) { T a = g.in(type, { 3, 2, 4, 5 }); return ggml_conv_transpose_2d_p0(g.c, a, g.f({ 6, 5, 5, 2 }), 2); });
        add("IM2COL_3D", n, "3x2x2", [=](Graph & g) { T a = g.in(GGML_TYPE_F16, { 3, 2, 2, 3 * 4 }); return ggml_im2col_3d(g.c, a, g.f({ 8, 7, 5, 3 * 2 }), 3, 1, 2, 1, 1, 0, 1, 1, 2, 1, type); });
        add("COL2IM_1D", n, "stride 3", [=](Graph & g) { return ggml_col2im_1d(g.c, g.in(type, { 5 * 4, 7 }), 3, 4, 1); });
    }
    static int64_t image[4] = { 12, 10, 2, 2 }, line[4] = { 20, 4, 2, 1 };
    add("IM2COL_BACK", "f32", "2d", [=](Graph & g) { T a = g.f({ 18, 12, 4, 2 }); return ggml_im2col_back(g.c, a, g.f({ 3, 3, 2, 4 }), image, 1, 2, 1, 0, 1, 2, true); });
    add("IM2COL_BACK", "f32", "1d", [=](Graph & g) { T a = g.f({ 12, 10, 2 }); return ggml_im2col_back(g.c, a, g.f({ 3, 4, 5 }), line, 2, 0, 1, 0, 1, 0, false); });
    for (auto op : { GGML_OP_POOL_MAX, GGML_OP_POOL_AVG }) {
        add("POOL_2D_BACK", "f32", op == GGML_OP_POOL_MAX ? "max" : "avg", [=](Graph & g) { T a = g.f({ 6, 4, 3 }); return ggml_pool_2d_back(g.c, a, g.f({ 12, 10, 3 }), op, 3, 2, 2, 2, 1, 0); });
    }
    add("UPSCALE", "f32", "bicubic", [=](Graph & g) { return ggml_interpolate(g.c, g.f({ 6, 5, 2 }), 13, 9, 2, 1, GGML_SCALE_MODE_BICUBIC); });
    add("UPSCALE", "f32", "corners", [=](Graph & g) { return ggml_interpolate(g.c, g.f({ 6, 5, 2 }), 13, 9, 2, 1, GGML_SCALE_MODE_BILINEAR | GGML_SCALE_FLAG_ALIGN_CORNERS); });
    add("UPSCALE", "f32", "smaller", [=](Graph & g) { return ggml_interpolate(g.c, g.f({ 16, 15, 2 }), 7, 6, 2, 1, GGML_SCALE_MODE_BILINEAR | GGML_SCALE_FLAG_ANTIALIAS); });
    add("WIN_PART", "f32", "4", [=](Graph & g) { return ggml_win_part(g.c, g.f({ 3, 10, 9 }), 4); });
    add("WIN_UNPART", "f32", "4", [=](Graph & g) { return ggml_win_unpart(g.c, g.f({ 3, 4, 4, 9 }), 10, 9, 4); });
    add("GET_REL_POS", "f16", "5", [=](Graph & g) { return ggml_get_rel_pos(g.c, g.in(GGML_TYPE_F16, { 8, 9 }), 5, 5); });
    add("ADD_REL_POS", "f32", "4", [=](Graph & g) { T a = g.f({ 16, 16, 3 }); T b = g.f({ 4, 4, 4, 3 }); return ggml_add_rel_pos(g.c, a, b, g.f({ 4, 4, 4, 3 })); });
    add("SSM_SCAN", "f32", "mamba", [=](Graph & g) { T s = g.f({ 16, 1, 12, 3 }); T x = g.f({ 1, 12, 5, 2 }); T dt = g.f({ 12, 5, 2 }); T a = g.f({ 16, 12 }, -1, 0); T b = g.f({ 16, 1, 5, 2 }); T c = g.f({ 16, 1, 5, 2 }); return ggml_ssm_scan(g.c, s, x, dt, a, b, c, g.index({ 2 }, 3, true), 1); });
    for (int64_t kept : { 1, 3 }) {
        add("SSM_SCAN", "f32", "mamba-2, " + std::to_string(kept), [=](Graph & g) { T s = g.f({ 32, 8, 4, 3 }); T x = g.f({ 8, 4, 5, 2 }); T dt = g.f({ 4, 5, 2 }); T a = g.f({ 1, 4 }, -1, 0); T b = g.f({ 32, 2, 5, 2 }); T c = g.f({ 32, 2, 5, 2 }); return ggml_ssm_scan(g.c, s, x, dt, a, b, c, g.index({ 2 }, 3, true), kept); });
        for (int64_t gate : { 1, 16 }) {
            add("GATED_DELTA_NET", "f32", std::to_string(kept) + ", gates " + std::to_string(gate), [=](Graph & g) { T q = g.f({ 16, 2, 5, 2 }); T k = g.f({ 16, 2, 5, 2 }); T v = g.f({ 16, 4, 5, 2 }); T gg = g.f({ gate, 4, 5, 2 }, -1, 0); T beta = g.f({ 1, 4, 5, 2 }, 0, 1); return ggml_gated_delta_net(g.c, q, k, v, gg, beta, g.f({ 16, 16, 4, 2 }), kept); });
        }
    }
    const std::vector<int64_t> h = { 64, 2, 6 };
    add("RWKV_WKV6", "f32", "64x2", [=](Graph & g) { T k = g.f(h); T v = g.f(h); T r = g.f(h); T tf = g.f({ 64, 2 }); T td = g.f(h, 0, 1); return ggml_rwkv_wkv6(g.c, k, v, r, tf, td, g.f({ 64 * 64 * 2, 2 })); });
    add("RWKV_WKV7", "f32", "64x2", [=](Graph & g) { T r = g.f(h); T w = g.f(h, 0, 1); T k = g.f(h); T v = g.f(h); T a = g.f(h, -0.2f, 0.2f); T b = g.f(h, -0.2f, 0.2f); return ggml_rwkv_wkv7(g.c, r, w, k, v, a, b, g.f({ 64 * 64 * 2, 2 })); });
    add("GATED_LINEAR_ATTN", "f32", "64x2", [=](Graph & g) { T k = g.f(h); T v = g.f(h); T q = g.f(h); T gg = g.f(h, 0, 1); return ggml_gated_linear_attn(g.c, k, v, q, gg, g.f({ 64 * 64 * 2, 2 }), 0.25f); });
    add("LIGHTNING_INDEXER", "f16", "64x4", [=](Graph & g) { T q = g.f({ 64, 4, 3, 2 }); T k = g.in(GGML_TYPE_F16, { 64, 1, 20, 2 }); T w = g.f({ 4, 3, 1, 2 }); return ggml_lightning_indexer(g.c, q, k, w, g.mask(GGML_TYPE_F16, { 20, 3, 1, 1 })); });
    add("DSV4_HC_COMB", "f32", "5", [=](Graph & g) { T m = g.f({ 24, 5 }); T s = g.f({ 3 }, 0.5f, 1); return ggml_dsv4_hc_comb(g.c, m, s, g.f({ 24 }), 1e-6f, 4); });
    add("DSV4_HC_PRE", "f32", "5", [=](Graph & g) { T x = g.f({ 33, 4, 5 }); return ggml_dsv4_hc_pre(g.c, x, g.f({ 4, 5 })); });
    add("DSV4_HC_PRE", "f32", "gated", [=](Graph & g) { T x = g.f({ 33, 4, 5 }); return ggml_dsv4_hc_pre_gated(g.c, x, g.f({ 33, 4, 5 }), 0.5f); });
    add("DSV4_HC_POST", "f32", "5", [=](Graph & g) { T x = g.f({ 33, 5 }); T r = g.f({ 33, 4, 5 }); T p = g.f({ 4, 5 }); return ggml_dsv4_hc_post(g.c, x, r, p, g.f({ 4, 4, 5 })); });
    add("SOLVE_TRI", "f32", "9x4", [=](Graph & g) { T a = g.f({ 9, 9, 2 }, 0.5f, 1); return ggml_solve_tri(g.c, a, g.f({ 4, 9, 2 }), true, true, false); });
    for (auto type : { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0 }) {
        add("OUT_PROD", type_name(type), "64x5", [=](Graph & g) { T a = g.in(type, { 64, 5, 2 }); return ggml_out_prod(g.c, a, g.f({ 7, 5, 2 })); });
    }
    add("SOFT_MAX_BACK", "f32", "33x5", [=](Graph & g) { T a = g.f({ 33, 5 }); return ggml_soft_max_ext_back(g.c, a, g.f({ 33, 5 }, 0, 0.06f), 0.5f, 0); });
    add("CROSS_ENTROPY_LOSS_BACK", "f32", "33x5", [=](Graph & g) { T a = g.f({ 1 }); T b = g.f({ 33, 5 }, -3, 3); return ggml_cross_entropy_loss_back(g.c, a, b, g.f({ 33, 5 }, 0, 0.06f)); });
}

// A step of AdamW or of gradient descent on a parameter of its own.
T step(Graph & g, const std::vector<int64_t> & ne, bool adam) {
    T a = g.f(ne);
    ggml_set_param(a);
    T grad = g.f(ne);
    if (!adam) { return ggml_opt_step_sgd(g.c, a, grad, g.f({ 2 }, 0.01f, 0.2f)); }
    T m = g.f(ne), v = g.f(ne, 0.0f, 1.0f);
    return ggml_opt_step_adamw(g.c, a, grad, m, v, g.f({ 7 }, 0.1f, 0.9f));
}

// The gradient of attention. Its constructor aborts, so this makes the node that it would make.
T flash_attn_back(Graph & g, int64_t d, int64_t n, int64_t m, int64_t heads, int64_t groups, int64_t batches, bool masked) {
    T q = g.f({ d, n, heads, batches }), k = g.f({ d, m, groups, batches }), v = g.f({ m, d, groups, batches });
    T dy = g.f({ d, n, heads, batches });
    int64_t all = 0;
    for (T t : { q, k, v }) { all += (ggml_nelements(t) + 3) / 4 * 4; }
    T t = ggml_new_tensor_1d(g.c, GGML_TYPE_F32, all);
    t->op = GGML_OP_FLASH_ATTN_BACK;
    t->op_params[0] = masked;
    t->src[0] = q; t->src[1] = k; t->src[2] = v; t->src[3] = dy;
    return t;
}

// the same operations with odd sizes, other strides, permuted sources, other formats
void rarities_at_the_edges() {
    for (auto type : { GGML_TYPE_F32, GGML_TYPE_F16 }) {
        const char * n = type_name(type);
        add("CONV_2D", n, "direct, 1x1", [=](Graph & g) { T a = g.in(type, { 1, 1, 3, 2 }); return ggml_conv_2d_direct(g.c, a, g.f({ 5, 4, 3, 1 }), 1, 1, 0, 0, 1, 1); });
        add("CONV_2D", n, "direct, far apart", [=](Graph & g) { T a = g.in(type, { 3, 2, 5, 7 }); return ggml_conv_2d_direct(g.c, a, g.f({ 13, 9, 5, 3 }), 2, 3, 5, 2, 3, 2); });
        add("CONV_2D", n, "direct, permuted", [=](Graph & g) { T a = g.in(type, { 3, 3, 4, 5 }); return ggml_conv_2d_direct(g.c, a, ggml_permute(g.c, g.f({ 4, 11, 6, 2 }), 2, 0, 1, 3), 1, 1, 1, 1, 1, 1); });
        add("CONV_3D", n, "direct, one batch", [=](Graph & g) { T a = g.in(type, { 2, 3, 3, 5 * 2 }); return ggml_conv_3d_direct(g.c, a, g.f({ 9, 5, 7, 5 }), 2, 1, 2, 1, 2, 0, 1, 1, 2, 5, 1, 2); });
        add("CONV_2D_DW", n, "channels innermost", [=](Graph & g) {
            T x = g.f({ 12, 10, 19, 2 }), a = g.in(type, { 3, 2, 1, 19 });
            x = ggml_permute(g.c, ggml_cont(g.c, ggml_permute(g.c, x, 1, 2, 0, 3)), 2, 0, 1, 3);
            a = ggml_permute(g.c, ggml_cont(g.c, ggml_permute(g.c, a, 2, 3, 1, 0)), 3, 2, 0, 1);
            return ggml_cont(g.c, ggml_conv_2d_dw_direct(g.c, a, x, 1, 2, 1, 1, 2, 1));
        });
        for (int stride : { 1, 3, 7 }) {
            const std::string by = "stride " + std::to_string(stride);
            add("CONV_TRANSPOSE_1D", n, by + ", 33 channels", [=](Graph & g) { T a = g.in(type, { 4, 5, 33 }); return ggml_conv_transpose_1d(g.c, a, g.f({ 17, 33 }), stride, 0, 1); });
            add("CONV_TRANSPOSE_2D", n, by, [=](Graph & g) { T a = g.in(type, { 2, 4, 3, 9 }); return ggml_conv_transpose_2d_p0(g.c, a, g.f({ 7, 5, 9, 3 }), stride); });
        }
        add("IM2COL_3D", n, "far apart", [=](Graph & g) { T a = g.in(GGML_TYPE_F16, { 2, 3, 2, 2 * 3 }); return ggml_im2col_3d(g.c, a, g.f({ 9, 8, 7, 2 * 5 }), 2, 2, 3, 1, 3, 1, 2, 3, 2, 1, type); });
    }
    for (auto type : { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16 }) {
        for (int pad : { 0, 2 }) {
            add("COL2IM_1D", type_name(type), "pad " + std::to_string(pad), [=](Graph & g) { return ggml_col2im_1d(g.c, g.in(type, { 7 * 3, 11 }), 2, 3, pad); });
            add("COL2IM_1D", type_name(type), "steps apart, pad " + std::to_string(pad), [=](Graph & g) { return ggml_col2im_1d(g.c, g.in(type, { 2, 11 }), 5, 1, pad); });
        }
    }
    static int64_t image[4] = { 13, 9, 5, 3 };
    add("IM2COL_BACK", "f32", "far apart", [=](Graph & g) { T k = g.f({ 3, 2, 5, 4 }); T c = ggml_im2col(g.c, k, g.f({ 13, 9, 5, 3 }), 2, 3, 5, 2, 3, 2, true, GGML_TYPE_F32); return ggml_im2col_back(g.c, c, k, image, 2, 3, 5, 2, 3, 2, true); });
    for (auto op : { GGML_OP_POOL_MAX, GGML_OP_POOL_AVG }) {
        add("POOL_2D_BACK", "f32", op == GGML_OP_POOL_MAX ? "max, batches" : "avg, batches", [=](Graph & g) { T a = g.f({ 11, 4, 3, 2 }); return ggml_pool_2d_back(g.c, a, g.f({ 11, 7, 3, 2 }), op, 3, 2, 1, 2, 1, 1); });
    }
    add("WIN_PART", "f32", "larger than the image", [=](Graph & g) { return ggml_win_part(g.c, g.f({ 5, 3, 2 }), 7); });
    add("WIN_UNPART", "f32", "whole windows", [=](Graph & g) { return ggml_win_unpart(g.c, g.f({ 5, 4, 4, 6 }), 12, 8, 4); });
    add("GET_REL_POS", "bf16", "3", [=](Graph & g) { return ggml_get_rel_pos(g.c, g.in(GGML_TYPE_BF16, { 5, 5 }), 3, 3); });
    add("ADD_REL_POS", "f32", "in place", [=](Graph & g) { T a = g.f({ 25, 12, 2 }); T b = g.f({ 5, 3, 4, 2 }); return ggml_add_rel_pos_inplace(g.c, a, b, g.f({ 5, 3, 4, 2 })); });
    add("SSM_CONV", "f32", "70 channels", [=](Graph & g) { T a = g.f({ 12, 70, 3 }); return ggml_ssm_conv(g.c, a, g.f({ 4, 70 })); });
    add("SSM_CONV", "f32", "one token", [=](Graph & g) { T a = g.f({ 3, 33, 2 }); return ggml_ssm_conv(g.c, a, g.f({ 3, 33 })); });
    for (int64_t n : { 1, 7, 128 }) {
        add("SSM_SCAN", "f32", "views, state " + std::to_string(n), [=](Graph & g) {
            // inputs and weights are parts of wider rows, as a model has them
            T s = g.f({ n, 5, 6, 4 }), wide = g.f({ 5 * 6 + 4 * n, 3, 2 });
            const size_t f = sizeof(float);
            T x = ggml_view_4d(g.c, wide, 5, 6, 3, 2, 5 * f, wide->nb[1], wide->nb[2], 0);
            T b = ggml_view_4d(g.c, wide, n, 2, 3, 2, n * f, wide->nb[1], wide->nb[2], 30 * f);
            T c = ggml_view_4d(g.c, wide, n, 2, 3, 2, n * f, wide->nb[1], wide->nb[2], (30 + 2 * n) * f);
            T dt = g.f({ 6, 3, 2 }, -30, 30), a = g.f({ 1, 6 }, -1, 0);
            return ggml_ssm_scan(g.c, s, x, dt, a, b, c, g.index({ 2 }, 4, true), 2);
        });
    }
    for (int64_t n : { 64, 128 }) {
        const std::vector<int64_t> h = { n, 3, 4 };
        const std::string name = std::to_string(n) + "x3";
        add("RWKV_WKV7", "f32", name, [=](Graph & g) { T r = g.f(h); T w = g.f(h, 0, 1); T k = g.f(h); T v = g.f(h); T a = g.f(h, -0.1f, 0.1f); T b = g.f(h, -0.1f, 0.1f); return ggml_rwkv_wkv7(g.c, r, w, k, v, a, b, g.f({ n * n * 3, 1 })); });
        add("GATED_DELTA_NET", "f32", name + ", permuted", [=](Graph & g) {
            T q = ggml_permute(g.c, g.f({ n, 4, 1, 2 }), 0, 2, 1, 3), k = ggml_permute(g.c, g.f({ n, 4, 1, 2 }, -0.1f, 0.1f), 0, 2, 1, 3);
            T v = ggml_permute(g.c, g.f({ n, 4, 3, 2 }), 0, 2, 1, 3), gate = g.f({ 1, 3, 4, 2 }, -1, 0), beta = g.f({ 1, 3, 4, 2 }, 0, 1);
            return ggml_gated_delta_net(g.c, q, k, v, gate, beta, g.f({ n, n, 3, 2 }), 1);
        });
    }
    for (int64_t n : { 1, 7, 33 }) {
        const std::vector<int64_t> h = { n, 5, 6 };
        const std::string name = std::to_string(n) + "x5";
        add("RWKV_WKV6", "f32", name, [=](Graph & g) { T k = g.f(h); T v = g.f(h); T r = g.f(h); T tf = g.f({ n, 5 }); T td = g.f(h, 0, 1); return ggml_rwkv_wkv6(g.c, k, v, r, tf, td, g.f({ n * n * 5, 3 })); });
        add("GATED_LINEAR_ATTN", "f32", name, [=](Graph & g) { T k = g.f(h); T v = g.f(h); T q = g.f(h); T gg = g.f(h, 0, 1); return ggml_gated_linear_attn(g.c, k, v, q, gg, g.f({ n * n * 5, 3 }), 0.25f); });
        add("GATED_DELTA_NET", "f32", name, [=](Graph & g) { T q = g.f({ n, 5, 3, 1 }); T k = g.f({ n, 5, 3, 1 }, -0.2f, 0.2f); T v = g.f({ n, 5, 3, 2 }); T gg = g.f({ n, 5, 3, 2 }, -1, 0); T beta = g.f({ 1, 5, 3, 2 }, 0, 1); return ggml_gated_delta_net(g.c, q, k, v, gg, beta, g.f({ n, n, 5, 2 }), 3); });
    }
    for (auto type : { GGML_TYPE_F32, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0 }) {
        add("LIGHTNING_INDEXER", type_name(type), "32x5", [=](Graph & g) { T q = g.f({ 32, 5, 4, 2 }); T k = g.in(type, { 32, 1, 37, 2 }); T w = g.f({ 5, 4, 1, 2 }); return ggml_lightning_indexer(g.c, q, k, w, g.mask(GGML_TYPE_F16, { 37, 4, 1, 2 })); });
    }
    for (int n : { 1, 20 }) {
        add("DSV4_HC_COMB", "f32", std::to_string(n) + " iterations", [=](Graph & g) { T m = g.f({ 24, 9 }, -4, 4); T s = g.f({ 3 }, 0.5f, 2); return ggml_dsv4_hc_comb(g.c, m, s, g.f({ 24 }), 1e-6f, n); });
    }
    add("DSV4_HC_PRE", "f32", "permuted", [=](Graph & g) { T x = ggml_permute(g.c, g.f({ 3, 70, 5 }), 1, 0, 2, 3); return ggml_dsv4_hc_pre(g.c, x, g.f({ 3, 5 })); });
    add("DSV4_HC_POST", "f32", "unmixed", [=](Graph & g) { T x = g.f({ 70, 5 }); T r = g.f({ 70, 3, 5 }); return ggml_dsv4_hc_post(g.c, x, r, g.f({ 3, 5 }), nullptr); });
    for (int64_t n : { 1, 33, 64 }) {
        add("SOLVE_TRI", "f32", std::to_string(n) + " equations", [=](Graph & g) {
            T a = ggml_add(g.c, ggml_scale(g.c, g.f({ n, n, 2, 3 }), 0.5f / n), ggml_repeat(g.c, ggml_diag(g.c, g.f({ n, 1 }, 1, 2)), g.f({ n, n, 2, 3 })));
            return ggml_solve_tri(g.c, a, g.f({ 7, n, 2, 3 }), true, true, false);
        });
    }
    add("OUT_PROD", "f32", "transposed", [=](Graph & g) { T a = g.f({ 33, 9 }); return ggml_out_prod(g.c, a, ggml_transpose(g.c, g.f({ 9, 17 }))); });
    add("OUT_PROD", "f32", "repeated", [=](Graph & g) { T a = g.f({ 33, 9, 2, 1 }); return ggml_out_prod(g.c, a, g.f({ 17, 9, 4, 3 })); });
    for (auto type : { GGML_TYPE_Q8_0, GGML_TYPE_Q4_K }) {
        add("OUT_PROD", type_name(type), "256x5", [=](Graph & g) { T a = g.in(type, { 256, 5, 2 }); return ggml_out_prod(g.c, a, g.f({ 7, 5, 2 })); });
    }
    for (int64_t n : { 1, 1000 }) {
        const std::string name = std::to_string(n) + "x7";
        add("CROSS_ENTROPY_LOSS", "f32", name, [=](Graph & g) { T a = g.f({ n, 7 }, -20, 20); return ggml_cross_entropy_loss(g.c, a, g.f({ n, 7 }, 0, 1)); });
        add("CROSS_ENTROPY_LOSS_BACK", "f32", name, [=](Graph & g) { T a = g.f({ 1 }, 1, 2); T b = g.f({ n, 7 }, -20, 20); return ggml_cross_entropy_loss_back(g.c, a, b, g.f({ n, 7 }, 0, 1)); });
        add("OPT_STEP_ADAMW", "f32", name, [=](Graph & g) { return step(g, { n, 7 }, true); });
        add("OPT_STEP_SGD", "f32", name, [=](Graph & g) { return step(g, { n, 7 }, false); });
    }
    for (bool masked : { false, true }) {
        const std::string name = masked ? "masked, " : "";
        add("FLASH_ATTN_BACK", "f32", name + "5x3", [=](Graph & g) { return flash_attn_back(g, 5, 3, 7, 4, 2, 1, masked); });
        add("FLASH_ATTN_BACK", "f32", name + "64x9", [=](Graph & g) { return flash_attn_back(g, 64, 9, 33, 3, 3, 2, masked); });
        add("FLASH_ATTN_BACK", "f32", name + "1x1", [=](Graph & g) { return flash_attn_back(g, 1, 1, 1, 1, 1, 1, masked); });
    }
}

#include "grid.h"
#include "recent.h"

// ---- running ----

void set_data(const Graph::Input & in, uint64_t seed) {
    T t = in.t;
    const size_t n = (size_t) ggml_nelements(t);
    uint64_t s = seed;
    if (in.below > 0) {
        std::vector<int64_t> v(n);
        const size_t row = (size_t) t->ne[0];
        for (size_t i = 0; i < n; i++) {
            v[i] = (int64_t) (data_next(&s) % (uint64_t) in.below);
            for (size_t k = i / row * row; in.distinct && k < i;) { // distinct in its row
                if (v[k] == v[i]) { v[i] = (v[i] + 1) % in.below; k = i / row * row; } else { k++; }
            }
        }
        for (size_t i = 0; in.gaps && i < n; i++) {
            if (data_next(&s) % 3 == 0) { v[i] = -1; }
        }
        if (t->type == GGML_TYPE_I64) {
            ggml_backend_tensor_set(t, v.data(), 0, n * 8);
        } else if (t->type == GGML_TYPE_F32) {
            std::vector<float> w(v.begin(), v.end());
            ggml_backend_tensor_set(t, w.data(), 0, n * 4);
        } else {
            std::vector<int32_t> w(v.begin(), v.end());
            ggml_backend_tensor_set(t, w.data(), 0, n * 4);
        }
        return;
    }
    if (ggml_is_quantized(t->type)) {
        std::vector<uint8_t> bytes(ggml_nbytes(t));
        data_blocks(t->type, bytes.data(), bytes.size(), seed);
        ggml_backend_tensor_set(t, bytes.data(), 0, bytes.size());
        return;
    }
    std::vector<float> v(n);
    for (auto & x : v) {
        x = data_float(&s, in.lo, in.hi);
        if (in.mask) { x = data_next(&s) % 3 == 0 ? -INFINITY : x > 0.5f ? x : 0.0f; }
    }
    if (in.mask) { // no row may exclude everything
        for (size_t i = 0; i < n; i += (size_t) t->ne[0]) { v[i] = 0; }
    }
    if (t->type == GGML_TYPE_F16) {
        std::vector<ggml_fp16_t> h(n);
        ggml_fp32_to_fp16_row(v.data(), h.data(), (int64_t) n);
        ggml_backend_tensor_set(t, h.data(), 0, n * 2);
    } else if (t->type == GGML_TYPE_BF16) {
        std::vector<ggml_bf16_t> b(n);
        ggml_fp32_to_bf16_row(v.data(), b.data(), (int64_t) n);
        ggml_backend_tensor_set(t, b.data(), 0, n * 2);
    } else if (t->type == GGML_TYPE_F8_E4M3) {
        std::vector<uint8_t> b(n);
        ggml_get_type_traits(t->type)->from_float_ref(v.data(), b.data(), (int64_t) n);
        ggml_backend_tensor_set(t, b.data(), 0, n);
    } else {
        ggml_backend_tensor_set(t, v.data(), 0, n * 4);
    }
}

struct Header {
    int32_t status, type;
    int64_t ne[4];
    int64_t n;
};

constexpr size_t ROOM = 16u << 20; // shared with the child: Header, then the values

void run(const Case & test, int threads, char * shared) {
    auto * head = new (shared) Header{ FAILED, 0, { 0, 0, 0, 0 }, 0 };
    ggml_init_params params = { 1u << 20, nullptr, true };
    Graph g{ ggml_init(params), {} };
    T out = test.build(g);
    head->type = out->type;
    std::memcpy(head->ne, out->ne, sizeof head->ne);
    ggml_cgraph * graph = ggml_new_graph(g.c);
    ggml_build_forward_expand(graph, out);
    ggml_backend_t backend = ggml_backend_cpu_init(); // not by the registry: it would look for devices in every child
    if (backend == nullptr) {
        return;
    }
    ggml_backend_cpu_set_n_threads(backend, threads);
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        if (!ggml_backend_supports_op(backend, ggml_graph_node(graph, i))) {
            head->status = UNSUPPORTED;
            return;
        }
    }
    if (ggml_backend_alloc_ctx_tensors(g.c, backend) == nullptr) {
        return;
    }
    uint64_t seed = data_hash(test.name.data(), test.name.size(), DATA_HASH0);
    for (auto & in : g.inputs) {
        set_data(in, seed++);
    }
    if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) {
        return;
    }
    // Copies and writes into a view are compared in all of the memory that they write to.
    T whole = out->view_src != nullptr && ggml_is_contiguous(out->view_src) ? out->view_src : out;
    std::vector<uint8_t> bytes(ggml_nbytes(whole));
    ggml_backend_tensor_get(whole, bytes.data(), 0, bytes.size());
    const int64_t n = ggml_nelements(whole);
    auto * values = (float *) (shared + sizeof(Header));
    if ((size_t) n * 4 + sizeof(Header) > ROOM) {
        return;
    }
    head->n = n;
    switch ((int) whole->type) {
        case GGML_TYPE_F32: std::memcpy(values, bytes.data(), (size_t) n * 4); break;
        case GGML_TYPE_I32: for (int64_t i = 0; i < n; i++) { int32_t x; std::memcpy(&x, &bytes[(size_t) i * 4], 4); values[i] = (float) x; } break;
        case GGML_TYPE_I64: for (int64_t i = 0; i < n; i++) { int64_t x; std::memcpy(&x, &bytes[(size_t) i * 8], 8); values[i] = (float) x; } break;
        default: ggml_get_type_traits(whole->type)->to_float(bytes.data(), values, n);
    }
    head->status = OK;
}

} // namespace

int main(int argc, char ** argv) {
    const char * path = nullptr, * part = nullptr;
    int  threads = 2, sample = 1;
    bool loud = false;
    for (int i = 1; i < argc; i++) {
        if (std::strcmp(argv[i], "-t") == 0 && i + 1 < argc) { threads = std::atoi(argv[++i]); }
        else if (std::strcmp(argv[i], "-k") == 0 && i + 1 < argc) { part = argv[++i]; }
        else if (std::strcmp(argv[i], "-s") == 0 && i + 1 < argc) { sample = std::max(1, std::atoi(argv[++i])); }
        else if (std::strcmp(argv[i], "-r") == 0) { reference = true; }
        else if (std::strcmp(argv[i], "-v") == 0) { loud = true; }
        else { path = argv[i]; }
    }
    if (path == nullptr) {
        std::fprintf(stderr, "usage: ops OUT.bin [-t THREADS] [-k NAME_PART] [-s N] [-r] [-v]\n");
        return 2;
    }
    ggml_cpu_init();
    elementwise();
    norms();
    products();
    attention();
    rearrangements();
    rarities();
    rarities_at_the_edges();
    grid_maps();
    grid_pairs();
    grid_weights();
    recent();
    std::FILE * out = std::fopen(path, "wb");
    char * shared = (char *) mmap(nullptr, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (out == nullptr || shared == MAP_FAILED) {
        std::perror(path);
        return 1;
    }
    int counts[4] = { 0, 0, 0, 0 };
    std::fwrite("GGMLOPS1", 1, 8, out);
    for (auto & test : cases) {
        if (part != nullptr && test.name.find(part) == std::string::npos) {
            continue;
        }
        if (test.name.find("|grid ") != std::string::npos && data_hash(test.name.data(), test.name.size(), DATA_HASH0) / 7 % (uint64_t) sample != 0) {
            continue;
        }
        std::memset(shared, 0, sizeof(Header));
        ((Header *) shared)->status = CRASHED;
        std::fflush(nullptr); // or the child would write the buffered text again
        const pid_t pid = fork();
        if (pid == 0) {
            const rlimit none = { 0, 0 };
            setrlimit(RLIMIT_CORE, &none);
            alarm(60);
            if (!loud) {
                ggml_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
                if (std::freopen("/dev/null", "w", stderr) == nullptr) { _exit(1); }
            }
            run(test, threads, shared);
            _exit(0);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        auto * head = (Header *) shared;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            head->status = CRASHED;
            head->n = 0;
        }
        counts[head->status]++;
        if (loud || head->status >= CRASHED) {
            std::printf("%s: %s\n", test.name.c_str(), head->status == OK ? "computed" : head->status == UNSUPPORTED ? "unsupported" : head->status == CRASHED ? "CRASHED" : "FAILED");
        }
        const auto len = (uint32_t) test.name.size();
        std::fwrite(&len, 4, 1, out);
        std::fwrite(test.name.data(), 1, len, out);
        std::fwrite(head, sizeof *head, 1, out);
        std::fwrite(shared + sizeof *head, 4, (size_t) head->n, out);
    }
    const bool written = std::fclose(out) == 0;
    std::printf("%d computed, %d unsupported, %d crashed, %d failed\n", counts[OK], counts[UNSUPPORTED], counts[CRASHED], counts[FAILED]);
    return written ? 0 : 1;
}
