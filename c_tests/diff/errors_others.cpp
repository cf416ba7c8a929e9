// Recurrences and operations of few models, for errors.cpp.
#include "errors.h"

namespace errors {

// One sequence of heads whose state is a square matrix: `step` gets the state of a head, the place of the token's
// inputs, and the head.
using Step = std::function<V(V & state, const std::vector<V> & x, size_t at, size_t head)>;

static std::function<V(const std::vector<V> &)> matrices(size_t n, size_t heads, size_t tokens, size_t states, Step step) {
    return [=](const std::vector<V> & x) {
        V y(n * heads * tokens), all;
        for (size_t h = 0; h < heads; h++) {
            V m(x[states].begin() + (long) (h * n * n), x[states].begin() + (long) ((h + 1) * n * n));
            for (size_t t = 0; t < tokens; t++) {
                const V out = step(m, x, (t * heads + h) * n, h);
                std::copy(out.begin(), out.end(), y.begin() + (long) ((t * heads + h) * n));
            }
            all.insert(all.end(), m.begin(), m.end());
        }
        y.insert(y.end(), all.begin(), all.end());
        return y;
    };
}

static void recurrences() {
    const size_t n = 64, heads = 2, tokens = 9;
    const std::vector<int64_t> h = { n, heads, tokens };
    const Input x = f32(h), w = f32(h, Role::small), gate = f32(h, Role::unit), state = f32({ n * n * heads, 1 }, Role::small), bonus = f32({ n, heads }, Role::weight);
    add("RWKV_WKV6", { w, x, w, bonus, gate, state }, [](ggml_context * c, const std::vector<T> & x) { return ggml_rwkv_wkv6(c, x[0], x[1], x[2], x[3], x[4], x[5]); },
        matrices(n, heads, tokens, 5, [=](V & m, const std::vector<V> & x, size_t at, size_t head) {
            V y(n);
            for (size_t i = 0; i < n; i++) for (size_t j = 0; j < n; j++) {
                const double kv = x[0][at + i] * x[1][at + j];
                y[j] += x[2][at + i] * (x[3][head * n + i] * kv + m[i * n + j]);
                m[i * n + j] = m[i * n + j] * x[4][at + i] + kv;
            }
            return y;
        }), Kind::sum);
    add("GATED_LINEAR_ATTN", { w, x, w, gate, state }, [](ggml_context * c, const std::vector<T> & x) { return ggml_gated_linear_attn(c, x[0], x[1], x[2], x[3], x[4], 0.25f); },
        matrices(n, heads, tokens, 4, [=](V & m, const std::vector<V> & x, size_t at, size_t) {
            V y(n);
            for (size_t i = 0; i < n; i++) for (size_t j = 0; j < n; j++) {
                m[i * n + j] = m[i * n + j] * x[3][at + i] + x[0][at + i] * x[1][at + j];
                y[j] += m[i * n + j] * x[2][at + i] * 0.25;
            }
            return y;
        }), Kind::sum);
    add("RWKV_WKV7", { w, gate, w, x, w, w, state }, [](ggml_context * c, const std::vector<T> & x) { return ggml_rwkv_wkv7(c, x[0], x[1], x[2], x[3], x[4], x[5], x[6]); },
        matrices(n, heads, tokens, 6, [=](V & m, const std::vector<V> & x, size_t at, size_t) {
            V y(n);
            for (size_t i = 0; i < n; i++) {
                double along = 0;
                for (size_t j = 0; j < n; j++) { along += x[4][at + j] * m[i * n + j]; }
                for (size_t j = 0; j < n; j++) {
                    m[i * n + j] = m[i * n + j] * x[1][at + j] + x[3][at + i] * x[2][at + j] + along * x[5][at + j];
                    y[i] += m[i * n + j] * x[0][at + j];
                }
            }
            return y;
        }), Kind::sum);
    add("GATED_DELTA_NET", { f32({ n, heads, tokens, 1 }, Role::weight), f32({ n, heads, tokens, 1 }, Role::small), f32({ n, heads, tokens, 1 }), minus_abs_of(f32({ 1, heads, tokens, 1 }, Role::weight)),
                             f32({ 1, heads, tokens, 1 }, Role::unit), f32({ n, n, heads, 1 }, Role::small) },
        [](ggml_context * c, const std::vector<T> & x) { return ggml_gated_delta_net(c, x[0], x[1], x[2], x[3], x[4], x[5], 1); },
        matrices(n, heads, tokens, 5, [=](V & m, const std::vector<V> & x, size_t at, size_t) {
            V y(n);
            for (size_t j = 0; j < n; j++) {
                double * row = &m[j * n], known = 0;
                for (size_t i = 0; i < n; i++) { known += (row[i] *= std::exp(x[3][at / n])) * x[1][at + i]; }
                const double delta = (x[2][at + j] - known) * x[4][at / n];
                for (size_t i = 0; i < n; i++) { y[j] += (row[i] += delta * x[1][at + i]) * x[0][at + i] / 8; }
            }
            return y;
        }), Kind::sum);
    add("SSM_CONV", { f32({ 12, 70 }), f32({ 4, 70 }, Role::weight) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_ssm_conv(c, ggml_reshape_3d(c, x[0], 12, 70, 1), x[1]); }, [](const std::vector<V> & x) {
        V y;
        for (size_t t = 0; t < 9; t++) for (size_t c = 0; c < 70; c++) {
            double sum = 0;
            for (size_t k = 0; k < 4; k++) { sum += x[0][12 * c + t + k] * x[1][4 * c + k]; }
            y.push_back(sum);
        }
        return y;
    }, Kind::sum);
    for (bool mamba2 : { false, true }) {
        // Mamba: heads with one row, and a rate for each number of the state. Mamba-2: heads with 16 rows and one rate.
        const int64_t n = mamba2 ? 128 : 16, dim = mamba2 ? 16 : 1, heads = mamba2 ? 4 : 40, rates = mamba2 ? 1 : 16, tokens = 9;
        add(mamba2 ? "SSM_SCAN, Mamba-2" : "SSM_SCAN, Mamba", { f32({ n, dim, heads, 1 }, Role::small), f32({ dim, heads, tokens, 1 }), f32({ heads, tokens, 1 }, Role::weight), minus_abs_of(f32({ rates, heads }, Role::weight)),
                              f32({ n, 1, tokens, 1 }, Role::weight), f32({ n, 1, tokens, 1 }, Role::weight), index({ 1 }, 1) },
            [](ggml_context * c, const std::vector<T> & x) { return ggml_ssm_scan(c, x[0], x[1], x[2], x[3], x[4], x[5], x[6], 1); }, [=](const std::vector<V> & x) {
                V y((size_t) (dim * heads * tokens)), m(x[0]);
                for (int64_t h = 0; h < heads; h++) for (int64_t d = 0; d < dim; d++) for (int64_t t = 0; t < tokens; t++) {
                    const double dt = x[2][(size_t) (t * heads + h)], step = dt > 30 ? dt : std::log1p(std::exp(dt));
                    double sum = 0;
                    for (int64_t i = 0; i < n; i++) {
                        double & s = m[(size_t) ((h * dim + d) * n + i)];
                        s = s * std::exp(step * x[3][(size_t) (h * rates + i % rates)]) + x[4][(size_t) (t * n + i)] * x[1][(size_t) ((t * heads + h) * dim + d)] * step;
                        sum += s * x[5][(size_t) (t * n + i)];
                    }
                    y[(size_t) ((t * heads + h) * dim + d)] = sum;
                }
                y.insert(y.end(), m.begin(), m.end());
                return y;
            }, Kind::sum);
    }
}

static void of_few_models() {
    const std::vector<int64_t> ne = { 100, 4, 9 };
    add("LIGHTNING_INDEXER", { f32({ 64, 4, 7, 1 }), { GGML_TYPE_F32, { 64, 1, 37, 1 }, Role::weight, false, false, 0 }, f32({ 4, 7, 1, 1 }, Role::weight), { GGML_TYPE_F16, { 37, 7, 1, 1 }, Role::weight, false, false, 0 } },
        [](ggml_context * c, const std::vector<T> & x) { return ggml_lightning_indexer(c, x[0], x[1], x[2], x[3]); }, [](const std::vector<V> & x) {
            V y;
            for (size_t t = 0; t < 7; t++) for (size_t k = 0; k < 37; k++) {
                double sum = x[3][37 * t + k];
                for (size_t h = 0; h < 4; h++) {
                    double dot = 0;
                    for (size_t i = 0; i < 64; i++) { dot += x[0][(t * 4 + h) * 64 + i] * x[1][64 * k + i]; }
                    sum += std::max(dot, 0.0) * x[2][4 * t + h];
                }
                y.push_back(sum);
            }
            return y;
        }, Kind::sum);
    add("DSV4_HC_PRE", { f32(ne), f32({ 4, 9 }, Role::weight) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_dsv4_hc_pre(c, x[0], x[1]); }, [](const std::vector<V> & x) {
        V y(900);
        for (size_t i = 0; i < x[0].size(); i++) { y[i / 400 * 100 + i % 100] += x[0][i] * x[1][i / 100]; }
        return y;
    }, Kind::sum);
    add("DSV4_HC_COMB", { f32({ 24, 9 }, Role::weight), f32({ 3 }, Role::positive), f32({ 24 }, Role::weight) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_dsv4_hc_comb(c, x[0], x[1], x[2], 1e-6f, 4); }, [](const std::vector<V> & x) {
        const double eps = (double) 1e-6f;
        V all;
        for (size_t t = 0; t < 9; t++) {
            V m(16); // element (dst, src) at dst + 4 * src
            for (size_t s = 0; s < 4; s++) {
                double sum = 0;
                for (size_t d = 0; d < 4; d++) { sum += m[4 * s + d] = std::exp(x[0][24 * t + 8 + 4 * s + d] * x[1][2] + x[2][8 + 4 * s + d]); }
                for (size_t d = 0; d < 4; d++) { m[4 * s + d] = m[4 * s + d] / sum + eps; }
            }
            for (int round = 0; round < 7; round++) { // over src first and last, over dst in between
                for (size_t i = 0; i < 4; i++) {
                    auto at = [&](size_t j) -> double & { return m[round % 2 ? 4 * i + j : 4 * j + i]; };
                    const double sum = eps + at(0) + at(1) + at(2) + at(3);
                    for (size_t j = 0; j < 4; j++) { at(j) /= sum; }
                }
            }
            all.insert(all.end(), m.begin(), m.end());
        }
        return all;
    }, Kind::sum, { Class::ordinary });
    add("DSV4_HC_POST", { f32({ 70, 9 }), f32(std::vector<int64_t>{ 70, 4, 9 }), f32({ 4, 9 }, Role::weight), f32({ 4, 4, 9 }, Role::weight) },
        [](ggml_context * c, const std::vector<T> & x) { return ggml_dsv4_hc_post(c, x[0], x[1], x[2], x[3]); }, [](const std::vector<V> & x) {
            V y;
            for (size_t t = 0; t < 9; t++) for (size_t d = 0; d < 4; d++) for (size_t i = 0; i < 70; i++) {
                double sum = x[0][70 * t + i] * x[2][4 * t + d];
                for (size_t s = 0; s < 4; s++) { sum += x[1][70 * (4 * t + s) + i] * x[3][16 * t + 4 * s + d]; }
                y.push_back(sum);
            }
            return y;
        }, Kind::sum);
    add("ARANGE", {}, [](ggml_context * c, const std::vector<T> &) { return ggml_arange(c, 0, 70, 0.7f); }, [](const std::vector<V> &) {
        V y;
        for (int i = 0; i < 100; i++) { y.push_back(i * (double) 0.7f); }
        return y;
    }, Kind::each, { Class::ordinary });
    add("ADD_ID", { f32({ 32, 3, 5 }), f32({ 32, 8 }), index({ 3, 5 }, 8) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_add_id(c, x[0], x[1], x[2]); }, [](const std::vector<V> & x) {
        V y(x[0]);
        for (size_t i = 0; i < y.size(); i++) { y[i] += x[1][(size_t) x[2][i / 32] * 32 + i % 32]; }
        return y;
    }, Kind::sum);
    add("ACC", { f32({ 16, 6 }), f32({ 16, 3 }) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_acc(c, x[0], x[1], x[0]->nb[1], x[0]->nb[2], x[0]->nb[3], 0); }, [](const std::vector<V> & x) {
        V y(x[0]);
        for (size_t i = 0; i < x[1].size(); i++) { y[i] += x[1][i]; }
        return y;
    }, Kind::sum);
    add("GET_ROWS_BACK", { f32({ 33, 40 }), index({ 40 }, 5) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_get_rows_back(c, x[0], x[1], ggml_new_tensor_2d(c, GGML_TYPE_F32, 33, 5)); }, [](const std::vector<V> & x) {
        V y(165);
        for (size_t i = 0; i < x[0].size(); i++) { y[(size_t) x[1][i / 33] * 33 + i % 33] += x[0][i]; }
        return y;
    }, Kind::sum);
    add("ADD_REL_POS", { f32({ 16, 16, 3 }), f32({ 4, 4, 4, 3 }), f32({ 4, 4, 4, 3 }) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_add_rel_pos(c, x[0], x[1], x[2]); }, [](const std::vector<V> & x) {
        V y(x[0]);
        for (size_t i = 0; i < y.size(); i++) { y[i] += x[2][i / 16 * 4 + i % 16 / 4] + x[1][i / 16 * 4 + i % 4]; }
        return y;
    }, Kind::sum);
}

void list_others() {
    recurrences();
    of_few_models();
}

} // namespace errors
