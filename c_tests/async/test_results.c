/* Random graphs over 1 to 4 devices with queues: what they compute equals the CPU's result bit for bit, however late
 * the devices are.
 *
 *   test_results FIRST_SEED COUNT   a process for each graph
 *   test_results seed N             one graph, in this process */
#include "common.h"

#include <sys/wait.h>

/* ---- random devices ---- */

static uint32_t op_seed;
static int op_percent[MAX_DEVICES];

#define SUPPORTS(n) static bool supports_##n(const struct ggml_tensor * t) { \
    return (int) (mix(op_seed + n, (uint32_t) t->op * 2 + (t->ne[0] > 64)) % 100) < op_percent[n]; }
SUPPORTS(0) SUPPORTS(1) SUPPORTS(2) SUPPORTS(3)
static bool (*const supports[])(const struct ggml_tensor *) = { supports_0, supports_1, supports_2, supports_3 };
static void random_devices(void) {
    int n = any(4);
    op_seed = mix(state, 5);
    for (int i = 0; i < n; i++) {
        struct device * d = plain(i, "");
        snprintf(d->name, sizeof(d->name), "GPU%d", i);
        d->queue = odds(85);
        d->transfers = odds(60);
        d->events = d->queue && odds(60);
        d->copies = d->queue && odds(70);
        d->host_copies = odds(60);
        d->reads_host = odds(20);
        d->unmapped = odds(60);
        d->only_set_2d = odds(20);
        d->only_get_2d = odds(20);
        d->slow = odds(30) ? 0 : 1 + any(400);
        d->max_size = odds(60) ? 0 : (size_t) 65536 << any(4);
        d->alignment = (size_t) 32 << any(4);
        d->padding = odds(30) ? 512 : 0;
        d->poison = odds(30) ? 0xff : -1;
        op_percent[i] = odds(40) ? 100 : 30 + any(70);
        d->supports = supports[i];
        d->offloads = odds(40) ? offloads_products : NULL;
    }
    start(n);
}

/* ---- models and graphs ---- */

enum { D = 64, E = 8, MAX_OUT = 8, MAX_IN = 4, N_W = 6, N_CACHE = 2 };

struct model {
    struct ggml_context * ctx[MAX_DEVICES + 1];
    ggml_backend_buffer_t buffer[MAX_DEVICES + 1];
    struct ggml_tensor * w[N_W], * bias[N_W], * experts[2], * cache[N_CACHE];
};

/* Weights and caches; `where`: the device of each, n_devices for the CPU. */
static bool make_model(struct model * m, uint32_t seed, const int * where) {
    memset(m, 0, sizeof(*m));
    for (int d = 0; d <= n_devices; d++) m->ctx[d] = new_ctx(ggml_tensor_overhead() * 64);
    int k = 0;
    for (int i = 0; i < N_W; i++) {
        m->w[i] = ggml_new_tensor_2d(m->ctx[where[k]], i % 3 == 2 ? GGML_TYPE_Q8_0 : GGML_TYPE_F32, D, D); k++;
        m->bias[i] = ggml_new_tensor_1d(m->ctx[where[k]], GGML_TYPE_F32, D); k++;
        ggml_format_name(m->w[i], "w%d", i);
        ggml_format_name(m->bias[i], "b%d", i);
    }
    for (int i = 0; i < 2; i++) {
        m->experts[i] = ggml_new_tensor_3d(m->ctx[where[k]], GGML_TYPE_F32, D, D, E); k++;
        ggml_format_name(m->experts[i], "e%d", i);
    }
    bool good = true;
    for (int d = 0; d <= n_devices; d++) {
        if (ggml_get_first_tensor(m->ctx[d]) == NULL) continue;
        m->buffer[d] = ggml_backend_alloc_ctx_tensors(m->ctx[d], backends[d]);
        good = good && m->buffer[d] != NULL;
        if (m->buffer[d] != NULL) ggml_backend_buffer_set_usage(m->buffer[d], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    for (int i = 0; good && i < N_W; i++) {
        set_random(m->w[i], mix(seed, 100 + (uint32_t) i), 0.2f);
        set_random(m->bias[i], mix(seed, 200 + (uint32_t) i), 1.0f);
    }
    for (int i = 0; good && i < 2; i++) set_random(m->experts[i], mix(seed, 300 + (uint32_t) i), 0.2f);
    return good;
}

struct caches {
    struct ggml_context * ctx[N_CACHE];
    ggml_backend_buffer_t buffer[N_CACHE];
};

static bool make_caches(struct model * m, struct caches * c, const int * where) {
    for (int i = 0; i < N_CACHE; i++) {
        c->ctx[i] = new_ctx(ggml_tensor_overhead() * 2);
        m->cache[i] = ggml_new_tensor_2d(c->ctx[i], GGML_TYPE_F32, D, 64);
        ggml_format_name(m->cache[i], "cache%d", i);
        c->buffer[i] = ggml_backend_alloc_ctx_tensors(c->ctx[i], backends[where[i]]);
        if (c->buffer[i] == NULL) return false;
        ggml_backend_buffer_clear(c->buffer[i], 0);
    }
    return true;
}

static void free_model(struct model * m, struct caches * c) {
    for (int d = 0; d <= n_devices; d++) { ggml_backend_buffer_free(m->buffer[d]); ggml_free(m->ctx[d]); }
    for (int i = 0; i < N_CACHE; i++) { ggml_backend_buffer_free(c->buffer[i]); ggml_free(c->ctx[i]); }
}

struct made {
    struct ggml_cgraph * graph;
    struct ggml_tensor * in[MAX_IN], * rows, * ids, * out[MAX_OUT];
    int n_in, n_out;
};

/* A graph whose shape depends on `seed` alone. `keep`: inputs keep their memory to themselves. */
static struct made make(struct ggml_context * ctx, const struct model * m, uint32_t seed, int n_ops, int T, bool keep) {
    static struct ggml_tensor * pool[4096];
    uint32_t saved = state;
    state = seed;
    struct made r;
    memset(&r, 0, sizeof(r));
    r.graph = ggml_new_graph_custom(ctx, 2048, false);
    int n = 0;
    r.n_in = 1 + any(MAX_IN);
    for (int i = 0; i < r.n_in; i++) {
        r.in[i] = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, D, T);
        ggml_format_name(r.in[i], "in%d", i);
        pool[n++] = r.in[i];
    }
    r.rows = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, T);
    r.ids = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, 2, T);
    ggml_set_name(r.rows, "rows");
    ggml_set_name(r.ids, "ids");
    struct ggml_tensor * all[MAX_IN + 2];
    for (int i = 0; i < r.n_in; i++) all[i] = r.in[i];
    all[r.n_in] = r.rows; all[r.n_in + 1] = r.ids;
    for (int i = 0; i < r.n_in + 2; i++) {
        ggml_set_input(all[i]);
        if (keep) ggml_set_output(all[i]);
        ggml_build_forward_expand(r.graph, all[i]);
    }
    int span = odds(30) ? 1000 : 5;
    for (int i = 0; i < n_ops; i++) {
        struct ggml_tensor * a = pool[n > span ? n - 1 - any(span) : any(n)], * b = pool[n > span ? n - 1 - any(span) : any(n)], * t;
        switch (any(20)) {
            case 0: case 1: t = ggml_add(ctx, a, b); break;
            case 2: t = ggml_mul(ctx, a, m->bias[any(N_W)]); break;
            case 3: case 4: case 5: t = ggml_mul_mat(ctx, m->w[any(N_W)], a); break;
            case 6: t = ggml_rms_norm(ctx, a, 1e-5f); break;
            case 7: t = ggml_silu(ctx, a); break;
            case 8: t = ggml_scale(ctx, a, 0.5f); break;
            case 9: t = ggml_scale(ctx, ggml_add(ctx, a, b), 0.25f); break; /* the allocator computes it in place */
            case 10: t = ggml_cont(ctx, a); break;
            case 11: { /* written to a cache, and read back with what was there before */
                struct ggml_tensor * c = m->cache[any(N_CACHE)];
                struct ggml_tensor * v = ggml_view_2d(ctx, c, D, T, c->nb[1], c->nb[1] * (size_t) any(16));
                struct ggml_tensor * w = ggml_cpy(ctx, a, v);
                t = ggml_add(ctx, a, w);
                break;
            }
            case 12: t = ggml_soft_max(ctx, a); break;
            case 13: { /* views of an input */
                struct ggml_tensor * x = r.in[any(r.n_in)];
                int first = any(T);
                t = ggml_add(ctx, a, ggml_view_2d(ctx, x, D, 1, x->nb[1], x->nb[1] * (size_t) first));
                break;
            }
            case 14: {
                struct ggml_tensor * p = ggml_permute(ctx, ggml_reshape_3d(ctx, a, D / 4, 4, T), 0, 2, 1, 3);
                t = ggml_reshape_2d(ctx, ggml_cont(ctx, p), D, T);
                break;
            }
            case 15: {
                struct ggml_tensor * x = ggml_mul_mat_id(ctx, m->experts[any(2)], ggml_reshape_3d(ctx, a, D, 1, T), r.ids);
                t = ggml_cont(ctx, ggml_view_2d(ctx, x, D, T, x->nb[2], 0));
                break;
            }
            case 16: t = ggml_get_rows(ctx, a, r.rows); break;
            case 17: t = ggml_rms_norm(ctx, ggml_mul(ctx, a, b), 1e-5f); break;
            case 18: t = ggml_get_rows(ctx, m->w[any(N_W)], r.rows); break;
            default: t = ggml_add(ctx, ggml_mul_mat(ctx, m->w[any(N_W)], a), m->bias[any(N_W)]); break;
        }
        ggml_format_name(t, "t%d", i);
        if (odds(10)) ggml_build_forward_expand(r.graph, t);
        /* the base of a view is no result, so its memory may be used again */
        if (r.n_out < MAX_OUT - 1 && t->view_src == NULL && odds(8)) { ggml_set_output(t); ggml_build_forward_expand(r.graph, t); r.out[r.n_out++] = t; }
        pool[n++] = t;
    }
    struct ggml_tensor * last = ggml_add(ctx, pool[n - 1], pool[0]);
    ggml_set_output(last);
    ggml_build_forward_expand(r.graph, last);
    r.out[r.n_out++] = last;
    state = saved;
    return r;
}

static void write_to(struct ggml_tensor * t, const void * data, bool direct) {
    if (t->buffer == NULL) return;
    if (direct && ggml_backend_buffer_is_host(t->buffer)) memcpy(t->data, data, ggml_nbytes(t));
    else ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
}

/* The inputs of a step; seed 0: nonsense. */
static void set_inputs(const struct made * g, uint32_t seed, bool direct) {
    static float x[D * 64];
    static int32_t n[128];
    int T = (int) g->rows->ne[0];
    for (int i = 0; i < g->n_in; i++) {
        fill(x, (size_t) (D * T), mix(seed, (uint32_t) i), 1.0f);
        write_to(g->in[i], x, direct);
    }
    for (int i = 0; i < T; i++) n[i] = (int32_t) (mix(seed, 40 + (uint32_t) i) % (uint32_t) T);
    write_to(g->rows, n, direct);
    for (int i = 0; i < T; i++) {
        n[2 * i] = (int32_t) (mix(seed, 90 + (uint32_t) i) % E);
        n[2 * i + 1] = (n[2 * i] + 3) % E;
    }
    write_to(g->ids, n, direct);
}

/* ---- results ---- */

enum { EQUAL = 0, DIFFERENT = 1, ABORTED = 3, IMPOSSIBLE = 4, RACE = 5 };

static void on_abort(const char * text) {
    fprintf(stderr, "%s\n", text);
    _exit(ABORTED);
}

static int run_seed(uint32_t seed) {
    state = mix(seed, 1);
    random_devices();
    int where[2 * N_W + 2], cache_where[N_CACHE], cpu_where[2 * N_W + 2], cpu_cache[N_CACHE];
    for (int i = 0; i < 2 * N_W + 2; i++) { where[i] = any(n_devices + 1); cpu_where[i] = n_devices; }
    for (int i = 0; i < N_CACHE; i++) { cache_where[i] = odds(50) ? n_devices : any(n_devices + 1); cpu_cache[i] = n_devices; }
    struct model m, ref;
    struct caches c, ref_c;
    if (!make_model(&m, seed, where) || !make_caches(&m, &c, cache_where) || !make_model(&ref, seed, cpu_where) || !make_caches(&ref, &ref_c, cpu_cache)) return IMPOSSIBLE;
    bool parallel = odds(60), host_readers = false;
    for (int i = 0; i < n_devices; i++) host_readers = host_readers || devices[i].reads_host;
    ggml_backend_sched_t s = ggml_backend_sched_new(backends, NULL, n_devices + 1, 2048, parallel, odds(60));
    ggml_gallocr_t ga = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backends[n_devices]));
    size_t bytes = ggml_tensor_overhead() * 4096 + ggml_graph_overhead_custom(2048, false);
    struct ggml_context * ctx = new_ctx(bytes), * ref_ctx = new_ctx(bytes);
    uint32_t shape = mix(seed, 7);
    int n_ops = 3 + any(40), T = 2 + any(24), steps = 4 + any(8), pin = odds(30) ? any(n_ops) : -1;
    if (odds(50)) {
        struct made g = make(ctx, &m, shape, n_ops, T, host_readers);
        if (!ggml_backend_sched_reserve(s, g.graph)) return IMPOSSIBLE;
    }
    static float got[16][MAX_OUT][D * 32], want[16][MAX_OUT][D * 32];
    size_t sizes[16][MAX_OUT];
    int n_out[16];
    struct made g = { 0 };
    for (int i = 0; i < steps; i++) {
        bool again = i > 0 && odds(30), direct = odds(50);
        if (!again) {
            if (odds(10)) shape = mix(shape, 9);
            int t = odds(60) ? T : 1 + any(T);
            ggml_backend_sched_reset(s);
            ggml_reset(ctx);
            ggml_reset(ref_ctx);
            g = make(ctx, &m, shape, n_ops, t, host_readers);
            struct ggml_tensor * pinned = pin >= 0 ? ggml_graph_node(g.graph, pin % ggml_graph_n_nodes(g.graph)) : NULL;
            ggml_backend_t to = backends[any(n_devices + 1)];
            /* a view belongs where its base is */
            if (pinned != NULL && pinned->view_src == NULL) ggml_backend_sched_set_tensor_backend(s, pinned, to);
            if (!ggml_backend_sched_alloc_graph(s, g.graph)) return IMPOSSIBLE;
        }
        set_inputs(&g, mix(seed, 1000 + (uint32_t) i), direct);
        if (ggml_backend_sched_graph_compute_async(s, g.graph) != GGML_STATUS_SUCCESS) return IMPOSSIBLE;
        for (int k = 0; k < g.n_out; k++) {
            ggml_backend_t b = ggml_backend_sched_get_tensor_backend(s, g.out[k]);
            ggml_backend_tensor_get_async(b, g.out[k], got[i][k], 0, ggml_nbytes(g.out[k]));
            /* a device's result in host memory: there the host writes next */
            if (ggml_backend_buffer_is_host(buffer_of(g.out[k]))) ggml_backend_synchronize(b);
            sizes[i][k] = ggml_nbytes(g.out[k]);
        }
        if (careful) ggml_backend_sched_synchronize(s);
        set_inputs(&g, 0, direct); /* nonsense, at once */
        n_out[i] = g.n_out;
        int t = (int) g.rows->ne[0];
        ggml_reset(ref_ctx);
        struct made r = make(ref_ctx, &ref, shape, n_ops, t, false);
        if (!ggml_gallocr_alloc_graph(ga, r.graph)) return IMPOSSIBLE;
        set_inputs(&r, mix(seed, 1000 + (uint32_t) i), false);
        if (ggml_backend_graph_compute(backends[n_devices], r.graph) != GGML_STATUS_SUCCESS) return IMPOSSIBLE;
        for (int k = 0; k < r.n_out; k++) ggml_backend_tensor_get(r.out[k], want[i][k], 0, ggml_nbytes(r.out[k]));
        if (odds(15)) ggml_backend_sched_synchronize(s);
    }
    ggml_backend_sched_synchronize(s);
    int result = EQUAL;
    for (int i = 0; i < steps; i++) for (int k = 0; k < n_out[i]; k++) {
        if (memcmp(got[i][k], want[i][k], sizes[i][k]) != 0 && result == EQUAL) {
            fprintf(stderr, "seed %u: step %d of %d, output %d of %d: %g, expected %g; parallel %d, %d devices\n", seed, i, steps, k, n_out[i], (double) got[i][k][0],
                    (double) want[i][k][0], parallel, n_devices);
            result = DIFFERENT;
        }
    }
    ggml_backend_sched_free(s);
    ggml_gallocr_free(ga);
    ggml_free(ctx);
    ggml_free(ref_ctx);
    free_model(&m, &c);
    free_model(&ref, &ref_c);
    stop();
    return races > 0 ? RACE : test_why[0] != '\0' ? DIFFERENT : result;
}

static void results(uint32_t first, int count) {
    int of[8] = { 0 }, crashed = 0;
    for (int i = 0; i < count; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) _exit(run_seed(first + (uint32_t) i));
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) < 0) exit(2);
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        if (code < 0 || code > 7) { crashed++; fprintf(stderr, "seed %u: crashed, status %d\n", first + (uint32_t) i, status); }
        else of[code]++;
        if (code != EQUAL && code != IMPOSSIBLE) fprintf(stderr, "seed %u: result %d\n", first + (uint32_t) i, code);
    }
    test_begin();
    if (of[EQUAL] == 0 || of[DIFFERENT] + of[RACE] + crashed + (careful ? 0 : of[ABORTED]) > 0 || of[IMPOSSIBLE] + of[ABORTED] > count / 4) {
        test_fails(__FILE__, __LINE__, "%d equal, %d different, %d races, %d ended the process, %d crashed, %d impossible", of[EQUAL], of[DIFFERENT], of[RACE], of[ABORTED],
                   crashed, of[IMPOSSIBLE]);
    }
    char name[160];
    snprintf(name, sizeof(name), "random graphs over 1 to 4 devices equal the CPU's: %d of %d (%d impossible)", of[EQUAL], count, of[IMPOSSIBLE] + of[ABORTED]);
    test_end(name);
}

int main(int argc, char ** argv) {
    begin();
    if (argc == 3 && strcmp(argv[1], "seed") == 0) return run_seed((uint32_t) strtoul(argv[2], NULL, 10));
    ggml_set_abort_callback(on_abort);
    results(argc > 1 ? (uint32_t) strtoul(argv[1], NULL, 10) : 1, argc > 2 ? atoi(argv[2]) : 100);
    return test_summary();
}
