/* Times encoders with random weights: encoders [threads [milliseconds]]. MiniLM's shapes (6 layers of 384 values, 12 heads, 32 tokens) with one sentence
 * and with 32 at once, and those of the encoder of Whisper's base model (two convolutions, 6 layers of 512 values, 8 heads, 1,500 positions). Prints a
 * line "NAME<tab>MICROSECONDS" for each: the median of several computations. turns.py runs it on two libraries in turns. */
#include "../common/data.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct ggml_tensor * T;

/* A model that is being built: `c` has the weights and inputs, `g` the nodes. */
struct model {
    struct ggml_context *c, *g;
    enum ggml_type       type; /* of matrices */
};

struct shape {
    int     layers;
    int64_t width, inner, heads, tokens, batch;
};

static T vector(struct model * m, int64_t n) { return ggml_new_tensor_1d(m->c, GGML_TYPE_F32, n); }

static T linear(struct model * m, T x, int64_t out) {
    return ggml_add(m->g, ggml_mul_mat(m->g, ggml_new_tensor_2d(m->c, m->type, x->ne[0], out), x), vector(m, out));
}

static T norm(struct model * m, T x) {
    return ggml_add(m->g, ggml_mul(m->g, ggml_norm(m->g, x, 1e-5f), vector(m, x->ne[0])), vector(m, x->ne[0]));
}

/* [width, tokens * batch] to [head, tokens, heads, batch]. */
static T heads(struct model * m, T x, const struct shape * s) {
    return ggml_permute(m->g, ggml_reshape_4d(m->g, x, s->width / s->heads, s->heads, s->tokens, s->batch), 0, 2, 1, 3);
}

static T attention(struct model * m, T x, const struct shape * s, bool flash) {
    const float scale = 1.0f / sqrtf((float) (s->width / s->heads));
    T q = heads(m, linear(m, x, s->width), s), k = heads(m, linear(m, x, s->width), s), v = linear(m, x, s->width);
    T sums;
    if (flash) {
        k    = ggml_cast(m->g, k, GGML_TYPE_F16);
        v    = ggml_cast(m->g, heads(m, v, s), GGML_TYPE_F16);
        sums = ggml_flash_attn_ext(m->g, q, k, v, NULL, scale, 0.0f, 0.0f);
    } else {
        T scores = ggml_soft_max_ext(m->g, ggml_mul_mat(m->g, k, q), NULL, scale, 0.0f);
        v        = ggml_cont(m->g, ggml_permute(m->g, heads(m, v, s), 1, 0, 2, 3));
        sums     = ggml_cont(m->g, ggml_permute(m->g, ggml_mul_mat(m->g, v, scores), 0, 2, 1, 3));
    }
    return linear(m, ggml_reshape_2d(m->g, sums, s->width, s->tokens * s->batch), s->width);
}

/* Norms come before (Whisper) or after (BERT) attention and the other products. */
static T layer(struct model * m, T x, const struct shape * s, bool before, bool flash) {
    T y = attention(m, before ? norm(m, x) : x, s, flash);
    x   = ggml_add(m->g, x, y);
    x   = before ? x : norm(m, x);
    y   = linear(m, ggml_gelu(m->g, linear(m, before ? norm(m, x) : x, s->inner)), s->width);
    x   = ggml_add(m->g, x, y);
    return before ? x : norm(m, x);
}

static T minilm(struct model * m, int64_t sentences) {
    const struct shape s = { 6, 384, 1536, 12, 32, sentences };
    T                  x = norm(m, ggml_new_tensor_2d(m->c, GGML_TYPE_F32, s.width, s.tokens * s.batch));
    for (int l = 0; l < s.layers; l++) { x = layer(m, x, &s, false, false); }
    return x;
}

static T convolution(struct model * m, T x, int64_t out, int stride) {
    T y = ggml_conv_1d_ph(m->g, ggml_new_tensor_3d(m->c, GGML_TYPE_F16, 3, x->ne[1], out), x, stride, 1);
    return ggml_gelu(m->g, ggml_add(m->g, y, ggml_new_tensor_2d(m->c, GGML_TYPE_F32, 1, out)));
}

static T whisper(struct model * m) {
    const struct shape s = { 6, 512, 2048, 8, 1500, 1 };
    T                  x = convolution(m, ggml_new_tensor_2d(m->c, GGML_TYPE_F32, 2 * s.tokens, 80), s.width, 1);
    x                    = ggml_cont(m->g, ggml_transpose(m->g, convolution(m, x, s.width, 2)));
    for (int l = 0; l < s.layers; l++) { x = layer(m, x, &s, true, true); }
    return norm(m, x);
}

static double microseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double) t.tv_sec + 1e-3 * (double) t.tv_nsec;
}

static int ascending(const void * a, const void * b) {
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static void run(const char * name, enum ggml_type type, int64_t sentences, ggml_backend_t backend, double milliseconds) {
    const struct ggml_init_params params = { 1024 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL, true };
    struct model                  m      = { ggml_init(params), ggml_init(params), type };
    T                             out    = sentences > 0 ? minilm(&m, sentences) : whisper(&m);
    struct ggml_cgraph *          graph  = ggml_new_graph(m.g);
    ggml_build_forward_expand(graph, out);
    ggml_backend_buffer_t weights = ggml_backend_alloc_ctx_tensors(m.c, backend);
    ggml_gallocr_t        memory  = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    if (weights == NULL || !ggml_gallocr_alloc_graph(memory, graph)) { exit(1); }
    uint64_t state = 1;
    for (T t = ggml_get_first_tensor(m.c); t != NULL; t = ggml_get_next_tensor(m.c, t)) {
        const int64_t n = ggml_nelements(t);
        float *       x = malloc((size_t) n * sizeof *x);
        for (int64_t i = 0; i < n; i++) { x[i] = data_float(&state, -0.1f, 0.1f); }
        if (t->type == GGML_TYPE_F16) { ggml_fp32_to_fp16_row(x, (ggml_fp16_t *) x, n); }
        ggml_backend_tensor_set(t, x, 0, ggml_nbytes(t));
        free(x);
    }
    double       times[1000];
    size_t       n    = 0;
    const double end  = microseconds() + 1e3 * milliseconds;
    double       sum  = 0.0;
    while (n < 3 || (n < 1000 && microseconds() < end)) {
        const double start = microseconds();
        if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) { exit(1); }
        times[n++] = microseconds() - start;
    }
    for (int64_t i = 0; i < ggml_nelements(out); i++) { sum += ((float *) out->data)[i]; }
    if (!isfinite(sum)) { exit(1); }
    qsort(times, n, sizeof times[0], ascending);
    printf("%s\t%.1f\n", name, times[n / 2]);
    ggml_gallocr_free(memory);
    ggml_backend_buffer_free(weights);
    ggml_free(m.g);
    ggml_free(m.c);
}

int main(int argc, char ** argv) {
    const int      threads      = argc > 1 ? atoi(argv[1]) : 1;
    const double   milliseconds = argc > 2 ? atof(argv[2]) : 1000.0;
    ggml_backend_t backend      = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, threads);
    run("MiniLM F32, 1 sentence", GGML_TYPE_F32, 1, backend, milliseconds);
    run("MiniLM F32, 32 sentences", GGML_TYPE_F32, 32, backend, milliseconds);
    run("MiniLM F16, 1 sentence", GGML_TYPE_F16, 1, backend, milliseconds);
    run("MiniLM F16, 32 sentences", GGML_TYPE_F16, 32, backend, milliseconds);
    run("Whisper base, encoder F16", GGML_TYPE_F16, 0, backend, milliseconds);
    ggml_backend_free(backend);
    return 0;
}
