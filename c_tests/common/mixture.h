/* Small mixtures of experts: a model, the graph of some tokens, and its inputs. */
#ifndef C_TESTS_MIXTURE_H
#define C_TESTS_MIXTURE_H

#include "random.h"

#include "ggml-alloc.h"
#include "ggml-rs.h"

#include <stdbool.h>
#include <string.h>

enum { LAYERS = 3, EXPERTS = 16, EMBD = 64, FF = 96 };

/* Kinds of models: gate and up apart or in one tensor; a step in between that only a device computes as a whole. */
enum kind { APART, MERGED, WITH_BIAS };

struct model {
    enum kind kind;
    struct ggml_context * ctx[2];
    ggml_backend_buffer_t buffer[2];
    struct ggml_tensor * dense[LAYERS], * router[LAYERS], * gate[LAYERS], * up[LAYERS], * down[LAYERS], * bias[LAYERS];
};

/* The experts are in the memory of `experts_on`, all else in that of `dense_on`. */
static inline struct model make(enum kind kind, ggml_backend_t dense_on, ggml_backend_t experts_on) {
    struct model m = { .kind = kind };
    for (int i = 0; i < 2; i++) m.ctx[i] = new_ctx(ggml_tensor_overhead() * 64);
    for (int l = 0; l < LAYERS; l++) {
        m.dense[l]  = ggml_new_tensor_2d(m.ctx[0], GGML_TYPE_F32, EMBD, EMBD);
        m.router[l] = ggml_new_tensor_2d(m.ctx[0], GGML_TYPE_F32, EMBD, EXPERTS);
        enum ggml_type gate = l == 2 ? GGML_TYPE_F16 : GGML_TYPE_Q4_0; /* two kinds of layers */
        m.gate[l]   = ggml_new_tensor_3d(m.ctx[1], gate, EMBD, kind == MERGED ? 2 * FF : FF, EXPERTS);
        m.up[l]     = kind == MERGED ? NULL : ggml_new_tensor_3d(m.ctx[1], gate, EMBD, FF, EXPERTS);
        m.down[l]   = ggml_new_tensor_3d(m.ctx[1], GGML_TYPE_Q8_0, FF, EMBD, EXPERTS);
        m.bias[l]   = ggml_new_tensor_2d(m.ctx[0], GGML_TYPE_F32, FF, EXPERTS);
    }
    for (int i = 0; i < 2; i++) {
        m.buffer[i] = ggml_backend_alloc_ctx_tensors(m.ctx[i], i == 0 ? dense_on : experts_on);
        ggml_backend_buffer_set_usage(m.buffer[i], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        uint32_t seed = 1;
        for (struct ggml_tensor * t = ggml_get_first_tensor(m.ctx[i]); t != NULL; t = ggml_get_next_tensor(m.ctx[i], t)) set_random(t, seed++, 0.3f);
    }
    return m;
}

static inline void drop(struct model * m) {
    for (int i = 0; i < 2; i++) {
        ggml_backend_buffer_free(m->buffer[i]);
        ggml_free(m->ctx[i]);
    }
}

struct step {
    struct ggml_context * ctx;
    struct ggml_cgraph * graph;
    struct ggml_tensor * x, * ids[LAYERS], * y;
};

/* `given`: the host chooses the experts. */
static inline struct step build(const struct model * m, int n_tokens, int n_used, bool given) {
    struct step s = { .ctx = new_ctx(ggml_tensor_overhead() * 512 + ggml_graph_overhead_custom(512, false)) };
    struct ggml_context * c = s.ctx;
    s.x = ggml_new_tensor_2d(c, GGML_TYPE_F32, EMBD, n_tokens);
    ggml_set_input(s.x);
    struct ggml_tensor * x = s.x;
    for (int l = 0; l < LAYERS; l++) {
        x = ggml_rms_norm(c, ggml_add(c, ggml_mul_mat(c, m->dense[l], x), x), 1e-5f);
        /* Of the input: a device that rounds otherwise could choose other experts in later layers. */
        struct ggml_tensor * probs = ggml_soft_max(c, ggml_mul_mat(c, m->router[l], s.x)), * ids;
        if (given) {
            ids = ggml_new_tensor_2d(c, GGML_TYPE_I32, n_used, n_tokens);
            ggml_set_input(ids);
            s.ids[l] = ids;
        } else {
            ids = ggml_argsort_top_k(c, probs, n_used);
        }
        struct ggml_tensor * in = ggml_reshape_3d(c, x, EMBD, 1, n_tokens), * h;
        if (m->kind == MERGED) {
            struct ggml_tensor * both = ggml_mul_mat_id(c, m->gate[l], in, ids);
            h = ggml_swiglu_split(c, ggml_view_3d(c, both, FF, n_used, n_tokens, both->nb[1], both->nb[2], 0),
                                  ggml_view_3d(c, both, FF, n_used, n_tokens, both->nb[1], both->nb[2], FF * sizeof(float)));
        } else {
            struct ggml_tensor * up = ggml_mul_mat_id(c, m->up[l], in, ids);
            if (m->kind == WITH_BIAS) up = ggml_add_id(c, up, m->bias[l], ids);
            h = ggml_mul(c, ggml_silu(c, ggml_mul_mat_id(c, m->gate[l], in, ids)), up);
        }
        struct ggml_tensor * out = ggml_mul_mat_id(c, m->down[l], h, ids);
        struct ggml_tensor * sum = NULL;
        for (int i = 0; i < n_used; i++) {
            struct ggml_tensor * row = ggml_view_2d(c, out, EMBD, n_tokens, out->nb[2], (size_t) i * out->nb[1]);
            sum = sum == NULL ? ggml_cont(c, row) : ggml_add(c, sum, row);
        }
        x = ggml_add(c, x, sum);
    }
    s.y = x;
    ggml_set_output(s.y);
    s.graph = ggml_new_graph_custom(c, 512, false);
    ggml_build_forward_expand(s.graph, s.y);
    return s;
}

static inline void feed(const struct step * s, int number, int n_tokens, int n_used, bool given) {
    float x[EMBD * 8];
    /* Similar inputs follow each other: some experts are used more often than others. */
    for (int t = 0; t < n_tokens; t++) {
        fill(x + t * EMBD, EMBD, (uint32_t) (100 + (number / 4) % 5), 1.0f);
        x[t * EMBD + number % EMBD] += 0.5f + (float) t;
    }
    ggml_backend_tensor_set(s->x, x, 0, ggml_nbytes(s->x));
    for (int l = 0; given && l < LAYERS; l++) {
        int32_t ids[8 * 8];
        for (int i = 0; i < n_tokens * n_used; i++) ids[i] = (int32_t) (mix((uint32_t) number, (uint32_t) (i + 10 * l)) % (EXPERTS + 1)) - 1;
        ggml_backend_tensor_set(s->ids[l], ids, 0, ggml_nbytes(s->ids[l]));
    }
}

/* A number of the placement report. */
static inline double reported(ggml_backend_sched_t sched, const char * key) {
    char * json = ggml_rs_sched_report(sched, GGML_RS_FORMAT_JSON);
    const char * at = json != NULL ? strstr(json, key) : NULL;
    double value = at != NULL ? strtod(at + strlen(key) + 2, NULL) : -1;
    ggml_rs_string_free(json);
    return value;
}

#endif
