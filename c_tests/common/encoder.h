/* Encoders of texts and of sound with random weights, built as hosts build them. */
#ifndef C_TESTS_ENCODER_H
#define C_TESTS_ENCODER_H

#include "data.h"

#include "ggml-backend.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

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

static inline T vector(struct model * m, int64_t n) { return ggml_new_tensor_1d(m->c, GGML_TYPE_F32, n); }

static inline T linear(struct model * m, T x, int64_t out) {
    return ggml_add(m->g, ggml_mul_mat(m->g, ggml_new_tensor_2d(m->c, m->type, x->ne[0], out), x), vector(m, out));
}

static inline T norm(struct model * m, T x) {
    return ggml_add(m->g, ggml_mul(m->g, ggml_norm(m->g, x, 1e-5f), vector(m, x->ne[0])), vector(m, x->ne[0]));
}

/* [width, tokens * batch] or [width, tokens, batch] to [head, tokens, heads, batch]. */
static inline T heads(struct model * m, T x, int64_t n, int64_t batch) {
    return ggml_permute(m->g, ggml_reshape_4d(m->g, x, x->ne[0] / n, n, ggml_nelements(x) / (x->ne[0] * batch), batch), 0, 2, 1, 3);
}

/* Attention of `x` to `other` with `n` heads. */
static inline T attention(struct model * m, T x, T other, int64_t n, int64_t batch, bool flash) {
    const int64_t width = x->ne[0];
    const float   scale = 1.0f / sqrtf((float) (width / n));
    T q = heads(m, linear(m, x, width), n, batch), k = heads(m, linear(m, other, width), n, batch), v = heads(m, linear(m, other, width), n, batch);
    T sums;
    if (flash) {
        sums = ggml_flash_attn_ext(m->g, q, ggml_cast(m->g, k, GGML_TYPE_F16), ggml_cast(m->g, v, GGML_TYPE_F16), NULL, scale, 0.0f, 0.0f);
    } else {
        T scores = ggml_soft_max_ext(m->g, ggml_mul_mat(m->g, k, q), NULL, scale, 0.0f);
        sums     = ggml_mul_mat(m->g, ggml_cont(m->g, ggml_permute(m->g, v, 1, 0, 2, 3)), scores);
        sums     = ggml_cont(m->g, ggml_permute(m->g, sums, 0, 2, 1, 3));
    }
    return linear(m, ggml_reshape(m->g, sums, x), width);
}

/* Norms come before (Whisper) or after (BERT) attention and the other products. */
static inline T layer(struct model * m, T x, const struct shape * s, bool before, bool flash) {
    T y = before ? norm(m, x) : x;
    y   = attention(m, y, y, s->heads, s->batch, flash);
    x   = ggml_add(m->g, x, y);
    x   = before ? x : norm(m, x);
    y   = linear(m, ggml_gelu(m->g, linear(m, before ? norm(m, x) : x, s->inner)), s->width);
    x   = ggml_add(m->g, x, y);
    return before ? x : norm(m, x);
}

static inline T convolution(struct model * m, T x, int64_t out, int stride) {
    T y = ggml_conv_1d_ph(m->g, ggml_new_tensor_3d(m->c, GGML_TYPE_F16, 3, x->ne[1], out), x, stride, 1);
    return ggml_gelu(m->g, ggml_add(m->g, y, ggml_new_tensor_2d(m->c, GGML_TYPE_F32, 1, out)));
}

/* The encoder of a Whisper model: two convolutions over `mels` numbers of twice as many frames as there are tokens,
 * then the layers. */
static inline T whisper(struct model * m, const struct shape * s, int64_t mels) {
    T x = convolution(m, ggml_new_tensor_2d(m->c, GGML_TYPE_F32, 2 * s->tokens, mels), s->width, 1);
    x   = ggml_cont(m->g, ggml_transpose(m->g, convolution(m, x, s->width, 2)));
    for (int l = 0; l < s->layers; l++) { x = layer(m, x, s, true, true); }
    return norm(m, x);
}

/* Fills the weights and inputs of a model, which have their memory, with numbers in [-0.1, 0.1). */
static inline void fill(struct model * m) {
    uint64_t state = 1;
    for (T t = ggml_get_first_tensor(m->c); t != NULL; t = ggml_get_next_tensor(m->c, t)) {
        const int64_t n = ggml_nelements(t);
        float *       x = malloc((size_t) n * sizeof *x);
        for (int64_t i = 0; i < n; i++) { x[i] = data_float(&state, -0.1f, 0.1f); }
        if (t->type == GGML_TYPE_F16) { ggml_fp32_to_fp16_row(x, (ggml_fp16_t *) x, n); }
        ggml_backend_tensor_set(t, x, 0, ggml_nbytes(t));
        free(x);
    }
}

#endif
