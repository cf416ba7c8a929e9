/* Where the scheduler places tensors: graphs over two accelerators and a CPU, some made by hand and many at random.
 * Prints the backend of every tensor, the splits with their inputs, and the copies that nodes read. The text must be
 * the same for every library with the version of ggml 0.28.0.
 *
 *   sched [NUMBER]     NUMBER: print that random graph in full */
#define ACCEL_STATIC
#include "../plugin/accel.c"

#include "../common/data.h"
#include "../common/system.h"

#include "ggml-alloc.h"
#include "ggml-cpu.h"

#include <stdarg.h>
#include <stdio.h>

/* The second accelerator has its own memory. It multiplies, also by experts, and its device offers to
 * (`offload_op`). */
static const char * second_name(ggml_backend_dev_t d) { (void) d; return "Accel1"; }
static const char * second_backend_name(ggml_backend_t b) { (void) b; return "Accel1"; }
static const char * second_type_name(ggml_backend_buffer_type_t t) { (void) t; return "Accel1"; }

static struct ggml_backend_buffer_type second_type;
static struct ggml_backend_device      second;

/* Nothing is computed here, so both may claim to copy. */
static bool first_supports(ggml_backend_dev_t d, const struct ggml_tensor * op) {
    return op->op == GGML_OP_CPY || device_supports(d, op);
}

static bool second_supports(ggml_backend_dev_t d, const struct ggml_tensor * op) {
    return op->op == GGML_OP_MUL_MAT_ID || op->op == GGML_OP_CPY || (op->op != GGML_OP_ADD && device_supports(d, op));
}

static bool second_supports_type(ggml_backend_dev_t d, ggml_backend_buffer_type_t t) { (void) d; return t == &second_type; }
static bool second_offload(ggml_backend_dev_t d, const struct ggml_tensor * op) { (void) d; return op->op == GGML_OP_MUL_MAT_ID; }
static ggml_backend_buffer_type_t second_buffer_type(ggml_backend_dev_t d) { (void) d; return &second_type; }

static ggml_backend_t second_init(ggml_backend_dev_t d, const char * params) {
    ggml_backend_t b = device_init(d, params);
    b->iface.get_name = second_backend_name;
    return b;
}

static void make_second(void) {
    the_device()->iface.supports_op = first_supports;
    second_type = *the_type();
    second_type.iface.get_name = second_type_name;
    second_type.device         = &second;
    second = *the_device();
    second.iface.get_name        = second_name;
    second.iface.init_backend    = second_init;
    second.iface.get_buffer_type = second_buffer_type;
    second.iface.supports_op     = second_supports;
    second.iface.supports_buft   = second_supports_type;
    second.iface.offload_op      = second_offload;
}

/* ---- the text ---- */

static char   text[1 << 20];
static size_t used;

static void say(const char * format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char * format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text + used, sizeof text - used, format, args);
    va_end(args);
    used += n > 0 && used + (size_t) n < sizeof text ? (size_t) n : 0;
}

/* The scheduler's own report (GGML_SCHED_DEBUG=2), without the causes in its brackets, which only some builds of the
 * original keep. */
static void keep_report(enum ggml_log_level level, const char * line, void * user) {
    (void) user;
    if (level != GGML_LOG_LEVEL_DEBUG && level != GGML_LOG_LEVEL_CONT) { return; }
    const size_t n = strlen(line);
    for (size_t i = 0; i < n; i++) {
        say("%c", line[i]);
        if (line[i] == '[' && i + 15 < n && line[i + 6] == ' ' && line[i + 15] == ']') {
            say("%.5s", line + i + 1);
            i += 14;
        }
    }
}

static ggml_backend_t backends[3];

static void show(ggml_backend_sched_t sched, struct ggml_cgraph * graph) {
    say("splits %d copies %d\n", ggml_backend_sched_get_n_splits(sched), ggml_backend_sched_get_n_copies(sched));
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        struct ggml_tensor * t = ggml_graph_node(graph, i);
        ggml_backend_t       b = ggml_backend_sched_get_tensor_backend(sched, t);
        say(" %s %s %s:", t->name, ggml_op_desc(t), b == NULL ? "-" : ggml_backend_name(b));
        for (int k = 0; k < GGML_MAX_SRC && t->src[k] != NULL; k++) {
            ggml_backend_t s = ggml_backend_sched_get_tensor_backend(sched, t->src[k]);
            say(" %s@%s", t->src[k]->name, s == NULL ? "-" : ggml_backend_name(s));
        }
        say("\n");
    }
}

/* ---- graphs ---- */

enum { N = 16 };

struct world {
    struct ggml_context * weights[3]; /* one for each backend */
    ggml_backend_buffer_t buffers[3];
    struct ggml_context * c;
    struct ggml_cgraph *  graph;
};

static struct ggml_tensor * w2(struct world * w, int where, int64_t n0, int64_t n1, const char * name) {
    return ggml_set_name(ggml_new_tensor_2d(w->weights[where], GGML_TYPE_F32, n0, n1), name);
}

static void world_begin(struct world * w) {
    const struct ggml_init_params params = { .mem_size = 1u << 18, .mem_buffer = NULL, .no_alloc = true };
    for (int i = 0; i < 3; i++) { w->weights[i] = ggml_init(params); }
    w->c     = ggml_init(params);
    w->graph = ggml_new_graph_custom(w->c, 256, false);
}

static void world_alloc(struct world * w, bool as_weights) {
    for (int i = 0; i < 3; i++) {
        w->buffers[i] = ggml_get_first_tensor(w->weights[i]) == NULL ? NULL : ggml_backend_alloc_ctx_tensors(w->weights[i], backends[i]);
        if (w->buffers[i] != NULL && as_weights) { ggml_backend_buffer_set_usage(w->buffers[i], GGML_BACKEND_BUFFER_USAGE_WEIGHTS); }
    }
}

static void world_end(struct world * w) {
    for (int i = 0; i < 3; i++) {
        ggml_backend_buffer_free(w->buffers[i]);
        ggml_free(w->weights[i]);
    }
    ggml_free(w->c);
}

static void place(const char * label, struct world * w, bool parallel, bool offload) {
    say("== %s%s%s\n", label, parallel ? ", parallel" : "", offload ? ", offloading" : "");
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 3, 256, parallel, offload);
    if (!ggml_backend_sched_alloc_graph(sched, w->graph)) {
        say("no room\n");
    }
    show(sched, w->graph);
    ggml_backend_sched_free(sched);
}

static struct ggml_tensor * input(struct world * w, int64_t n0, int64_t n1, const char * name) {
    struct ggml_tensor * t = ggml_set_name(ggml_new_tensor_2d(w->c, GGML_TYPE_F32, n0, n1), name);
    ggml_set_input(t);
    return t;
}

static void mlp(int where1, int where2, int where3, int64_t batch, bool parallel, bool offload) {
    struct world w;
    world_begin(&w);
    struct ggml_tensor *w1 = w2(&w, where1, N, 32, "w1"), *b1 = w2(&w, where1, 32, 1, "b1"), *v2 = w2(&w, where2, 32, N, "w2"), *norm = w2(&w, where3, N, 1, "norm"), *out = w2(&w, where3, N, 8, "out");
    struct ggml_tensor * x = input(&w, N, batch, "x");
    world_alloc(&w, true);
    struct ggml_context * c = w.c;
    struct ggml_tensor * y = ggml_add(c, ggml_mul_mat(c, w1, x), b1);
    y = ggml_mul_mat(c, v2, ggml_gelu(c, y));
    y = ggml_add(c, y, x);
    y = ggml_mul(c, ggml_rms_norm(c, y, 1e-5f), norm);
    y = ggml_mul_mat(c, out, y);
    ggml_set_output(y);
    ggml_build_forward_expand(w.graph, y);
    char label[64];
    snprintf(label, sizeof label, "net %d %d %d batch %lld", where1, where2, where3, (long long) batch);
    place(label, &w, parallel, offload);
    world_end(&w);
}

static void attention(int where_weights, int where_cache, bool as_weights, bool parallel) {
    struct world w;
    world_begin(&w);
    struct ggml_tensor *wq = w2(&w, where_weights, N, N, "wq"), *wk = w2(&w, where_weights, N, N, "wk"), *wv = w2(&w, where_weights, N, N, "wv"), *wo = w2(&w, where_weights, N, N, "wo");
    struct ggml_tensor *k_cache = w2(&w, where_cache, N, 32, "k_cache"), *v_cache = w2(&w, where_cache, N, 32, "v_cache");
    struct ggml_tensor * x = input(&w, N, 4, "x"), *mask = input(&w, 12, 4, "mask");
    world_alloc(&w, as_weights);
    struct ggml_context * c = w.c;
    struct ggml_tensor *q = ggml_mul_mat(c, wq, x), *k = ggml_mul_mat(c, wk, x), *v = ggml_mul_mat(c, wv, x);
    ggml_build_forward_expand(w.graph, ggml_cpy(c, k, ggml_view_2d(c, k_cache, N, 4, k_cache->nb[1], 8 * k_cache->nb[1])));
    ggml_build_forward_expand(w.graph, ggml_cpy(c, v, ggml_view_2d(c, v_cache, N, 4, v_cache->nb[1], 8 * v_cache->nb[1])));
    struct ggml_tensor * qh = ggml_permute(c, ggml_reshape_3d(c, q, 8, 2, 4), 0, 2, 1, 3);
    struct ggml_tensor * kh = ggml_permute(c, ggml_view_3d(c, k_cache, 8, 2, 12, 32, k_cache->nb[1], 0), 0, 2, 1, 3);
    struct ggml_tensor * vh = ggml_permute(c, ggml_view_3d(c, v_cache, 8, 2, 12, 32, v_cache->nb[1], 0), 1, 2, 0, 3);
    struct ggml_tensor * p  = ggml_soft_max_ext(c, ggml_mul_mat(c, kh, qh), mask, 0.25f, 0.0f);
    struct ggml_tensor * o  = ggml_mul_mat(c, ggml_cont(c, vh), p);
    o = ggml_cont_2d(c, ggml_permute(c, o, 0, 2, 1, 3), N, 4);
    o = ggml_add(c, ggml_mul_mat(c, wo, o), x);
    ggml_set_output(o);
    ggml_build_forward_expand(w.graph, o);
    char label[64];
    snprintf(label, sizeof label, "attention %d cache %d%s", where_weights, where_cache, as_weights ? "" : " not as weights");
    place(label, &w, parallel, false);
    world_end(&w);
}

static void experts(int where, bool offload) {
    struct world w;
    world_begin(&w);
    struct ggml_tensor * up = ggml_set_name(ggml_new_tensor_3d(w.weights[where], GGML_TYPE_F32, N, 8, 4), "experts");
    struct ggml_tensor * gate = w2(&w, 0, N, 4, "gate");
    struct ggml_tensor * x = input(&w, N, 40, "x");
    world_alloc(&w, true);
    struct ggml_context * c = w.c;
    struct ggml_tensor * ids = ggml_argsort_top_k(c, ggml_soft_max(c, ggml_mul_mat(c, gate, x)), 2);
    struct ggml_tensor * y = ggml_mul_mat_id(c, up, ggml_reshape_3d(c, x, N, 1, 40), ids);
    ggml_set_output(y);
    ggml_build_forward_expand(w.graph, y);
    char label[64];
    snprintf(label, sizeof label, "experts %d", where);
    place(label, &w, false, offload);
    world_end(&w);
}

/* A random graph over 16 x 16 tensors; weights anywhere, inputs, some nodes given to a backend by hand. No node
 * writes into another one's memory: there the original may place it where that memory cannot be used
 * (sched/sched_diff.c, sched/test_writers.c). */
static void at_random(int number) {
    uint64_t     s = 7919u * (uint64_t) number + 1;
    struct world w;
    world_begin(&w);
    struct ggml_tensor * pool[80];
    int n = 0;
    const int n_weights = 2 + (int) (data_next(&s) % 5), n_inputs = 1 + (int) (data_next(&s) % 3), n_ops = 4 + (int) (data_next(&s) % 22);
    char name[32];
    for (int i = 0; i < n_weights; i++) {
        snprintf(name, sizeof name, "w%d", i);
        pool[n++] = w2(&w, (int) (data_next(&s) % 3), N, N, name);
    }
    for (int i = 0; i < n_inputs; i++) {
        snprintf(name, sizeof name, "x%d", i);
        pool[n++] = input(&w, N, N, name);
    }
    world_alloc(&w, data_next(&s) % 4 != 0);
    for (int i = 0; i < n_ops; i++) {
        struct ggml_tensor * a = pool[data_next(&s) % (uint64_t) n], *b = pool[(uint64_t) n - 1 - data_next(&s) % (uint64_t) (n < 4 ? n : 4)], *t = NULL;
        switch (data_next(&s) % 9) {
            case 0: case 1: case 2: t = ggml_mul_mat(w.c, a, b); break;
            case 3: t = ggml_add(w.c, a, b); break;
            case 4: t = ggml_mul(w.c, a, b); break;
            case 5: t = ggml_relu(w.c, b); break;
            case 6: t = ggml_reshape_2d(w.c, b, N, N); break;
            case 7: t = ggml_scale(w.c, b, 0.5f); break;
            default: t = ggml_soft_max(w.c, b); break;
        }
        snprintf(name, sizeof name, "t%d", i);
        pool[n++] = ggml_set_name(t, name);
        if (data_next(&s) % 4 == 0) { ggml_build_forward_expand(w.graph, t); }
    }
    ggml_set_output(pool[n - 1]);
    ggml_build_forward_expand(w.graph, pool[n - 1]);
    const bool parallel = data_next(&s) % 4 == 0, offload = data_next(&s) % 2 == 0;
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 3, 256, parallel, offload);
    for (int i = 0; i < ggml_graph_n_nodes(w.graph); i++) {
        struct ggml_tensor * t = ggml_graph_node(w.graph, i);
        if (data_next(&s) % 8 == 0) {
            const int b = (int) (data_next(&s) % 3);
            if (ggml_backend_supports_op(backends[b], t)) { ggml_backend_sched_set_tensor_backend(sched, t, backends[b]); }
        }
    }
    say("== random %d%s%s\n", number, parallel ? ", parallel" : "", offload ? ", offloading" : "");
    if (!ggml_backend_sched_alloc_graph(sched, w.graph)) { say("no room\n"); }
    show(sched, w.graph);
    ggml_backend_sched_free(sched);
    world_end(&w);
}

int main(int argc, char ** argv) {
    setenv("GGML_SCHED_DEBUG", "2", 1);
    ggml_log_set(keep_report, NULL);
    make_second();
    backends[0] = device_init(the_device(), NULL);
    backends[1] = second_init(&second, NULL);
    backends[2] = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    if (argc > 1) {
        at_random(atoi(argv[1]));
        fwrite(text, 1, used, stdout);
        return 0;
    }
    static const int triples[][3] = { { 0, 0, 0 }, { 1, 1, 1 }, { 2, 2, 2 }, { 0, 1, 2 }, { 1, 0, 2 }, { 2, 0, 1 } };
    for (size_t i = 0; i < sizeof triples / sizeof *triples; i++) {
        mlp(triples[i][0], triples[i][1], triples[i][2], 2, false, false);
    }
    mlp(2, 2, 2, 8, false, true);
    mlp(2, 1, 2, 8, false, true);
    mlp(0, 1, 2, 2, true, false);
    attention(0, 0, true, false);
    attention(0, 2, true, false);
    attention(0, 0, false, false);
    attention(1, 2, false, true);
    attention(2, 1, true, false);
    experts(1, false);
    experts(2, false);
    experts(2, true);
    for (int i = 0; i < 6; i++) { at_random(i); }
    fwrite(text, 1, used, stdout);
    for (int i = 6; i < 400; i++) { /* the rest as a hash: `sched NUMBER` prints one */
        used = 0;
        at_random(i);
        printf("random %d: %016llx\n", i, (unsigned long long) data_hash(text, used, DATA_HASH0));
    }
    return 0;
}
