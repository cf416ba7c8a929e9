// Times the ops other than matrix products, each in a graph of its own, at the sizes of a model's hidden states: ops
// [-t THREADS] [-k NAME_PART] [-m MILLISECONDS]. Prints a line "NAME<tab>MICROSECONDS" for each: the fastest of several
// repetitions. turns.py runs it on two libraries in turns.
#include "../common/data.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

using T = ggml_tensor *;

namespace {

// Inputs of a case, and the numbers to fill them with.
struct Graph {
    ggml_context * c;
    struct Input {
        T       t;
        float   lo, hi;
        int64_t below; // when positive: whole numbers in [0, below), each once if there are as many
        bool    causal;
    };
    std::vector<Input> inputs;

    T in(ggml_type type, std::vector<int64_t> ne, float lo = -1.0f, float hi = 1.0f) {
        T t = ggml_new_tensor(c, type, (int) ne.size(), ne.data());
        inputs.push_back({ t, lo, hi, 0, false });
        return t;
    }
    T f(std::vector<int64_t> ne, float lo = -1.0f, float hi = 1.0f) { return in(GGML_TYPE_F32, std::move(ne), lo, hi); }
    T index(std::vector<int64_t> ne, int64_t below, ggml_type type = GGML_TYPE_I32) {
        T t = in(type, std::move(ne));
        inputs.back().below = below;
        return t;
    }
    T mask(int64_t keys, int64_t queries, ggml_type type = GGML_TYPE_F16) {
        T t = in(type, { keys, queries });
        inputs.back().causal = true;
        return t;
    }
};

struct Case {
    std::string              name;
    std::function<T(Graph &)> build;
};
std::vector<Case> cases;

void add(std::string name, std::function<T(Graph &)> build) { cases.push_back({ std::move(name), std::move(build) }); }

// Ops of the hidden states of `n` tokens.
void hidden_states(int64_t n) {
    const std::string at = " " + std::to_string(n);
    const int64_t     d = 4096, ff = 11008, heads = 32, head = 128;
    add("ADD" + at, [=](Graph & g) { return ggml_add(g.c, g.f({ d, n }), g.f({ d, n })); });
    add("MUL,row" + at, [=](Graph & g) { return ggml_mul(g.c, g.f({ d, n }), g.f({ d })); });
    add("SCALE" + at, [=](Graph & g) { return ggml_scale(g.c, g.f({ d, n }), 0.5f); });
    add("RMS_NORM" + at, [=](Graph & g) { return ggml_rms_norm(g.c, g.f({ d, n }), 1e-5f); });
    add("NORM" + at, [=](Graph & g) { return ggml_norm(g.c, g.f({ d, n }), 1e-5f); });
    add("L2_NORM" + at, [=](Graph & g) { return ggml_l2_norm(g.c, g.f({ head, heads, n }), 1e-5f); });
    add("SILU" + at, [=](Graph & g) { return ggml_silu(g.c, g.f({ ff, n })); });
    add("GELU" + at, [=](Graph & g) { return ggml_gelu(g.c, g.f({ ff, n })); });
    add("GELU_ERF" + at, [=](Graph & g) { return ggml_gelu_erf(g.c, g.f({ ff, n })); });
    add("SIGMOID" + at, [=](Graph & g) { return ggml_sigmoid(g.c, g.f({ ff, n })); });
    add("TANH" + at, [=](Graph & g) { return ggml_tanh(g.c, g.f({ ff, n })); });
    add("RELU" + at, [=](Graph & g) { return ggml_relu(g.c, g.f({ ff, n })); });
    add("SOFTPLUS" + at, [=](Graph & g) { return ggml_softplus(g.c, g.f({ d, n })); });
    add("EXP" + at, [=](Graph & g) { return ggml_exp(g.c, g.f({ d, n })); });
    add("SQR" + at, [=](Graph & g) { return ggml_sqr(g.c, g.f({ ff, n })); });
    add("CLAMP" + at, [=](Graph & g) { return ggml_clamp(g.c, g.f({ d, n }), -0.5f, 0.5f); });
    add("SWIGLU" + at, [=](Graph & g) { return ggml_swiglu_split(g.c, g.f({ ff, n }), g.f({ ff, n })); });
    add("SWIGLU,halves" + at, [=](Graph & g) { return ggml_swiglu(g.c, g.f({ 2 * ff, n })); });
    add("GEGLU" + at, [=](Graph & g) { return ggml_geglu_split(g.c, g.f({ ff, n }), g.f({ ff, n })); });
    for (int mode : { 0, 2 }) {
        add((mode ? "ROPE,neox" : "ROPE") + at, [=](Graph & g) {
            return ggml_rope_ext(g.c, g.f({ head, heads, n }), g.index({ n }, 4096), nullptr, head, mode, 4096, 1e4f, 1, 0, 1, 32, 1);
        });
    }
    add("SOFT_MAX" + at, [=](Graph & g) {
        return ggml_soft_max_ext(g.c, g.f({ 1024, n, heads }), g.mask(1024, n), 0.1f, 0);
    });
    for (ggml_type type : { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K }) {
        const std::string name = std::string(",") + ggml_type_name(type) + at;
        add("GET_ROWS" + name, [=](Graph & g) { return ggml_get_rows(g.c, g.in(type, { d, 2000 }), g.index({ n }, 2000)); });
        if (type == GGML_TYPE_Q4_K || type == GGML_TYPE_Q6_K) { continue; }
        add("CPY,f32 to" + name, [=](Graph & g) { return ggml_cpy(g.c, g.f({ d, n }), g.in(type, { d, n })); });
        if (type == GGML_TYPE_F32) { continue; }
        add("CPY,to f32 from" + name, [=](Graph & g) { return ggml_cpy(g.c, g.in(type, { d, n }), g.f({ d, n })); });
        add("SET_ROWS" + name, [=](Graph & g) {
            return ggml_set_rows(g.c, g.in(type, { 1024, 4096 }), g.f({ 1024, n }), g.index({ n }, 4096, GGML_TYPE_I64));
        });
    }
    add("CONT,permuted" + at, [=](Graph & g) { return ggml_cont(g.c, ggml_permute(g.c, g.f({ head, heads, n }), 0, 2, 1, 3)); });
    add("CONT,transposed" + at, [=](Graph & g) { return ggml_cont(g.c, ggml_transpose(g.c, g.f({ d, n }))); });
    add("CONCAT" + at, [=](Graph & g) { return ggml_concat(g.c, g.f({ d, n }), g.f({ d, n }), 0); });
    add("REPEAT" + at, [=](Graph & g) { return ggml_repeat(g.c, g.f({ head, 8, n }), g.f({ head, heads, n })); });
    add("SUM_ROWS" + at, [=](Graph & g) { return ggml_sum_rows(g.c, g.f({ d, n })); });
    add("MEAN" + at, [=](Graph & g) { return ggml_mean(g.c, g.f({ d, n })); });
    add("CUMSUM" + at, [=](Graph & g) { return ggml_cumsum(g.c, g.f({ d, n })); });
    add("ARGMAX" + at, [=](Graph & g) { return ggml_argmax(g.c, g.f({ 32000, n })); });
    add("ARGSORT,experts" + at, [=](Graph & g) { return ggml_argsort(g.c, g.f({ 128, n }), GGML_SORT_ORDER_DESC); });
    add("TOP_K,experts" + at, [=](Graph & g) { return ggml_top_k(g.c, g.f({ 128, n }), 8); });
    add("SSM_CONV" + at, [=](Graph & g) { return ggml_ssm_conv(g.c, g.f({ 3 + n, 4096, 1 }), g.f({ 4, 4096 })); });
    add("SSM_SCAN,mamba" + at, [=](Graph & g) {
        return ggml_ssm_scan(g.c, g.f({ 16, 1, 2048, 1 }), g.f({ 1, 2048, n, 1 }), g.f({ 2048, n, 1 }), g.f({ 16, 2048 }, -1, 0), g.f({ 16, 1, n, 1 }),
                             g.f({ 16, 1, n, 1 }), g.index({ 1 }, 1), 1);
    });
    add("SSM_SCAN,mamba-2" + at, [=](Graph & g) {
        return ggml_ssm_scan(g.c, g.f({ 128, 64, 32, 1 }), g.f({ 64, 32, n, 1 }), g.f({ 32, n, 1 }), g.f({ 1, 32 }, -1, 0), g.f({ 128, 1, n, 1 }),
                             g.f({ 128, 1, n, 1 }), g.index({ 1 }, 1), 1);
    });
    add("GATED_DELTA_NET" + at, [=](Graph & g) {
        return ggml_gated_delta_net(g.c, g.f({ 128, 16, n, 1 }), g.f({ 128, 16, n, 1 }), g.f({ 128, 32, n, 1 }), g.f({ 1, 32, n, 1 }, -1, 0),
                                    g.f({ 1, 32, n, 1 }, 0, 1), g.f({ 128, 128, 32, 1 }, -0.1f, 0.1f), 1);
    });
    add("GATED_LINEAR_ATTN" + at, [=](Graph & g) {
        return ggml_gated_linear_attn(g.c, g.f({ 64, 32, n }), g.f({ 64, 32, n }), g.f({ 64, 32, n }), g.f({ 64, 32, n }, 0, 1),
                                      g.f({ 64 * 64 * 32, 1 }), 0.1f);
    });
    add("RWKV_WKV6" + at, [=](Graph & g) {
        return ggml_rwkv_wkv6(g.c, g.f({ 64, 32, n }), g.f({ 64, 32, n }), g.f({ 64, 32, n }), g.f({ 64, 32 }), g.f({ 64, 32, n }, 0, 1),
                              g.f({ 64 * 64 * 32, 1 }));
    });
    add("RWKV_WKV7" + at, [=](Graph & g) {
        return ggml_rwkv_wkv7(g.c, g.f({ 64, 32, n }), g.f({ 64, 32, n }, 0, 1), g.f({ 64, 32, n }), g.f({ 64, 32, n }), g.f({ 64, 32, n }, -0.1f, 0.1f),
                              g.f({ 64, 32, n }, -0.1f, 0.1f), g.f({ 64 * 64 * 32, 1 }));
    });
    for (int64_t keys : { 512, 4096 }) {
        for (ggml_type type : { GGML_TYPE_F16, GGML_TYPE_Q8_0 }) {
            add("FLASH_ATTN_EXT," + std::to_string(keys) + "," + ggml_type_name(type) + at, [=](Graph & g) {
                return ggml_flash_attn_ext(g.c, g.f({ head, n, heads }), g.in(type, { head, keys, 8 }), g.in(type, { head, keys, 8 }),
                                           g.mask(keys, n), 0.088f, 0, 0);
            });
        }
    }
    add("FLASH_ATTN_EXT,one head of keys" + at, [=](Graph & g) {
        return ggml_flash_attn_ext(g.c, g.f({ head, n, 16 }), g.in(GGML_TYPE_F16, { head, 4096, 1 }), g.in(GGML_TYPE_F16, { head, 4096, 1 }),
                                   g.mask(4096, n), 0.088f, 0, 0);
    });
}

// Ops of images and training, which have one size.
void others() {
    add("GROUP_NORM", [](Graph & g) { return ggml_group_norm(g.c, g.f({ 64, 64, 320, 1 }), 32, 1e-5f); });
    add("IM2COL", [](Graph & g) {
        return ggml_im2col(g.c, g.in(GGML_TYPE_F16, { 3, 3, 64, 64 }), g.f({ 64, 64, 64, 1 }), 1, 1, 1, 1, 1, 1, true, GGML_TYPE_F16);
    });
    add("CONV_2D", [](Graph & g) { return ggml_conv_2d(g.c, g.in(GGML_TYPE_F16, { 3, 3, 64, 64 }), g.f({ 64, 64, 64, 1 }), 1, 1, 1, 1, 1, 1); });
    add("CONV_2D_DIRECT", [](Graph & g) {
        return ggml_conv_2d_direct(g.c, g.in(GGML_TYPE_F16, { 3, 3, 64, 64 }), g.f({ 64, 64, 64, 1 }), 1, 1, 1, 1, 1, 1);
    });
    add("CONV_2D_DW", [](Graph & g) {
        return ggml_conv_2d_dw_direct(g.c, g.in(GGML_TYPE_F32, { 3, 3, 1, 64 }), g.f({ 64, 64, 64, 1 }), 1, 1, 1, 1, 1, 1);
    });
    add("CONV_TRANSPOSE_1D", [](Graph & g) { return ggml_conv_transpose_1d(g.c, g.in(GGML_TYPE_F16, { 8, 64, 128 }), g.f({ 200, 128 }), 4, 0, 1); });
    add("POOL_2D", [](Graph & g) { return ggml_pool_2d(g.c, g.f({ 128, 128, 64, 1 }), GGML_OP_POOL_AVG, 2, 2, 2, 2, 0, 0); });
    add("UPSCALE,nearest", [](Graph & g) { return ggml_upscale(g.c, g.f({ 64, 64, 64, 1 }), 2, GGML_SCALE_MODE_NEAREST); });
    add("UPSCALE,bilinear", [](Graph & g) { return ggml_upscale(g.c, g.f({ 64, 64, 64, 1 }), 2, GGML_SCALE_MODE_BILINEAR); });
    add("PAD", [](Graph & g) { return ggml_pad(g.c, g.f({ 64, 64, 64, 1 }), 1, 1, 0, 0); });
    add("TIMESTEP_EMBEDDING", [](Graph & g) { return ggml_timestep_embedding(g.c, g.f({ 64 }, 0, 1000), 320, 10000); });
    add("OUT_PROD", [](Graph & g) { return ggml_out_prod(g.c, g.f({ 256, 64 }), g.f({ 128, 64 })); });
    add("CROSS_ENTROPY_LOSS", [](Graph & g) { return ggml_cross_entropy_loss(g.c, g.f({ 32000, 16 }), g.f({ 32000, 16 }, 0, 1)); });
    add("ARGSORT,tokens", [](Graph & g) { return ggml_argsort(g.c, g.f({ 32000, 1 }), GGML_SORT_ORDER_DESC); });
    add("TRI", [](Graph & g) { return ggml_tri(g.c, g.f({ 256, 256, 16 }), GGML_TRI_TYPE_LOWER); });
    add("SOLVE_TRI", [](Graph & g) { return ggml_solve_tri(g.c, g.f({ 64, 64, 16 }, 0.5f, 1), g.f({ 64, 64, 16 }), true, true, false); });
}

void fill(const Graph::Input & input) {
    T              t = input.t;
    const int64_t  n = ggml_nelements(t);
    uint64_t       state = 7;
    if (input.causal) {
        auto * p = static_cast<ggml_fp16_t *>(t->data);
        const int64_t keys = t->ne[0], queries = t->ne[1];
        for (int64_t q = 0; q < queries; q++) {
            for (int64_t k = 0; k < keys; k++) { p[q * keys + k] = ggml_fp32_to_fp16(k <= keys - queries + q ? 0.0f : -INFINITY); }
        }
        return;
    }
    if (input.below > 0) {
        for (int64_t i = 0; i < n; i++) {
            const int64_t x = (i * 37) % input.below;
            if (t->type == GGML_TYPE_I64) { static_cast<int64_t *>(t->data)[i] = x; }
            else { static_cast<int32_t *>(t->data)[i] = (int32_t) x; }
        }
        return;
    }
    std::vector<float> x((size_t) n);
    for (float & v : x) { v = data_float(&state, input.lo, input.hi); }
    if (t->type == GGML_TYPE_F32) {
        std::memcpy(t->data, x.data(), x.size() * sizeof(float));
    } else {
        ggml_quantize_chunk(t->type, x.data(), t->data, 0, ggml_nrows(t), t->ne[0], nullptr);
    }
}

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double time_of(ggml_backend_t backend, const Case & what, double limit) {
    const ggml_init_params params = { 256 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true };
    Graph                  g{ ggml_init(params), {} };
    T                      result = what.build(g);
    ggml_cgraph *          graph  = ggml_new_graph(g.c);
    ggml_build_forward_expand(graph, result);
    double best = -1;
    if (ggml_backend_supports_op(backend, result)) {
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(g.c, backend);
        for (const auto & input : g.inputs) { fill(input); }
        best               = 1e9;
        const double until = now() + limit;
        for (int i = 0; i < 3 || now() < until; i++) {
            const double start = now();
            ggml_backend_graph_compute(backend, graph);
            best = std::min(best, now() - start);
        }
        ggml_backend_buffer_free(buffer);
    }
    ggml_free(g.c);
    return best;
}

} // namespace

int main(int argc, char ** argv) {
    int         threads = 2;
    double      limit   = 0.03;
    std::string part;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        if (name == "-t") { threads = std::atoi(argv[i + 1]); }
        else if (name == "-k") { part = argv[i + 1]; }
        else if (name == "-m") { limit = std::atof(argv[i + 1]) * 1e-3; }
        else { std::fprintf(stderr, "ops [-t THREADS] [-k NAME_PART] [-m MILLISECONDS]\n"); return 1; }
    }
    hidden_states(1);
    hidden_states(256);
    others();
    ggml_backend_t backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, threads);
    for (const Case & c : cases) {
        if (c.name.find(part) == std::string::npos) { continue; }
        const double took = time_of(backend, c, limit);
        if (took >= 0) {
            std::printf("%s\t%.2f\n", c.name.c_str(), 1e6 * took);
            std::fflush(stdout);
        }
    }
    ggml_backend_free(backend);
    return 0;
}
