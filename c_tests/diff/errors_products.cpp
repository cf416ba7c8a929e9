// Products of matrices, attention, convolutions and other sums of products, for errors.cpp.
#include "errors.h"

namespace errors {

static void mul_mat(const char * format, ggml_type type, int64_t k, int64_t rows, int64_t columns, const std::vector<Class> & classes) {
    add("MUL_MAT " + std::string(format) + ", " + std::to_string(k) + " x " + std::to_string(columns), { { type, { k, rows }, Role::weight, false, false, 0 }, f32({ k, columns }) },
        [](ggml_context * c, const std::vector<T> & x) { return ggml_mul_mat(c, x[0], x[1]); }, [=](const std::vector<V> & x) {
            V y((size_t) (rows * columns));
            for (size_t i = 0; i < y.size(); i++) {
                const double *a = &x[0][i % (size_t) rows * (size_t) k], *b = &x[1][i / (size_t) rows * (size_t) k];
                for (size_t j = 0; j < (size_t) k; j++) { y[i] += a[j] * b[j]; }
            }
            return y;
        }, Kind::sum, classes);
}

static void products() {
    for (int64_t columns : { 1, 4, 40 }) {
        for (int64_t k : { 64, 128, 256, 1000, 4096 }) {
            mul_mat("f32", GGML_TYPE_F32, k, 300, columns, everything);
            if (k != 64) { mul_mat("f8_e4m3", GGML_TYPE_F8_E4M3, k, 300, columns, { Class::ordinary, Class::cancelling, Class::sigma20, Class::subnormal }); }
        }
        // The original rounds the columns to the format of the weights, which has no room for the other classes.
        for (int64_t k : { 256, 4096 }) {
            mul_mat("f16", GGML_TYPE_F16, k, 100, columns, { Class::ordinary, Class::cancelling, Class::sigma20 });
            mul_mat("bf16", GGML_TYPE_BF16, k, 100, columns, everything);
        }
    }
    mul_mat("f32", GGML_TYPE_F32, 1 << 20, 8, 1, long_ones);
    mul_mat("f32", GGML_TYPE_F32, 1 << 20, 8, 5, long_ones);
    add("MUL_MAT_ID f32", { f32({ 500, 40, 4 }, Role::weight), f32({ 500, 1, 30 }), index({ 2, 30 }, 4) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_mul_mat_id(c, x[0], x[1], x[2]); }, [](const std::vector<V> & x) {
        V y;
        for (size_t t = 0; t < 30; t++) {
            for (size_t e = 0; e < 2; e++) {
                for (size_t r = 0; r < 40; r++) {
                    double sum = 0;
                    for (size_t k = 0; k < 500; k++) { sum += x[0][((size_t) x[2][2 * t + e] * 40 + r) * 500 + k] * x[1][t * 500 + k]; }
                    y.push_back(sum);
                }
            }
        }
        return y;
    }, Kind::sum);
    for (int64_t k : { 64, 1000 }) {
        add("OUT_PROD, " + std::to_string(k), { f32({ 40, k }, Role::weight), f32({ 30, k }) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_out_prod(c, x[0], x[1]); }, [=](const std::vector<V> & x) {
            V y(1200);
            for (size_t j = 0; j < (size_t) k; j++) {
                for (size_t i = 0; i < 1200; i++) { y[i] += x[0][40 * j + i % 40] * x[1][30 * j + i / 40]; }
            }
            return y;
        }, Kind::sum);
    }
    // Well-conditioned: the classes are those of the right side.
    add("SOLVE_TRI", { f32({ 64, 64 }, Role::unit), f32({ 9, 64 }) }, [](ggml_context * c, const std::vector<T> & x) {
        T a = ggml_add(c, ggml_scale(c, x[0], 1.0f / 64), ggml_diag(c, ggml_scale_bias(c, ggml_view_2d(c, x[0], 64, 1, x[0]->nb[1], 0), 0.0f, 1.0f)));
        return ggml_solve_tri(c, a, x[1], true, true, false);
    }, [](const std::vector<V> & x) {
        V y(x[1]);
        for (size_t r = 0; r < 64; r++) {
            for (size_t c = 0; c < 9; c++) {
                double sum = 0;
                for (size_t k = 0; k < r; k++) { sum += x[0][64 * r + k] / 64 * y[9 * k + c]; }
                y[9 * r + c] = (y[9 * r + c] - sum) / (double) (float) (x[0][64 * r + r] / 64 + 1);
            }
        }
        return y;
    }, Kind::sum);
}

// As many heads of queries over two of keys and values, all of 64 numbers.
const size_t HEADS = 64;

// Attention of `queries` queries over `keys` keys.
static void attention(ggml_type type, const char * format, int64_t queries, int64_t keys, const std::vector<Class> & classes) {
    const Input cache{ type, { 64, keys, 2 }, Role::weight, false, false, 0 };
    add("FLASH_ATTN_EXT " + std::string(format) + ", " + std::to_string(queries) + " x " + std::to_string(keys), { f32({ 64, queries, HEADS }), cache, cache }, [](ggml_context * c, const std::vector<T> & x) {
        T y = ggml_flash_attn_ext(c, x[0], x[1], x[2], nullptr, 0.125f, 0, 0);
        ggml_prec_set_acc(y, GGML_PREC_F32);
        return y;
    }, [=](const std::vector<V> & x) {
        V y(64 * HEADS * (size_t) queries);
        for (size_t h = 0; h < HEADS; h++) {
            for (size_t q = 0; q < (size_t) queries; q++) {
                const size_t first = h / (HEADS / 2) * (size_t) keys;
                V s((size_t) keys);
                double top = -INFINITY, sum = 0;
                for (size_t k = 0; k < s.size(); k++) {
                    for (size_t i = 0; i < 64; i++) { s[k] += x[0][64 * (h * (size_t) queries + q) + i] * x[1][64 * (first + k) + i] * 0.125; }
                    top = std::max(top, s[k]);
                }
                for (auto & v : s) { sum += v = std::exp(v - top); }
                for (size_t k = 0; k < s.size(); k++) {
                    for (size_t i = 0; i < 64; i++) { y[64 * (HEADS * q + h) + i] += s[k] / sum * x[2][64 * (first + k) + i]; }
                }
            }
        }
        return y;
    }, Kind::sum, classes);
}

static void convolutions() {
    add("CONV_2D", { f32({ 3, 3, 16, 5 }, Role::weight), f32({ 12, 10, 16, 2 }) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_conv_2d_direct(c, x[0], x[1], 1, 1, 0, 0, 1, 1); }, [](const std::vector<V> & x) {
        V y;
        for (size_t b = 0; b < 2; b++) for (size_t o = 0; o < 5; o++) for (size_t i = 0; i < 8; i++) for (size_t j = 0; j < 10; j++) {
            double sum = 0;
            for (size_t c = 0; c < 16; c++) for (size_t u = 0; u < 3; u++) for (size_t v = 0; v < 3; v++) {
                sum += x[0][((o * 16 + c) * 3 + u) * 3 + v] * x[1][((b * 16 + c) * 10 + i + u) * 12 + j + v];
            }
            y.push_back(sum);
        }
        return y;
    }, Kind::sum);
    add("CONV_2D_DW", { f32({ 3, 3, 1, 16 }, Role::weight), f32({ 12, 10, 16, 2 }) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_conv_2d_dw_direct(c, x[0], x[1], 1, 1, 0, 0, 1, 1); }, [](const std::vector<V> & x) {
        V y;
        for (size_t b = 0; b < 2; b++) for (size_t c = 0; c < 16; c++) for (size_t i = 0; i < 8; i++) for (size_t j = 0; j < 10; j++) {
            double sum = 0;
            for (size_t u = 0; u < 3; u++) for (size_t v = 0; v < 3; v++) { sum += x[0][(c * 3 + u) * 3 + v] * x[1][((b * 16 + c) * 10 + i + u) * 12 + j + v]; }
            y.push_back(sum);
        }
        return y;
    }, Kind::sum);
    add("CONV_3D", { f32({ 3, 2, 2, 6 * 5 }, Role::weight), f32({ 7, 6, 5, 6 }) }, [](ggml_context * c, const std::vector<T> & x) {
        return ggml_conv_3d_direct(c, x[0], x[1], 1, 1, 1, 0, 0, 0, 1, 1, 1, 6, 1, 5);
    }, [](const std::vector<V> & x) {
        V y;
        for (size_t o = 0; o < 5; o++) for (size_t l = 0; l < 4; l++) for (size_t i = 0; i < 5; i++) for (size_t j = 0; j < 5; j++) {
            double sum = 0;
            for (size_t c = 0; c < 6; c++) for (size_t w = 0; w < 2; w++) for (size_t u = 0; u < 2; u++) for (size_t v = 0; v < 3; v++) {
                sum += x[0][(((o * 6 + c) * 2 + w) * 2 + u) * 3 + v] * x[1][((c * 5 + l + w) * 6 + i + u) * 7 + j + v];
            }
            y.push_back(sum);
        }
        return y;
    }, Kind::sum);
    add("CONV_TRANSPOSE_1D", { f32({ 4, 5, 33 }, Role::weight), f32({ 17, 33 }) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_conv_transpose_1d(c, x[0], x[1], 2, 0, 1); }, [](const std::vector<V> & x) {
        const size_t n = 16 * 2 + 4;
        V y(n * 5);
        for (size_t c = 0; c < 33; c++) for (size_t o = 0; o < 5; o++) for (size_t i = 0; i < 17; i++) for (size_t k = 0; k < 4; k++) { y[o * n + 2 * i + k] += x[0][(c * 5 + o) * 4 + k] * x[1][c * 17 + i]; }
        return y;
    }, Kind::sum);
    add("CONV_TRANSPOSE_2D", { { GGML_TYPE_F16, { 2, 4, 3, 9 }, Role::weight, false, false, 0 }, f32({ 7, 5, 9 }) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_conv_transpose_2d_p0(c, x[0], x[1], 2); }, [](const std::vector<V> & x) {
        const size_t w = 6 * 2 + 2, h = 4 * 2 + 4;
        V y(w * h * 3);
        for (size_t c = 0; c < 9; c++) for (size_t o = 0; o < 3; o++) for (size_t i = 0; i < 5; i++) for (size_t j = 0; j < 7; j++) for (size_t u = 0; u < 4; u++) for (size_t v = 0; v < 2; v++) {
            y[(o * h + 2 * i + u) * w + 2 * j + v] += x[0][((c * 3 + o) * 4 + u) * 2 + v] * x[1][(c * 5 + i) * 7 + j];
        }
        return y;
    }, Kind::sum, { Class::ordinary, Class::cancelling, Class::sigma20 });
    add("POOL_1D average", { f32({ 1000, 3 }) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_pool_1d(c, x[0], GGML_OP_POOL_AVG, 50, 50, 0); }, [](const std::vector<V> & x) {
        V y(60);
        for (size_t i = 0; i < 3000; i++) { y[i / 50] += x[0][i] / 50; }
        return y;
    }, Kind::sum);
    add("POOL_2D average", { f32({ 70, 70, 3 }) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_pool_2d(c, x[0], GGML_OP_POOL_AVG, 7, 7, 7, 7, 0, 0); }, [](const std::vector<V> & x) {
        V y(300);
        for (size_t i = 0; i < x[0].size(); i++) { y[i / 4900 * 100 + i / 490 % 10 * 10 + i % 70 / 7] += x[0][i] / 49; }
        return y;
    }, Kind::sum);
    add("POOL_2D_BACK average", { f32({ 10, 10, 3 }) }, [](ggml_context * c, const std::vector<T> & x) {
        return ggml_pool_2d_back(c, x[0], ggml_new_tensor_3d(c, GGML_TYPE_F32, 21, 21, 3), GGML_OP_POOL_AVG, 3, 3, 2, 2, 0, 0);
    }, [](const std::vector<V> & x) {
        V y(21 * 21 * 3);
        for (size_t c = 0; c < 3; c++) for (size_t i = 0; i < 10; i++) for (size_t j = 0; j < 10; j++) for (size_t u = 0; u < 3; u++) for (size_t v = 0; v < 3; v++) {
            y[(21 * c + 2 * i + u) * 21 + 2 * j + v] += x[0][(10 * c + i) * 10 + j] / 9;
        }
        return y;
    }, Kind::sum);
    add("COL2IM_1D", { f32({ 7 * 3, 11 }) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_col2im_1d(c, x[0], 2, 3, 0); }, [](const std::vector<V> & x) {
        V y(27 * 3);
        for (size_t t = 0; t < 11; t++) for (size_t o = 0; o < 3; o++) for (size_t k = 0; k < 7; k++) { y[27 * o + 2 * t + k] += x[0][21 * t + 7 * o + k]; }
        return y;
    }, Kind::sum);
    add("UPSCALE bilinear", { f32({ 16, 15, 2 }) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_interpolate(c, x[0], 32, 30, 2, 1, GGML_SCALE_MODE_BILINEAR); }, [](const std::vector<V> & x) {
        V y;
        for (size_t c = 0; c < 2; c++) for (size_t i = 0; i < 30; i++) for (size_t j = 0; j < 32; j++) {
            auto place = [](size_t i, size_t n, size_t & a, size_t & b) {
                const double at = std::max(0.0, ((double) i + 0.5) / 2 - 0.5);
                a = std::min((size_t) at, n - 1);
                b = std::min(a + 1, n - 1);
                return std::min(1.0, at - (double) a);
            };
            size_t u0, u1, v0, v1;
            const double u = place(i, 15, u0, u1), v = place(j, 16, v0, v1);
            auto at = [&](size_t u, size_t v) { return x[0][(c * 15 + u) * 16 + v]; };
            y.push_back((at(u0, v0) * (1 - v) + at(u0, v1) * v) * (1 - u) + (at(u1, v0) * (1 - v) + at(u1, v1) * v) * u);
        }
        return y;
    }, Kind::sum);
    add("IM2COL_BACK", { f32({ 9, 20 }) }, [](ggml_context * c, const std::vector<T> & x) {
        static int64_t line[4] = { 22, 3, 1, 1 };
        return ggml_im2col_back(c, x[0], ggml_new_tensor_3d(c, GGML_TYPE_F32, 3, 3, 1), line, 1, 0, 0, 0, 1, 0, false);
    }, [](const std::vector<V> & x) {
        V y(66);
        for (size_t i = 0; i < 20; i++) for (size_t c = 0; c < 3; c++) for (size_t k = 0; k < 3; k++) { y[22 * c + i + k] += x[0][9 * i + 3 * c + k]; }
        return y;
    }, Kind::sum);
}

static void rotations() {
    for (int mode : { GGML_ROPE_TYPE_NORMAL, GGML_ROPE_TYPE_NEOX }) {
        for (bool back : { false, true }) {
            add(std::string(back ? "ROPE_BACK" : "ROPE") + (mode == GGML_ROPE_TYPE_NEOX ? " neox" : ""), { f32({ 64, 4, 50 }), index({ 50 }, 4000) }, [=](ggml_context * c, const std::vector<T> & x) {
                return (back ? ggml_rope_ext_back : ggml_rope_ext)(c, x[0], x[1], nullptr, 64, mode, 4096, 10000, 1, 0, 1, 32, 1);
            }, [=](const std::vector<V> & x) {
                V y(x[0]);
                for (size_t r = 0; r < y.size() / 64; r++) for (size_t i = 0; i < 32; i++) {
                    const size_t a = 64 * r + (mode == GGML_ROPE_TYPE_NEOX ? i : 2 * i), b = a + (mode == GGML_ROPE_TYPE_NEOX ? 32 : 1);
                    const double angle = (back ? -1 : 1) * x[1][r / 4] * std::pow(10000.0, -2.0 * (double) i / 64);
                    y[a] = x[0][a] * std::cos(angle) - x[0][b] * std::sin(angle);
                    y[b] = x[0][a] * std::sin(angle) + x[0][b] * std::cos(angle);
                }
                return y;
            }, Kind::sum);
        }
    }
    add("TIMESTEP_EMBEDDING", { abs_of(f32({ 9 })) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_timestep_embedding(c, x[0], 32, 10000); }, [](const std::vector<V> & x) {
        V y;
        for (double t : x[0]) for (int i = 0; i < 32; i++) {
            const double angle = t * std::pow(10000.0, -(i % 16) / 16.0);
            y.push_back(i < 16 ? std::cos(angle) : std::sin(angle));
        }
        return y;
    }, Kind::sum, { Class::ordinary, Class::cancelling, Class::near_mean, Class::sigma20, Class::tiny, Class::subnormal });
}

void list_products() {
    products();
    // With the other classes, queries are so small that all scores are zero, or so large that all but the first are.
    const std::vector<Class> scores = { Class::ordinary, Class::cancelling, Class::near_mean, Class::sigma20, Class::tiny };
    for (int64_t queries : { 1, 40 }) {
        attention(GGML_TYPE_F32, "f32", queries, 300, scores);
        attention(GGML_TYPE_F16, "f16", queries, 300, scores);
    }
    attention(GGML_TYPE_F32, "f32", 1, 20000, scores);
    convolutions();
    rotations();
}

} // namespace errors
