/* Graphs of a llama model on Vulkan0, through the scheduler, for c_tests/vulkan/driver_layer.c to count:
 * driver_graphs [all | time]
 *
 * Two models, with as many layers as each graph needs: dense (the shapes of an 8B llama: 4096 x 14336, 32 heads over 8
 * pairs of keys and values) and moe (those of a 30B Qwen: 2048 x 768, 128 experts of which 8 are used, norms of queries
 * and keys). A graph is computed twice, and the second time is counted: driver_layer_mark("MODEL FORMAT PHASE LAYERS").
 * Phases: text, a token after 4096 others, and prompt, 512 tokens. `all` computes one operation of each kind in each
 * format instead, so that the drivers compile their pipelines. The weights have no values, because the devices compute
 * nothing. `time` needs no layer: it computes tokens of a small model, as a host that reuses its graph, and prints how
 * many a second, and the processor time of one. On a device that computes nothing, that is the host's share of the
 * time.
 *
 * The environment names the layer: DRIVER_LAYER=path of the library. */
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEAD = 128, NODES = 4096, DEPTH = 4096, PROMPT = 512, COUNTED_LAYERS = 3, MOST_LAYERS = 16, TOKENS = 2000 };

typedef struct ggml_tensor * tensor;

struct shape {
    const char * name;
    int          embd, ff, heads, heads_kv, vocabulary, experts, used;
};

static const struct shape DENSE = { "dense", 4096, 14336, 32, 8, 128256, 0, 0 };
static const struct shape SMALL = { "small", 1024, 2816, 8, 8, 32000, 0, 0 };
static const struct shape MOE   = { "moe", 2048, 768, 32, 4, 151936, 128, 8 };

struct layer {
    tensor norm, q, k, v, o, q_norm, k_norm, ff_norm, router, gate, up, down, keys, values;
};

struct model {
    const struct shape *  shape;
    int                   n_layers;
    struct layer          layers[MOST_LAYERS];
    tensor                norm, out;
    struct ggml_context * ctx;
    ggml_backend_buffer_t buffer;
};

static ggml_backend_t gpu, cpu;
static void (*mark)(const char *);

static void fail(const char * what) {
    fprintf(stderr, "driver_graphs: %s\n", what);
    exit(1);
}

static struct ggml_context * new_context(size_t tensors) {
    const struct ggml_init_params params = { tensors * ggml_tensor_overhead() + ggml_graph_overhead_custom(NODES, false), NULL, true };
    struct ggml_context *         ctx    = ggml_init(params);
    if (ctx == NULL) { fail("no context"); }
    return ctx;
}

/* The weights of so many layers, and a cache of keys and values. */
static struct model load(const struct shape * s, enum ggml_type type, int n_layers) {
    struct model          m   = { .shape = s, .n_layers = n_layers, .ctx = new_context(256) };
    struct ggml_context * ctx = m.ctx;
    const int             kv = s->heads_kv * HEAD, rows = DEPTH + PROMPT;
    for (int i = 0; i < n_layers; i++) {
        struct layer * l = &m.layers[i];
        l->norm          = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, s->embd);
        l->ff_norm       = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, s->embd);
        l->q             = ggml_new_tensor_2d(ctx, type, s->embd, s->heads * HEAD);
        l->k             = ggml_new_tensor_2d(ctx, type, s->embd, kv);
        l->v             = ggml_new_tensor_2d(ctx, type, s->embd, kv);
        l->o             = ggml_new_tensor_2d(ctx, type, s->heads * HEAD, s->embd);
        l->keys          = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, kv, rows);
        l->values        = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, kv, rows);
        if (s->experts > 0) {
            l->q_norm = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, HEAD);
            l->k_norm = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, HEAD);
            l->router = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, s->embd, s->experts);
            l->gate   = ggml_new_tensor_3d(ctx, type, s->embd, s->ff, s->experts);
            l->up     = ggml_new_tensor_3d(ctx, type, s->embd, s->ff, s->experts);
            l->down   = ggml_new_tensor_3d(ctx, type, s->ff, s->embd, s->experts);
        } else {
            l->gate = ggml_new_tensor_2d(ctx, type, s->embd, s->ff);
            l->up   = ggml_new_tensor_2d(ctx, type, s->embd, s->ff);
            l->down = ggml_new_tensor_2d(ctx, type, s->ff, s->embd);
        }
    }
    m.norm   = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, s->embd);
    m.out    = ggml_new_tensor_2d(ctx, type, s->embd, s->vocabulary);
    m.buffer = ggml_backend_alloc_ctx_tensors(ctx, gpu);
    if (m.buffer == NULL) { fail("no memory for the weights"); }
    ggml_backend_buffer_set_usage(m.buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    return m;
}

/* The tensors that a host sets for each graph. */
struct inputs {
    tensor embeddings, positions, rows, mask, wanted;
    int    n_tokens, n_past;
};

static tensor input(tensor t) {
    ggml_set_input(t);
    return t;
}

static tensor normed(struct ggml_context * ctx, tensor x, tensor weight) {
    return ggml_mul(ctx, ggml_rms_norm(ctx, x, 1e-5f), weight);
}

static tensor attention(struct ggml_context * ctx, struct ggml_cgraph * graph, const struct model * m, const struct layer * l, tensor x,
    const struct inputs * in) {
    const struct shape * s = m->shape;
    const int            n = in->n_tokens, n_kv = in->n_past + in->n_tokens;
    tensor               q = ggml_reshape_3d(ctx, ggml_mul_mat(ctx, l->q, x), HEAD, s->heads, n);
    tensor               k = ggml_reshape_3d(ctx, ggml_mul_mat(ctx, l->k, x), HEAD, s->heads_kv, n);
    tensor               v = ggml_mul_mat(ctx, l->v, x);
    if (l->q_norm != NULL) {
        q = normed(ctx, q, l->q_norm);
        k = normed(ctx, k, l->k_norm);
    }
    const int mode = s->experts > 0 ? GGML_ROPE_TYPE_NEOX : 0;
    q = ggml_rope_ext(ctx, q, in->positions, NULL, HEAD, mode, 8192, 500000.0f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f);
    k = ggml_rope_ext(ctx, k, in->positions, NULL, HEAD, mode, 8192, 500000.0f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f);
    ggml_build_forward_expand(graph, q);
    ggml_build_forward_expand(graph, v);
    ggml_build_forward_expand(graph, k);
    ggml_build_forward_expand(graph, ggml_set_rows(ctx, l->keys, ggml_reshape_2d(ctx, k, HEAD * s->heads_kv, n), in->rows));
    ggml_build_forward_expand(graph, ggml_set_rows(ctx, l->values, v, in->rows));
    tensor cached[2] = { l->keys, l->values };
    for (int i = 0; i < 2; i++) {
        const size_t row = cached[i]->nb[1], head = ggml_row_size(cached[i]->type, HEAD);
        cached[i] = ggml_permute(ctx, ggml_view_4d(ctx, cached[i], HEAD, s->heads_kv, n_kv, 1, head, row, row * (size_t) n_kv, 0), 0, 2, 1, 3);
    }
    tensor o = ggml_flash_attn_ext(ctx, ggml_permute(ctx, q, 0, 2, 1, 3), cached[0], cached[1], in->mask, 0.08838834764f, 0.0f, 0.0f);
    ggml_prec_set_acc(o, GGML_PREC_F32);
    return ggml_mul_mat(ctx, l->o, ggml_reshape_2d(ctx, o, HEAD * s->heads, n));
}

static tensor feed_forward(struct ggml_context * ctx, const struct layer * l, tensor x) {
    tensor up = ggml_mul_mat(ctx, l->up, x);
    return ggml_mul_mat(ctx, l->down, ggml_swiglu_split(ctx, ggml_mul_mat(ctx, l->gate, x), up));
}

/* A mixture of experts: each token goes through those that the router rates highest, weighted by its ratings. */
static tensor experts(struct ggml_context * ctx, struct ggml_cgraph * graph, const struct model * m, const struct layer * l, tensor x) {
    const int used = m->shape->used, all = m->shape->experts;
    const int64_t n = x->ne[1];
    tensor ratings  = ggml_soft_max(ctx, ggml_mul_mat(ctx, l->router, x));
    tensor chosen   = ggml_argsort_top_k(ctx, ratings, used);
    tensor weights  = ggml_reshape_2d(ctx, ggml_get_rows(ctx, ggml_reshape_3d(ctx, ratings, 1, all, n), chosen), used, n);
    tensor sums     = ggml_clamp(ctx, ggml_sum_rows(ctx, weights), 6.103515625e-5f, INFINITY);
    weights         = ggml_reshape_3d(ctx, ggml_div(ctx, weights, sums), 1, used, n);
    ggml_build_forward_expand(graph, weights);
    tensor each = ggml_reshape_3d(ctx, x, x->ne[0], 1, n);
    tensor up   = ggml_mul_mat_id(ctx, l->up, each, chosen);
    tensor out  = ggml_swiglu_split(ctx, ggml_mul_mat_id(ctx, l->gate, each, chosen), up);
    out         = ggml_mul(ctx, ggml_mul_mat_id(ctx, l->down, out, chosen), weights);
    ggml_build_forward_expand(graph, out);
    tensor parts[8], sum = NULL;
    for (int i = 0; i < used; i++) {
        parts[i] = ggml_view_2d(ctx, out, out->ne[0], n, out->nb[2], (size_t) i * out->nb[1]);
        ggml_build_forward_expand(graph, parts[i]);
    }
    for (int i = 0; i < used; i++) {
        sum = i == 0 ? parts[0] : ggml_add(ctx, sum, parts[i]);
    }
    return sum;
}

static struct ggml_cgraph * build(struct ggml_context * ctx, const struct model * m, int n_tokens, int n_past, struct inputs * set) {
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, NODES, false);
    const struct inputs  in    = {
        input(ggml_new_tensor_2d(ctx, GGML_TYPE_F32, m->shape->embd, n_tokens)),
        input(ggml_new_tensor_1d(ctx, GGML_TYPE_I32, n_tokens)),
        input(ggml_new_tensor_1d(ctx, GGML_TYPE_I64, n_tokens)),
        input(ggml_new_tensor_2d(ctx, GGML_TYPE_F16, n_past + n_tokens, n_tokens)),
        input(ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 1)),
        n_tokens, n_past,
    };
    tensor x = in.embeddings;
    for (int i = 0; i < m->n_layers; i++) {
        const struct layer * l = &m->layers[i];
        tensor               o = attention(ctx, graph, m, l, normed(ctx, x, l->norm), &in);
        if (i == m->n_layers - 1) { /* only the result of the last token is used */
            o = ggml_get_rows(ctx, o, in.wanted);
            x = ggml_get_rows(ctx, x, in.wanted);
        }
        x        = ggml_add(ctx, o, x);
        tensor h = normed(ctx, x, l->ff_norm);
        h        = m->shape->experts > 0 ? experts(ctx, graph, m, l, h) : feed_forward(ctx, l, h);
        x        = ggml_add(ctx, h, x);
    }
    tensor out = ggml_mul_mat(ctx, m->out, normed(ctx, x, m->norm));
    ggml_set_output(out);
    ggml_build_forward_expand(graph, out);
    *set = in;
    return graph;
}

/* Computes a graph twice, and counts the second time as `name`. */
static void compute(struct ggml_cgraph * graph, const char * name) {
    ggml_backend_t       backends[2] = { gpu, cpu };
    ggml_backend_sched_t sched       = ggml_backend_sched_new(backends, NULL, 2, NODES, false, true);
    if (sched == NULL || !ggml_backend_sched_alloc_graph(sched, graph)) { fail("no memory for the graph"); }
    if (ggml_backend_sched_get_n_splits(sched) != 1) { fail("a part of the graph is not on Vulkan0"); }
    for (int i = 0; i < 2; i++) {
        mark("before");
        if (ggml_backend_sched_graph_compute(sched, graph) != GGML_STATUS_SUCCESS) { fail(name); }
    }
    mark(name);
    ggml_backend_sched_free(sched);
}

static void count_model(const struct shape * s, enum ggml_type type) {
    for (int layers = 2; layers <= COUNTED_LAYERS; layers++) {
        struct model m = load(s, type, layers);
        for (int prompt = 0; prompt < 2; prompt++) {
            char name[64];
            snprintf(name, sizeof name, "%s %s %s %d", s->name, ggml_type_name(type), prompt ? "prompt" : "text", layers);
            struct ggml_context * ctx = new_context(NODES);
            struct inputs         in;
            compute(build(ctx, &m, prompt ? PROMPT : 1, prompt ? 0 : DEPTH, &in), name);
            ggml_free(ctx);
        }
        ggml_backend_buffer_free(m.buffer);
        ggml_free(m.ctx);
    }
}

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* Tokens a second of a small model: inputs set, the same graph computed, the result read. */
static void time_text(enum ggml_type type) {
    struct model          m   = load(&SMALL, type, MOST_LAYERS);
    struct ggml_context * ctx = new_context(NODES);
    struct inputs         in;
    struct ggml_cgraph *  graph       = build(ctx, &m, 1, DEPTH, &in);
    ggml_backend_t        backends[2] = { gpu, cpu };
    ggml_backend_sched_t  sched       = ggml_backend_sched_new(backends, NULL, 2, NODES, false, true);
    if (sched == NULL || !ggml_backend_sched_alloc_graph(sched, graph)) { fail("no memory for the graph"); }
    tensor  out        = ggml_graph_node(graph, -1);
    float * embeddings = calloc((size_t) SMALL.embd, sizeof(float)), *logits = calloc((size_t) SMALL.vocabulary, sizeof(float));
    double  begun = 0.0, used = 0.0;
    for (int i = -100; i < TOKENS; i++) {
        if (i == 0) {
            begun = seconds(CLOCK_MONOTONIC);
            used  = seconds(CLOCK_PROCESS_CPUTIME_ID);
        }
        const int32_t position = DEPTH, wanted = 0;
        const int64_t row = DEPTH;
        ggml_backend_tensor_set(in.embeddings, embeddings, 0, ggml_nbytes(in.embeddings));
        ggml_backend_tensor_set(in.positions, &position, 0, sizeof position);
        ggml_backend_tensor_set(in.rows, &row, 0, sizeof row);
        ggml_backend_tensor_set(in.wanted, &wanted, 0, sizeof wanted);
        if (ggml_backend_sched_graph_compute_async(sched, graph) != GGML_STATUS_SUCCESS) { fail("text"); }
        ggml_backend_tensor_get_async(gpu, out, logits, 0, ggml_nbytes(out));
        ggml_backend_sched_synchronize(sched);
    }
    printf("text: %.0f tokens/s, %.1f us of processor time a token\n", TOKENS / (seconds(CLOCK_MONOTONIC) - begun),
        1e6 * (seconds(CLOCK_PROCESS_CPUTIME_ID) - used) / TOKENS);
    free(embeddings);
    free(logits);
    ggml_backend_sched_free(sched);
    ggml_free(ctx);
    ggml_backend_buffer_free(m.buffer);
    ggml_free(m.ctx);
}

/* Computes one operation, if the device has it. */
static void compute_one(struct ggml_context * ctx, tensor t) {
    if (!ggml_backend_supports_op(gpu, t)) { return; }
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 64, false);
    ggml_build_forward_expand(graph, t);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, gpu);
    if (buffer == NULL || ggml_backend_graph_compute(gpu, graph) != GGML_STATUS_SUCCESS) { fail(ggml_op_desc(t)); }
    ggml_backend_buffer_free(buffer);
}

/* The operations whose shaders depend on a format. */
static void every_format(enum ggml_type type) {
    enum { N = 1024, OPS = 18 };
    for (int op = 0; op < OPS; op++) {
        struct ggml_context * ctx  = new_context(256);
        tensor                w    = ggml_new_tensor_2d(ctx, type, N, N);
        tensor                one  = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, N, 1);
        tensor                many = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, N, PROMPT);
        tensor                ids  = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, 2, PROMPT);
        tensor                all  = ggml_new_tensor_3d(ctx, type, N, N, 8);
        tensor                t    = NULL;
        switch (op) {
        case 0: t = ggml_mul_mat(ctx, w, one); break;
        case 1: t = ggml_mul_mat(ctx, w, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, N, 4)); break;
        case 2: t = ggml_mul_mat(ctx, w, many); break;
        case 3: t = ggml_mul_mat_id(ctx, all, ggml_reshape_3d(ctx, one, N, 1, 1), ggml_new_tensor_2d(ctx, GGML_TYPE_I32, 2, 1)); break;
        case 4: t = ggml_mul_mat_id(ctx, all, ggml_reshape_3d(ctx, many, N, 1, PROMPT), ids); break;
        case 5: t = ggml_get_rows(ctx, w, ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 3)); break;
        case 6: t = ggml_cpy(ctx, w, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, N, N)); break;
        case 7: t = ggml_cpy(ctx, many, ggml_new_tensor_2d(ctx, type, N, PROMPT)); break;
        case 8: t = ggml_set_rows(ctx, w, one, ggml_new_tensor_1d(ctx, GGML_TYPE_I64, 1)); break;
        case 9:
        case 10: { /* products of a token with its experts: gated, then weighted and summed */
            tensor chosen = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, 2, 1);
            /* A norm writes the column as integers if products read these. Without it, they read floats. */
            tensor before = op == 9 ? normed(ctx, one, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, N)) : one;
            tensor column = ggml_reshape_3d(ctx, before, N, 1, 1);
            tensor first  = ggml_mul_mat_id(ctx, all, column, chosen);
            if (!ggml_backend_supports_op(gpu, first)) { break; }
            if (op == 9) {
                t = ggml_swiglu_split(ctx, first, ggml_mul_mat_id(ctx, ggml_new_tensor_3d(ctx, type, N, N, 8), column, chosen));
            } else {
                tensor each = ggml_mul(ctx, first, ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 1, 2, 1));
                t = ggml_add(ctx, ggml_view_2d(ctx, each, N, 1, each->nb[2], 0), ggml_view_2d(ctx, each, N, 1, each->nb[2], each->nb[1]));
            }
            break;
        }
        case 11:
        case 12:
        /* So many rows that workgroups compute several. Columns as they are, and after a norm, which also writes them
         * as integers. */
        case 13:
            for (int after = 0; after < 2; after++) {
                struct ggml_context * inner = new_context(64);
                tensor x = ggml_new_tensor_2d(inner, GGML_TYPE_F32, N, op == 11 ? 1 : op == 12 ? 2 : 8);
                if (after) { x = ggml_mul(inner, ggml_rms_norm(inner, x, 1e-5f), ggml_new_tensor_1d(inner, GGML_TYPE_F32, N)); }
                compute_one(inner, ggml_mul_mat(inner, ggml_new_tensor_2d(inner, type, N, 8 * N), x));
                ggml_free(inner);
            }
            break;
        case 14: /* so many rows that tiles are wide, and wider */
            for (int rows = 4 * N; rows <= 16 * N; rows *= 4) {
                struct ggml_context * inner = new_context(64);
                compute_one(inner, ggml_mul_mat(inner, ggml_new_tensor_2d(inner, type, N, rows), ggml_new_tensor_2d(inner, GGML_TYPE_F32, N, PROMPT)));
                ggml_free(inner);
            }
            break;
        default: { /* heads of 64, 128 and 256 values: a token, then many */
            const int head = 64 << (op - 15);
            for (int n = 1; n <= PROMPT; n += PROMPT - 1) {
                struct ggml_context * inner = new_context(64);
                tensor q = ggml_new_tensor_3d(inner, GGML_TYPE_F32, head, n, 8), kv = ggml_new_tensor_3d(inner, type, head, N, 2);
                tensor mask = ggml_new_tensor_2d(inner, GGML_TYPE_F16, N, n);
                compute_one(inner, ggml_flash_attn_ext(inner, q, kv, kv, mask, 0.125f, 0.0f, 0.0f));
                ggml_free(inner);
            }
        }
        }
        if (t != NULL) { compute_one(ctx, t); }
        ggml_free(ctx);
    }
}

int main(int argc, char ** argv) {
    const char * path  = getenv("DRIVER_LAYER");
    void *       layer = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    gpu                = ggml_backend_init_by_name("Vulkan0", NULL);
    cpu                = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    if (gpu == NULL || cpu == NULL) { fail("no device Vulkan0"); }
    if (argc > 1 && strcmp(argv[1], "time") == 0) {
        time_text(GGML_TYPE_Q4_0);
        ggml_backend_free(gpu);
        ggml_backend_free(cpu);
        return 0;
    }
    layer = layer != NULL || path == NULL ? layer : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (layer == NULL) { fail("DRIVER_LAYER does not name a layer that is loaded"); }
    *(void **) &mark = dlsym(layer, "driver_layer_mark");
    if (mark == NULL) { fail("the layer has no driver_layer_mark"); }
    printf("device: %s\n", ggml_backend_dev_description(ggml_backend_get_device(gpu)));
    if (argc > 1 && strcmp(argv[1], "all") == 0) {
        for (int type = 0; type < GGML_TYPE_COUNT; type++) {
            const int64_t block = ggml_blck_size((enum ggml_type) type);
            if (block > 0 && 1024 % block == 0 && ggml_type_size((enum ggml_type) type) > 0) { every_format((enum ggml_type) type); }
        }
    } else {
        const enum ggml_type types[] = { GGML_TYPE_Q4_K, GGML_TYPE_Q8_0, GGML_TYPE_F16 };
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) { count_model(&DENSE, types[i]); }
        count_model(&MOE, GGML_TYPE_Q4_K);
    }
    ggml_backend_free(gpu);
    ggml_backend_free(cpu);
    return 0;
}
