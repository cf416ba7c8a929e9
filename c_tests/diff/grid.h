// The grid: every operation that takes tensors of any layout, on every type, over shapes of up to four dimensions (one
// element, odd sizes, no rows at all) and layouts of its sources (dense, a slice of wider rows, every other row,
// permuted, transposed), in place too. If the original cannot compute a case, it ends the process; the comparison only
// lists the case.
//
// Some of the original's kernels ignore the strides of other layouts than a dense one, and compute something else (see
// `misread`). With the option -r, the original gets a dense copy there: its result for that is what the operation
// means.
#pragma once

bool reference = false; // -r

// Whether the original's kernel of this operation ignores the strides of the layout.
bool misread(const std::string & op, int layout) {
    if (op == "SUM" || op == "MEAN" || op == "GET_ROWS") { return layout == 5; }
    return layout != 0 && (op == "CLAMP" || op == "LEAKY_RELU" || op == "ARGSORT" || op == "POOL_1D" || op == "POOL_2D");
}

T as_meant(Graph & g, const std::string & op, int layout, T t) { return reference && misread(op, layout) ? ggml_cont(g.c, t) : t; }

using Shape = std::vector<int64_t>;

const char * const layouts[] = { "dense", "slice", "steps", "permuted", "reversed", "transposed" };
constexpr int      LAYOUTS   = 6;

// A tensor of a shape (four numbers) that is in memory as the layout says.
T lay(Graph & g, ggml_type type, const Shape & ne, int layout, float lo = -1, float hi = 1) {
    const int64_t block = ggml_blck_size(type);
    switch (layout) {
        case 1: {
            T a = g.in(type, { ne[0] + 2 * block, ne[1] + 1, ne[2], ne[3] }, lo, hi);
            return ggml_view_4d(g.c, a, ne[0], ne[1], ne[2], ne[3], a->nb[1], a->nb[2], a->nb[3], a->nb[1] + a->nb[0]);
        }
        case 2: {
            T a = g.in(type, { ne[0], 2 * ne[1], ne[2], ne[3] }, lo, hi);
            return ggml_view_4d(g.c, a, ne[0], ne[1], ne[2], ne[3], 2 * a->nb[1], a->nb[2], a->nb[3], 0);
        }
        case 3: return ggml_permute(g.c, g.in(type, { ne[0], ne[2], ne[1], ne[3] }, lo, hi), 0, 2, 1, 3);
        case 4: return ggml_permute(g.c, g.in(type, { ne[0], ne[3], ne[2], ne[1] }, lo, hi), 0, 3, 2, 1);
        case 5: return ggml_permute(g.c, g.in(type, { ne[1], ne[0], ne[2], ne[3] }, lo, hi), 1, 0, 2, 3);
        default: return g.in(type, ne, lo, hi);
    }
}

// If the tensor is empty, adds an input of one element, because there must be something to allocate.
T some(Graph & g, T t) {
    if (ggml_nelements(t) == 0) { g.f({ 1 }); }
    return t;
}

struct Map {
    const char *                  op, * details;
    std::function<T(Graph &, T)>  make;
    float                         lo, hi;
    bool                          floats16; // halves and brain floats too
};

std::vector<Map> maps() {
    std::vector<Map> all = {
        { "SQR", "", [](Graph & g, T a) { return ggml_sqr(g.c, a); }, -3, 3, true },
        { "SQRT", "", [](Graph & g, T a) { return ggml_sqrt(g.c, a); }, 0, 5, true },
        { "LOG", "", [](Graph & g, T a) { return ggml_log(g.c, a); }, 0.01f, 5, true },
        { "SIN", "", [](Graph & g, T a) { return ggml_sin(g.c, a); }, -6, 6, true },
        { "COS", "", [](Graph & g, T a) { return ggml_cos(g.c, a); }, -6, 6, true },
        { "SCALE", "", [](Graph & g, T a) { return ggml_scale_bias(g.c, a, 0.37f, 0.5f); }, -3, 3, false },
        { "SCALE", " in place", [](Graph & g, T a) { return ggml_scale_inplace(g.c, a, 0.37f); }, -3, 3, false },
        { "CLAMP", "", [](Graph & g, T a) { return ggml_clamp(g.c, a, -0.5f, 0.25f); }, -1, 1, true },
        { "LEAKY_RELU", "", [](Graph & g, T a) { return ggml_leaky_relu(g.c, a, 0.1f, false); }, -1, 1, true },
        { "FILL", "", [](Graph & g, T a) { return ggml_fill(g.c, a, 1.5f); }, -1, 1, true },
        { "DUP", "", [](Graph & g, T a) { return ggml_dup(g.c, a); }, -1, 1, true },
        { "CONT", "", [](Graph & g, T a) { return ggml_cont(g.c, a); }, -1, 1, true },
        { "SUM", "", [](Graph & g, T a) { return ggml_sum(g.c, a); }, -1, 1, true },
        { "SUM_ROWS", "", [](Graph & g, T a) { return ggml_sum_rows(g.c, a); }, -1, 1, true },
        { "MEAN", "", [](Graph & g, T a) { return ggml_mean(g.c, a); }, -1, 1, true },
        { "CUMSUM", "", [](Graph & g, T a) { return ggml_cumsum(g.c, a); }, -1, 1, false },
        { "ARGSORT", "", [](Graph & g, T a) { return ggml_argsort(g.c, a, GGML_SORT_ORDER_DESC); }, -1, 1, false },
        { "TRI", "", [](Graph & g, T a) { return ggml_tri(g.c, a, GGML_TRI_TYPE_LOWER); }, -1, 1, false },
        { "NORM", "", [](Graph & g, T a) { return ggml_norm(g.c, a, 1e-5f); }, -2, 3, false },
        { "RMS_NORM", "", [](Graph & g, T a) { return ggml_rms_norm(g.c, a, 1e-6f); }, -2, 3, false },
        { "RMS_NORM", " in place", [](Graph & g, T a) { return ggml_rms_norm_inplace(g.c, a, 1e-6f); }, -2, 3, false },
        { "L2_NORM", "", [](Graph & g, T a) { return ggml_l2_norm(g.c, a, 1e-6f); }, -2, 3, false },
        { "SOFT_MAX", "", [](Graph & g, T a) { return ggml_soft_max(g.c, a); }, -5, 5, false },
        { "SOFT_MAX", " in place", [](Graph & g, T a) { return ggml_soft_max_inplace(g.c, a); }, -5, 5, false },
        { "REPEAT", "", [](Graph & g, T a) { return ggml_repeat_4d(g.c, a, a->ne[0] * 2, a->ne[1] * 3, a->ne[2], a->ne[3] * 2); }, -1, 1, true },
        { "PAD", "", [](Graph & g, T a) { return ggml_pad_ext(g.c, a, 1, 2, 0, 3, 1, 0, 0, 1); }, -1, 1, false },
        { "PAD", " circular", [](Graph & g, T a) { return ggml_pad_circular(g.c, a, 2, 1, 0, 0); }, -1, 1, false },
        { "PAD_REFLECT_1D", "", [](Graph & g, T a) { return ggml_pad_reflect_1d(g.c, a, (int) a->ne[0] - 1, (int) a->ne[0] / 2); }, -1, 1, false },
        { "ROLL", "", [](Graph & g, T a) { return ggml_roll(g.c, a, 3, -1, 1, 2); }, -1, 1, false },
        { "UPSCALE", " nearest", [](Graph & g, T a) { return ggml_interpolate(g.c, a, a->ne[0] * 2, a->ne[1] * 3, a->ne[2], a->ne[3], GGML_SCALE_MODE_NEAREST); }, -1, 1, false },
        { "UPSCALE", " bilinear", [](Graph & g, T a) { return ggml_interpolate(g.c, a, a->ne[0] * 2 + 1, a->ne[1] + 2, a->ne[2], a->ne[3], GGML_SCALE_MODE_BILINEAR); }, -1, 1, false },
        { "UPSCALE", " bicubic", [](Graph & g, T a) { return ggml_interpolate(g.c, a, a->ne[0] * 2 + 1, a->ne[1] + 2, a->ne[2], a->ne[3], GGML_SCALE_MODE_BICUBIC); }, -1, 1, false },
        { "DIAG_MASK_INF", "", [](Graph & g, T a) { return ggml_diag_mask_inf(g.c, a, 1); }, -1, 1, false },
        { "DIAG_MASK_ZERO", "", [](Graph & g, T a) { return ggml_diag_mask_zero(g.c, a, 2); }, -1, 1, false },
        { "POOL_1D", "", [](Graph & g, T a) { return ggml_pool_1d(g.c, a, GGML_OP_POOL_AVG, 2, 2, 0); }, -1, 1, false },
        { "POOL_2D", "", [](Graph & g, T a) { return ggml_pool_2d(g.c, a, GGML_OP_POOL_MAX, 2, 2, 1, 2, 1, 0); }, -1, 1, false },
        { "GROUP_NORM", "", [](Graph & g, T a) { return ggml_group_norm(g.c, a, 2, 1e-6f); }, -2, 3, false },
    };
    for (int u = 0; u < GGML_UNARY_OP_COUNT; u++) {
        if (u == GGML_UNARY_OP_XIELU) { continue; } // takes parameters
        all.push_back({ "UNARY", ggml_unary_op_name((ggml_unary_op) u), [u](Graph & g, T a) { return ggml_unary(g.c, a, (ggml_unary_op) u); }, -8, 8, true });
    }
    for (int u = 0; u < GGML_GLU_OP_COUNT; u++) {
        if (u == GGML_GLU_OP_SWIGLU_OAI || u == GGML_GLU_OP_SWIGLU_CLAMP) { continue; }
        all.push_back({ "GLU", ggml_glu_op_name((ggml_glu_op) u), [u](Graph & g, T a) { return ggml_glu(g.c, a, (ggml_glu_op) u, false); }, -6, 6, true });
    }
    return all;
}

void grid_maps() {
    const Shape shapes[] = { { 1, 1, 1, 1 }, { 34, 5, 1, 1 }, { 6, 3, 4, 2 }, { 130, 2, 1, 3 }, { 32, 0, 2, 1 } };
    for (auto & m : maps()) {
        for (auto type : floats) {
            if (type != GGML_TYPE_F32 && !m.floats16) { continue; }
            for (auto & ne : shapes) {
                // Positions between rows of an image without rows: the original reads out of bounds, and the library
                // refuses.
                if (ne[1] == 0 && std::string(m.op) == "UPSCALE" && std::string(m.details) != " nearest") { continue; }
                for (int l = 0; l < LAYOUTS; l++) {
                    add(m.op, type_name(type), std::string("grid ") + layouts[l] + " " + shape(ne) + m.details, [=](Graph & g) { return some(g, m.make(g, as_meant(g, m.op, l, lay(g, type, ne, l, m.lo, m.hi)))); });
                }
            }
        }
    }
}

void grid_pairs() {
    using Binary = T (*)(ggml_context *, T, T);
    const struct { const char * op, * details; Binary make; } ops[] = {
        { "ADD", "", ggml_add }, { "SUB", "", ggml_sub }, { "MUL", "", ggml_mul }, { "DIV", "", ggml_div },
        { "ADD", " in place", ggml_add_inplace }, { "SUB", " in place", ggml_sub_inplace }, { "MUL", " in place", ggml_mul_inplace }, { "DIV", " in place", ggml_div_inplace },
    };
    const std::pair<Shape, Shape> shapes[] = {
        { { 1, 1, 1, 1 }, { 1, 1, 1, 1 } }, { { 33, 5, 2, 3 }, { 33, 5, 2, 3 } }, { { 33, 4, 2, 6 }, { 33, 1, 2, 3 } }, { { 33, 4, 2, 6 }, { 1, 4, 1, 1 } }, { { 34, 4, 2, 1 }, { 17, 2, 1, 1 } },
        { { 16, 0, 2, 1 }, { 16, 1, 1, 1 } },
    };
    for (auto & op : ops) {
        for (auto types : { std::pair<ggml_type, ggml_type>{ GGML_TYPE_F32, GGML_TYPE_F32 }, { GGML_TYPE_F16, GGML_TYPE_F16 }, { GGML_TYPE_F16, GGML_TYPE_F32 }, { GGML_TYPE_BF16, GGML_TYPE_BF16 }, { GGML_TYPE_BF16, GGML_TYPE_F32 } }) {
            for (auto & ne : shapes) {
                for (int l = 0; l < LAYOUTS; l++) {
                    for (int r : { 0, 1, 3, 5 }) {
                        if (types.first != GGML_TYPE_F32 && l != 0 && r != 0) { continue; }
                        add(op.op, type_name(types.first), std::string("grid ") + layouts[l] + " " + shape(ne.first) + ", " + type_name(types.second) + " " + layouts[r] + " " + shape(ne.second) + op.details,
                            [=](Graph & g) { T a = lay(g, types.first, ne.first, l); return some(g, op.make(g.c, a, lay(g, types.second, ne.second, r, 0.5f, 2))); });
                    }
                }
            }
        }
    }
    for (auto type : { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K }) {
        for (int dim = 0; dim < 4; dim++) {
            for (int l = 0; l < (ggml_is_quantized(type) ? 5 : 6); l++) {
                Shape a = { 256, 3, 2, 2 }, b = a;
                b[(size_t) dim] *= 2;
                add("CONCAT", type_name(type), std::string("grid ") + layouts[l] + " along " + std::to_string(dim), [=](Graph & g) { T x = lay(g, type, a, l); return ggml_concat(g.c, x, lay(g, type, b, dim == 3 ? 0 : l), dim); });
            }
        }
    }
    for (int l = 0; l < LAYOUTS; l++) {
        for (auto kind : { GGML_TYPE_F32, GGML_TYPE_F16 }) {
            for (float bias : { 0.0f, 8.0f }) {
                for (bool sinks : { false, true }) {
                    add("SOFT_MAX", "f32", std::string("grid ") + layouts[l] + ", mask " + type_name(kind) + (bias > 0 ? ", slopes" : "") + (sinks ? ", sinks" : ""), [=](Graph & g) {
                        T a = lay(g, GGML_TYPE_F32, { 37, 5, 6, 2 }, l, -5, 5);
                        T t = ggml_soft_max_ext(g.c, a, g.mask(kind, { 37, 5, 2, 1 }), 0.3f, bias);
                        if (sinks) { ggml_soft_max_add_sinks(t, g.f({ 6 })); }
                        return t;
                    });
                }
            }
        }
    }
    for (auto type : { GGML_TYPE_F32, GGML_TYPE_F16 }) {
        for (int mode : { GGML_ROPE_TYPE_NORMAL, GGML_ROPE_TYPE_NEOX, GGML_ROPE_TYPE_MROPE, GGML_ROPE_TYPE_IMROPE, GGML_ROPE_TYPE_VISION }) {
            for (int l = 0; l < LAYOUTS; l++) {
                for (int64_t tokens : { 1, 5 }) {
                    for (bool yarn : { false, true }) {
                        for (bool back : { false, true }) {
                            add(back ? "ROPE_BACK" : "ROPE", type_name(type), std::string("grid ") + layouts[l] + " mode " + std::to_string(mode) + ", " + std::to_string(tokens) + " tokens" + (yarn ? ", yarn and factors" : ""), [=](Graph & g) {
                                T a = lay(g, type, { 32, 3, tokens, 2 }, l);
                                const bool many = (mode & GGML_ROPE_TYPE_MROPE) != 0;
                                const int  n    = mode == GGML_ROPE_TYPE_VISION ? 16 : yarn ? 20 : 32;
                                T pos = g.index({ tokens * (many ? 4 : 1) }, 100), factors = yarn ? g.f({ 16 }, 0.5f, 2) : nullptr;
                                int sections[4] = { 4, 3, 5, 4 };
                                if (many) {
                                    return back ? ggml_rope_multi_back(g.c, a, pos, factors, n, sections, mode, 64, 10000, 0.7f, yarn ? 1.0f : 0.0f, 1.1f, 32, 1) : ggml_rope_multi(g.c, a, pos, factors, n, sections, mode, 64, 10000, 0.7f, yarn ? 1.0f : 0.0f, 1.1f, 32, 1);
                                }
                                return back ? ggml_rope_ext_back(g.c, a, pos, factors, n, mode, 64, 10000, 0.7f, yarn ? 1.0f : 0.0f, 1.1f, 32, 1) : ggml_rope_ext(g.c, a, pos, factors, n, mode, 64, 10000, 0.7f, yarn ? 1.0f : 0.0f, 1.1f, 32, 1);
                            });
                        }
                    }
                }
            }
        }
    }
}

void grid_weights() {
    auto all = [](std::function<void(ggml_type)> use) {
        for (auto t : floats) { use(t); }
        for (auto t : weights) { use(t); }
    };
    all([](ggml_type type) {
        const bool quantized = ggml_is_quantized(type);
        const std::pair<Shape, Shape> products[] = {
            { { 256, 33, 1, 1 }, { 256, 1, 1, 1 } }, { { 512, 1, 1, 1 }, { 512, 37, 1, 1 } }, { { 256, 9, 2, 1 }, { 256, 3, 4, 3 } }, { { 512, 17, 1, 2 }, { 512, 8, 1, 2 } }, { { 256, 5, 1, 1 }, { 256, 0, 1, 1 } },
        };
        for (auto & ne : products) {
            for (int l = 0; l < 5; l++) {
                for (int r : { 0, 1, 3, 5 }) {
                    add("MUL_MAT", type_name(type), std::string("grid ") + layouts[l] + " " + shape(ne.first) + ", " + layouts[r] + " " + shape(ne.second),
                        [=](Graph & g) { T a = lay(g, type, ne.first, l); return some(g, ggml_mul_mat(g.c, a, lay(g, GGML_TYPE_F32, ne.second, r))); });
                }
            }
        }
        for (int l = 0; l < (quantized ? 5 : 6); l++) {
            const std::string name = std::string("grid ") + layouts[l];
            add("GET_ROWS", type_name(type), name, [=](Graph & g) { T a = as_meant(g, "GET_ROWS", l, lay(g, type, { 256, 7, 3, 2 }, l)); return ggml_get_rows(g.c, a, g.index({ 5, 3, 2 }, 7)); });
            add("GET_ROWS", type_name(type), name + ", no rows", [=](Graph & g) { T a = as_meant(g, "GET_ROWS", l, lay(g, type, { 256, 7, 1, 1 }, l)); return ggml_get_rows(g.c, a, g.index({ 0 }, 7)); });
            add("CPY", type_name(type), name + " to f32", [=](Graph & g) { return ggml_cast(g.c, lay(g, type, { 256, 3, 4, 2 }, l), GGML_TYPE_F32); });
            add("CPY", type_name(type), name + " to itself", [=](Graph & g) { return ggml_cast(g.c, lay(g, type, { 256, 3, 4, 2 }, l), type); });
            add("CONT", type_name(type), name, [=](Graph & g) { return ggml_cont(g.c, lay(g, type, { 256, 3, 4, 2 }, l)); });
            add("DUP", type_name(type), name, [=](Graph & g) { return ggml_dup(g.c, lay(g, type, { 256, 3, 4, 2 }, l)); });
            add("OUT_PROD", type_name(type), name, [=](Graph & g) { T a = lay(g, type, { 256, 5, 2, 1 }, l); return ggml_out_prod(g.c, a, g.f({ 9, 5, 4, 3 })); });
            for (auto from : floats) {
                add("CPY", type_name(type), std::string("grid from ") + type_name(from) + " " + layouts[l], [=](Graph & g) { return ggml_cast(g.c, lay(g, from, { 256, 3, 4, 2 }, l), type); });
                add("SET_ROWS", type_name(type), std::string("grid from ") + type_name(from) + " " + layouts[l], [=](Graph & g) { T a = lay(g, type, { 256, 9, 4, 2 }, 0); T b = lay(g, from, { 256, 5, 4, 2 }, l); return ggml_set_rows(g.c, a, b, g.index({ 5, 2, 1 }, 9, true, GGML_TYPE_I64)); });
            }
        }
        if (!quantized) {
            for (auto & ne : { std::pair<Shape, Shape>{ { 1, 3, 1, 1 }, { 1, 4, 1, 1 } }, { { 37, 5, 2, 1 }, { 37, 6, 4, 1 } }, { { 70, 33, 1, 1 }, { 70, 13, 2, 2 } } }) {
                for (int l : { 0, 1, 3 }) {
                    for (int r = 0; r < LAYOUTS; r++) {
                        add("MUL_MAT", type_name(type), std::string("grid ") + layouts[l] + " " + shape(ne.first) + ", " + layouts[r] + " " + shape(ne.second), [=](Graph & g) { T a = lay(g, type, ne.first, l); return ggml_mul_mat(g.c, a, lay(g, GGML_TYPE_F32, ne.second, r)); });
                    }
                }
            }
        }
    });
    for (auto type : { GGML_TYPE_F32, GGML_TYPE_I32 }) {
        add("CPY", type_name(type), "grid i32 and f32", [=](Graph & g) { return ggml_cast(g.c, g.index({ 33, 5 }, 1000, false, type == GGML_TYPE_F32 ? GGML_TYPE_I32 : GGML_TYPE_F32), type); });
    }
    for (int l = 0; l < LAYOUTS; l++) {
        add("CONT", "i32", std::string("grid ") + layouts[l], [=](Graph & g) {
            T a = g.index({ 6, 4, 3, 2 }, 1000);
            const int64_t ne[4] = { 6, 4, 3, 2 };
            switch (l) {
                case 1: return ggml_cont(g.c, ggml_view_4d(g.c, a, ne[0] - 2, ne[1] - 1, ne[2], ne[3], a->nb[1], a->nb[2], a->nb[3], a->nb[1] + a->nb[0]));
                case 2: return ggml_cont(g.c, ggml_view_4d(g.c, a, ne[0], ne[1] / 2, ne[2], ne[3], 2 * a->nb[1], a->nb[2], a->nb[3], 0));
                case 3: return ggml_cont(g.c, ggml_permute(g.c, a, 0, 2, 1, 3));
                case 4: return ggml_cont(g.c, ggml_permute(g.c, a, 0, 3, 2, 1));
                case 5: return ggml_cont(g.c, ggml_transpose(g.c, a));
                default: return ggml_cont(g.c, a);
            }
        });
    }
}
