/* Tensor parallelism: a small transformer on a meta device over 1 to 5 CPUs, or over the devices that arguments name in
 * turns, gives the results of one CPU. */
#include "../common/check.h"
#include "../common/data.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <math.h>

enum { HEADS = 4, HEAD = 8, WIDTH = HEADS * HEAD, HIDDEN = 96, TOKENS = 5, EXPERTS = 4, USED = 2, CELLS = 16 };

static int lines;

static char ** named;
static int     n_named;

/* Device `d` of those that a meta device spreads over. */
static ggml_backend_dev_t device(int d) {
    return n_named > 0 ? ggml_backend_dev_by_name(named[d % n_named]) : ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
}

static void count_line(enum ggml_log_level level, const char * text, void * data) {
    (void) level, (void) text, (void) data;
    lines++;
}

/* Heads of device `d` of `n`: all devices get some, the first ones more; with more devices than heads the last get
 * none. */
static int64_t heads_of(int d, int n) {
    return (d + 1) * HEADS / n - d * HEADS / n;
}

struct plan {
    int n; /* devices */
};

/* Weights are spread by name: "q" by rows in heads, "kv" with two equal segments, "down" by columns, "cache" by
 * heads. */
static struct ggml_backend_meta_split_state spread(const struct ggml_tensor * t, void * userdata) {
    const struct plan *                  plan = userdata;
    struct ggml_backend_meta_split_state s;
    memset(&s, 0, sizeof s);
    s.axis       = GGML_BACKEND_SPLIT_AXIS_MIRRORED;
    s.nr[0]      = 1;
    s.n_segments = 1;
    int64_t unit = 0;
    if (strcmp(t->name, "q") == 0 || strcmp(t->name, "q_bias") == 0) {
        s.axis = t->ne[1] > 1 ? GGML_BACKEND_SPLIT_AXIS_1 : GGML_BACKEND_SPLIT_AXIS_0;
        unit   = HEAD;
    } else if (strcmp(t->name, "kv") == 0) {
        s.axis  = GGML_BACKEND_SPLIT_AXIS_1;
        s.nr[0] = 2;
        unit    = HEAD;
    } else if (strncmp(t->name, "cache", 5) == 0 || strcmp(t->name, "out") == 0) {
        s.axis = GGML_BACKEND_SPLIT_AXIS_0;
        unit   = HEAD;
    } else if (strcmp(t->name, "up") == 0 || strcmp(t->name, "ex_up") == 0) {
        s.axis = GGML_BACKEND_SPLIT_AXIS_1;
        unit   = HIDDEN / HEADS;
    } else if (strcmp(t->name, "down") == 0 || strcmp(t->name, "ex_down") == 0) {
        s.axis = GGML_BACKEND_SPLIT_AXIS_0;
        unit   = HIDDEN / HEADS;
    }
    for (int d = 0; d < plan->n && s.axis != GGML_BACKEND_SPLIT_AXIS_MIRRORED; d++) {
        s.ne[d] = heads_of(d, plan->n) * unit;
    }
    return s;
}

struct model {
    struct ggml_context *  ctx;
    ggml_backend_buffer_t  buffer;
    struct ggml_tensor *   q, *q_bias, *kv, *out, *up, *down, *norm, *router, *ex_up, *ex_down, *cache_k, *cache_v;
};

static struct ggml_tensor * weight(struct model * m, const char * name, enum ggml_type type, int64_t a, int64_t b, int64_t c) {
    struct ggml_tensor * t = ggml_new_tensor_3d(m->ctx, type, a, b, c);
    return ggml_set_name(t, name);
}

static void fill(struct ggml_tensor * t, uint64_t seed) {
    const size_t n = (size_t) ggml_nelements(t);
    float *      x = malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        x[i] = data_float(&seed, -0.5f, 0.5f);
    }
    if (t->type == GGML_TYPE_F32) {
        ggml_backend_tensor_set(t, x, 0, n * sizeof(float));
    } else {
        ggml_fp16_t * h = malloc(n * sizeof(ggml_fp16_t));
        ggml_fp32_to_fp16_row(x, h, (int64_t) n);
        ggml_backend_tensor_set(t, h, 0, n * sizeof(ggml_fp16_t));
        free(h);
    }
    free(x);
}

static bool load(struct model * m, ggml_backend_t backend) {
    const struct ggml_init_params params = { 64 * ggml_tensor_overhead(), NULL, true };
    memset(m, 0, sizeof *m);
    m->ctx     = ggml_init(params);
    m->q       = weight(m, "q", GGML_TYPE_F32, WIDTH, WIDTH, 1);
    m->q_bias  = weight(m, "q_bias", GGML_TYPE_F32, WIDTH, 1, 1);
    m->kv      = weight(m, "kv", GGML_TYPE_F16, WIDTH, 2 * WIDTH, 1);
    m->out     = weight(m, "out", GGML_TYPE_F32, WIDTH, WIDTH, 1);
    m->up      = weight(m, "up", GGML_TYPE_F16, WIDTH, HIDDEN, 1);
    m->down    = weight(m, "down", GGML_TYPE_F32, HIDDEN, WIDTH, 1);
    m->norm    = weight(m, "norm", GGML_TYPE_F32, WIDTH, 1, 1);
    m->router  = weight(m, "router", GGML_TYPE_F32, WIDTH, EXPERTS, 1);
    m->ex_up   = weight(m, "ex_up", GGML_TYPE_F32, WIDTH, HIDDEN, EXPERTS);
    m->ex_down = weight(m, "ex_down", GGML_TYPE_F32, HIDDEN, WIDTH, EXPERTS);
    m->cache_k = weight(m, "cache_k", GGML_TYPE_F16, WIDTH, CELLS, 1);
    m->cache_v = weight(m, "cache_v", GGML_TYPE_F16, WIDTH, CELLS, 1);
    m->buffer  = ggml_backend_alloc_ctx_tensors(m->ctx, backend);
    if (m->buffer == NULL) {
        return false;
    }
    uint64_t seed = 1;
    for (struct ggml_tensor * t = ggml_get_first_tensor(m->ctx); t != NULL; t = ggml_get_next_tensor(m->ctx, t)) {
        fill(t, seed++);
    }
    ggml_backend_buffer_clear(m->buffer, 0);
    seed = 1;
    for (struct ggml_tensor * t = ggml_get_first_tensor(m->ctx); t != NULL; t = ggml_get_next_tensor(m->ctx, t)) {
        fill(t, seed++);
    }
    return true;
}

static void unload(struct model * m) {
    ggml_backend_buffer_free(m->buffer);
    ggml_free(m->ctx);
}

struct inputs {
    struct ggml_tensor *x, *pos, *rows, *mask;
};

/* Attention over a cache, a dense block and a block of experts. */
static struct ggml_tensor * build(struct ggml_context * c, struct ggml_cgraph * graph, struct model * m, struct inputs * in) {
    in->x    = ggml_new_tensor_2d(c, GGML_TYPE_F32, WIDTH, TOKENS);
    in->pos  = ggml_new_tensor_1d(c, GGML_TYPE_I32, TOKENS);
    in->rows = ggml_new_tensor_1d(c, GGML_TYPE_I64, TOKENS);
    in->mask = ggml_new_tensor_2d(c, GGML_TYPE_F16, CELLS, TOKENS);
    ggml_set_input(in->x), ggml_set_input(in->pos), ggml_set_input(in->rows), ggml_set_input(in->mask);
    struct ggml_tensor * h = ggml_mul(c, ggml_rms_norm(c, in->x, 1e-5f), m->norm);
    struct ggml_tensor * q = ggml_add(c, ggml_mul_mat(c, m->q, h), m->q_bias);
    q                      = ggml_rope(c, ggml_reshape_3d(c, q, HEAD, HEADS, TOKENS), in->pos, HEAD, 0);
    struct ggml_tensor * kv = ggml_mul_mat(c, m->kv, h);
    struct ggml_tensor * k  = ggml_view_2d(c, kv, WIDTH, TOKENS, kv->nb[1], 0);
    struct ggml_tensor * v  = ggml_view_2d(c, kv, WIDTH, TOKENS, kv->nb[1], WIDTH * sizeof(float));
    k = ggml_reshape_2d(c, ggml_rope(c, ggml_reshape_3d(c, ggml_cont(c, k), HEAD, HEADS, TOKENS), in->pos, HEAD, 0), WIDTH, TOKENS);
    ggml_build_forward_expand(graph, ggml_set_rows(c, m->cache_k, k, in->rows));
    ggml_build_forward_expand(graph, ggml_set_rows(c, m->cache_v, ggml_cont(c, v), in->rows));
    const size_t         row = ggml_row_size(GGML_TYPE_F16, WIDTH), head = ggml_row_size(GGML_TYPE_F16, HEAD);
    struct ggml_tensor * keys   = ggml_permute(c, ggml_view_3d(c, m->cache_k, HEAD, HEADS, CELLS, head, row, 0), 0, 2, 1, 3);
    struct ggml_tensor * values = ggml_permute(c, ggml_view_3d(c, m->cache_v, HEAD, HEADS, CELLS, head, row, 0), 0, 2, 1, 3);
    struct ggml_tensor * a = ggml_flash_attn_ext(c, ggml_permute(c, q, 0, 2, 1, 3), keys, values, in->mask, 0.35f, 0.0f, 0.0f);
    a                      = ggml_mul_mat(c, m->out, ggml_reshape_2d(c, a, WIDTH, TOKENS));
    struct ggml_tensor * x = ggml_add(c, in->x, a);
    h                      = ggml_mul(c, ggml_rms_norm(c, x, 1e-5f), m->norm);
    x                      = ggml_add(c, x, ggml_mul_mat(c, m->down, ggml_silu(c, ggml_mul_mat(c, m->up, h))));
    /* the experts: chosen by the router, weighted, added up */
    struct ggml_tensor * p   = ggml_soft_max(c, ggml_mul_mat(c, m->router, x));
    struct ggml_tensor * ids = ggml_argsort_top_k(c, p, USED);
    struct ggml_tensor * w   = ggml_get_rows(c, ggml_reshape_3d(c, p, 1, EXPERTS, TOKENS), ids);
    struct ggml_tensor * e   = ggml_mul_mat_id(c, m->ex_up, ggml_reshape_3d(c, x, WIDTH, 1, TOKENS), ids);
    e                        = ggml_mul(c, ggml_mul_mat_id(c, m->ex_down, ggml_silu(c, e), ids), w);
    struct ggml_tensor * sum = NULL;
    for (int i = 0; i < USED; i++) {
        struct ggml_tensor * one = ggml_view_2d(c, e, WIDTH, TOKENS, e->nb[2], (size_t) i * e->nb[1]);
        sum                      = sum == NULL ? one : ggml_add(c, sum, one);
    }
    x = ggml_add(c, x, sum);
    ggml_set_output(x);
    ggml_build_forward_expand(graph, x);
    return x;
}

/* Computes `steps` graphs over one cache on backend 0 of the scheduler; the outputs of all steps go to `result`. */
static bool run(ggml_backend_t backend, float * result, int steps, int * splits) {
    struct model m;
    if (!load(&m, backend)) {
        return false;
    }
    ggml_backend_t       cpu      = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ggml_backend_t       list[2]  = { backend, cpu };
    ggml_backend_sched_t sched    = ggml_backend_sched_new(list, NULL, 2, 256, false, true);
    bool                 ok       = true;
    for (int step = 0; step < steps && ok; step++) {
        const struct ggml_init_params params = { 128 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL, true };
        struct ggml_context *         c      = ggml_init(params);
        struct ggml_cgraph *          graph  = ggml_new_graph(c);
        struct inputs                 in;
        struct ggml_tensor *          out = build(c, graph, &m, &in);
        ggml_backend_sched_reset(sched);
        ok = ggml_backend_sched_alloc_graph(sched, graph);
        if (ok) {
            int32_t     pos[TOKENS];
            int64_t     rows[TOKENS];
            ggml_fp16_t mask[TOKENS * CELLS];
            for (int i = 0; i < TOKENS; i++) {
                pos[i] = step * TOKENS + i, rows[i] = step * TOKENS + i;
                for (int j = 0; j < CELLS; j++) {
                    mask[i * CELLS + j] = ggml_fp32_to_fp16(j <= step * TOKENS + i ? 0.0f : -INFINITY);
                }
            }
            ggml_backend_tensor_set(in.pos, pos, 0, sizeof pos);
            ggml_backend_tensor_set(in.rows, rows, 0, sizeof rows);
            ggml_backend_tensor_set(in.mask, mask, 0, sizeof mask);
            fill(in.x, 100 + (uint64_t) step);
            ok = ggml_backend_sched_graph_compute(sched, graph) == GGML_STATUS_SUCCESS;
            *splits = ggml_backend_sched_get_n_splits(sched);
            ggml_backend_tensor_get(out, result + step * WIDTH * TOKENS, 0, WIDTH * TOKENS * sizeof(float));
        }
        ggml_free(c);
    }
    ggml_backend_sched_free(sched);
    ggml_backend_free(cpu);
    unload(&m);
    return ok;
}

enum { STEPS = 3, RESULTS = STEPS * WIDTH * TOKENS };

static void transformer_on(int n) {
    static float expected[RESULTS], got[RESULTS];
    int          splits = 0;
    ggml_backend_t cpu = ggml_backend_cpu_init();
    CHECK(run(cpu, expected, STEPS, &splits));
    ggml_backend_free(cpu);
    struct plan        plan    = { n };
    ggml_backend_dev_t devs[8];
    for (int i = 0; i < n; i++) {
        devs[i] = device(i);
        CHECK(devs[i] != NULL);
    }
    ggml_backend_dev_t dev = ggml_backend_meta_device(devs, (size_t) n, spread, &plan);
    CHECK(dev != NULL);
    if (dev == NULL) {
        return;
    }
    CHECK(ggml_backend_meta_device(devs, (size_t) n, spread, &plan) == dev);
    CHECK_EQ(ggml_backend_dev_type(dev), GGML_BACKEND_DEVICE_TYPE_META);
    ggml_backend_t meta = ggml_backend_dev_init(dev, NULL);
    CHECK(run(meta, got, STEPS, &splits));
    CHECK_EQ(splits, 1);
    double error = 0, size = 0;
    for (int i = 0; i < RESULTS; i++) {
        error += (double) (got[i] - expected[i]) * (got[i] - expected[i]);
        size += (double) expected[i] * expected[i];
    }
    /* sums of single-precision products in another order, and a cache of half-precision numbers */
    CHECK_NEAR(error / size, 0, 1e-6);
    CHECK(size > 1);
    ggml_backend_free(meta);
}

static void on_1_device(void) { transformer_on(1); }
static void on_2_devices(void) { transformer_on(2); }
static void on_3_devices(void) { transformer_on(3); }
static void on_4_devices(void) { transformer_on(4); }
static void on_5_devices_of_which_one_has_no_head(void) { transformer_on(5); }

static void names_and_properties(void) {
    struct plan            plan    = { 2 };
    ggml_backend_dev_t     cpu     = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    ggml_backend_dev_t     devs[2] = { cpu, cpu };
    ggml_backend_dev_t     dev     = ggml_backend_meta_device(devs, 2, spread, &plan);
    struct ggml_backend_dev_props props;
    ggml_backend_dev_get_props(dev, &props);
    CHECK_STR(ggml_backend_dev_name(dev), "Meta(CPU,CPU)");
    CHECK(!props.caps.events && !props.caps.host_buffer && !props.caps.buffer_from_host_ptr);
    ggml_backend_buffer_type_t buft = ggml_backend_dev_buffer_type(dev);
    CHECK_STR(ggml_backend_buft_name(buft), "Meta(CPU,CPU)");
    CHECK(ggml_backend_dev_supports_buft(dev, buft));
    CHECK(!ggml_backend_dev_supports_buft(dev, ggml_backend_cpu_buffer_type()));
    CHECK(ggml_backend_dev_backend_reg(dev) == NULL);
    ggml_backend_t backend = ggml_backend_dev_init(dev, NULL);
    CHECK_STR(ggml_backend_name(backend), "Meta(CPU,CPU)");
    ggml_backend_free(backend);
}

/* What is written comes back, whole or in rows, however it is spread. */
static void bytes_come_back(void) {
    struct plan         plan = { 3 };
    ggml_backend_dev_t  devs[3] = { device(0), device(1), device(2) };
    ggml_backend_t      meta = ggml_backend_dev_init(ggml_backend_meta_device(devs, 3, spread, &plan), NULL);
    struct model        m;
    CHECK(load(&m, meta));
    for (struct ggml_tensor * t = ggml_get_first_tensor(m.ctx); t != NULL; t = ggml_get_next_tensor(m.ctx, t)) {
        const size_t    n = ggml_nbytes(t);
        unsigned char * a = malloc(n);
        unsigned char * b = calloc(n, 1);
        uint64_t        seed = 7;
        for (size_t i = 0; i < n; i++) {
            a[i] = (unsigned char) data_next(&seed);
        }
        ggml_backend_tensor_set(t, a, 0, n);
        ggml_backend_tensor_get(t, b, 0, n);
        CHECK(memcmp(a, b, n) == 0);
        if (t->ne[1] > 2 && t->ne[2] == 1 && strcmp(t->name, "kv") != 0 && strcmp(t->name, "up") != 0 && strcmp(t->name, "q") != 0) {
            ggml_backend_tensor_set(t, a, t->nb[1], 2 * t->nb[1]);
            memset(b, 0, n);
            ggml_backend_tensor_get(t, b, t->nb[1], t->nb[1]);
            CHECK(memcmp(a, b, t->nb[1]) == 0);
        }
        ggml_backend_tensor_memset(t, 0, 0, n);
        ggml_backend_tensor_get(t, b, 0, n);
        for (size_t i = 0; i < n; i++) {
            CHECK(b[i] == 0);
        }
        free(a);
        free(b);
    }
    unload(&m);
    ggml_backend_free(meta);
}

#ifdef GGML_RS
/* The original ends the process for these. */
static struct ggml_backend_meta_split_state nonsense(const struct ggml_tensor * t, void * userdata) {
    struct ggml_backend_meta_split_state s = spread(t, userdata);
    s.ne[0] += 1;
    return s;
}

static void what_cannot_be_spread_fails(void) {
    struct plan        plan    = { 2 };
    ggml_backend_dev_t cpu     = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    ggml_backend_dev_t devs[2] = { cpu, cpu };
    struct model       m;
    ggml_log_set(count_line, NULL);
    CHECK(ggml_backend_meta_device(devs, 0, spread, &plan) == NULL);
    CHECK(ggml_backend_meta_device(devs, 2, NULL, &plan) == NULL);
    CHECK_EQ(lines, 2);
    ggml_backend_t meta = ggml_backend_dev_init(ggml_backend_meta_device(devs, 2, nonsense, &plan), NULL);
    CHECK(!load(&m, meta));
    CHECK(m.q->data == NULL && m.q->buffer == NULL);
    CHECK(lines > 2);
    ggml_free(m.ctx);
    ggml_backend_free(meta);
    /* a norm over divided rows */
    meta = ggml_backend_dev_init(ggml_backend_meta_device(devs, 2, spread, &plan), NULL);
    CHECK(load(&m, meta));
    const struct ggml_init_params params = { 16 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL, true };
    struct ggml_context *         c      = ggml_init(params);
    struct ggml_cgraph *          graph  = ggml_new_graph(c);
    ggml_build_forward_expand(graph, ggml_rms_norm(c, m.out, 1e-5f));
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(meta));
    lines                 = 0;
    const bool placed = ggml_gallocr_alloc_graph(galloc, graph);
    CHECK(!placed || ggml_backend_graph_compute(meta, graph) != GGML_STATUS_SUCCESS);
    CHECK(lines > 0);
    ggml_gallocr_free(galloc);
    ggml_free(c);
    unload(&m);
    ggml_backend_free(meta);
    ggml_log_set(NULL, NULL);
}

/* A source or a parameter of a newer version: the meta device refuses it, whatever its devices do. */
static void what_is_not_known_is_refused(void) {
    struct plan        plan    = { 2 };
    ggml_backend_dev_t devs[2] = { device(0), device(1) };
    struct model       m;
    ggml_log_set(count_line, NULL);
    ggml_backend_t meta = ggml_backend_dev_init(ggml_backend_meta_device(devs, 2, spread, &plan), NULL);
    CHECK(load(&m, meta));
    const struct ggml_init_params params = { 16 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL, true };
    struct ggml_context *         c      = ggml_init(params);
    struct ggml_cgraph *          graph  = ggml_new_graph(c);
    struct ggml_tensor *          t      = ggml_sqr(c, m.q);
    ggml_build_forward_expand(graph, t);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(meta));
    CHECK(ggml_gallocr_alloc_graph(galloc, graph));
    CHECK(ggml_backend_supports_op(meta, t) && ggml_backend_graph_compute(meta, graph) == GGML_STATUS_SUCCESS);
    t->src[9] = m.q;
    CHECK(!ggml_backend_supports_op(meta, t) && ggml_backend_graph_compute(meta, graph) == GGML_STATUS_FAILED);
    t->src[9]        = NULL;
    t->op_params[15] = 1;
    CHECK(!ggml_backend_supports_op(meta, t) && ggml_backend_graph_compute(meta, graph) == GGML_STATUS_FAILED);
    t->op_params[15] = 0;
    CHECK(ggml_backend_supports_op(meta, t) && ggml_backend_graph_compute(meta, graph) == GGML_STATUS_SUCCESS);
    ggml_gallocr_free(galloc);
    ggml_free(c);
    unload(&m);
    ggml_backend_free(meta);
    ggml_log_set(NULL, NULL);
}
#endif

int main(int argc, char ** argv) {
    named   = argv + 1;
    n_named = argc - 1;
    RUN(names_and_properties);
    RUN(bytes_come_back);
    RUN(on_1_device);
    RUN(on_2_devices);
    RUN(on_3_devices);
    RUN(on_4_devices);
    RUN(on_5_devices_of_which_one_has_no_head);
#ifdef GGML_RS
    RUN(what_cannot_be_spread_fails);
    RUN(what_is_not_known_is_refused);
#endif
    return test_summary();
}
