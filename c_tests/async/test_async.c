/* The scheduler over devices with queues: random graphs equal the CPU's result bit for bit, however late the devices are; regressions by
 * their names (S6 and so on); every allocation, event and computation fails once.
 *
 *   test_async results FIRST_SEED COUNT   random graphs over random devices, in a process each
 *   test_async rows                       the regressions
 *   test_async races                      violations that the race checker reports
 *   test_async faults [quick]             failures
 *
 * ASYNC_CAREFUL=1: wait before inputs are written again, as libraries without this library's contract need. */
#include "device.h"
#include "../common/check.h"

#include <sys/wait.h>

static bool careful;
static int  races, errors;

static void on_log(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (strncmp(text, "race:", 5) == 0) {
        races++;
        fputs(text, stderr);
    }
    if (level == GGML_LOG_LEVEL_ERROR) errors++;
}

static uint32_t mix(uint32_t a, uint32_t b) {
    uint32_t h = (a ^ 0x9E3779B9u) * 0x85EBCA6Bu + b;
    h ^= h >> 15; h *= 0xC2B2AE35u; h ^= h >> 13; h *= 0x27D4EB2Fu; h ^= h >> 16;
    return h;
}
static uint32_t state;
static int  any(int n) { state = mix(state, 77); return n <= 0 ? 0 : (int) (state % (uint32_t) n); }
static bool odds(int percent) { return any(100) < percent; }

/* ---- devices ---- */

static struct device devices[MAX_DEVICES];
static int n_devices; /* without the CPU */
static ggml_backend_t backends[MAX_DEVICES + 1]; /* the last one is the CPU */
static uint32_t op_seed;
static int op_percent[MAX_DEVICES];

#define SUPPORTS(n) static bool supports_##n(const struct ggml_tensor * t) { \
    return (int) (mix(op_seed + n, (uint32_t) t->op * 2 + (t->ne[0] > 64)) % 100) < op_percent[n]; }
SUPPORTS(0) SUPPORTS(1) SUPPORTS(2) SUPPORTS(3)
static bool (*const supports[])(const struct ggml_tensor *) = { supports_0, supports_1, supports_2, supports_3 };
static bool offloads_products(const struct ggml_tensor * t) { return t->op == GGML_OP_MUL_MAT || t->op == GGML_OP_MUL_MAT_ID; }

static struct device * plain(int i, const char * name) {
    struct device * d = &devices[i];
    memset(d, 0, sizeof(*d));
    snprintf(d->name, sizeof(d->name), "%s", name);
    d->type = GGML_BACKEND_DEVICE_TYPE_GPU;
    d->queue = d->transfers = d->events = d->copies = true;
    d->unmapped = true;
    d->poison = -1;
    return d;
}

/* All devices are described: starts them. */
static void start(int n) {
    n_devices = n;
    for (int i = 0; i < n; i++) {
        device_finish(&devices[i]);
        backends[i] = &devices[i].backend;
    }
    backends[n] = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backends[n], 1);
}

static void stop(void) {
    ggml_backend_free(backends[n_devices]);
    for (int i = 0; i < n_devices; i++) {
        CHECK_EQ(devices[i].live_buffers, 0);
        CHECK_EQ(devices[i].live_events, 0);
        device_end(&devices[i]);
    }
}

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

static struct ggml_context * new_ctx(size_t n) {
    struct ggml_init_params p = { n, NULL, true };
    return ggml_init(p);
}

static void fill(float * x, size_t n, uint32_t seed, float scale) {
    for (size_t i = 0; i < n; i++) x[i] = ((float) (mix(seed, (uint32_t) i) % 20001) / 10000.0f - 1.0f) * scale;
}

static void set_random(struct ggml_tensor * t, uint32_t seed, float scale) {
    size_t n = (size_t) ggml_nelements(t);
    float * x = malloc(n * sizeof(float));
    fill(x, n, seed, scale);
    if (t->type == GGML_TYPE_F32) {
        ggml_backend_tensor_set(t, x, 0, ggml_nbytes(t));
    } else {
        void * q = malloc(ggml_nbytes(t));
        ggml_quantize_chunk(t->type, x, q, 0, ggml_nrows(t), t->ne[0], NULL);
        ggml_backend_tensor_set(t, q, 0, ggml_nbytes(t));
        free(q);
    }
    free(x);
}

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
            case 9: t = ggml_scale(ctx, ggml_add(ctx, a, b), 0.25f); break; /* the allocator does that in place by itself */
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
    bool parallel = odds(60), guests = false;
    for (int i = 0; i < n_devices; i++) guests = guests || devices[i].reads_host;
    ggml_backend_sched_t s = ggml_backend_sched_new(backends, NULL, n_devices + 1, 2048, parallel, odds(60));
    ggml_gallocr_t ga = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backends[n_devices]));
    size_t bytes = ggml_tensor_overhead() * 4096 + ggml_graph_overhead_custom(2048, false);
    struct ggml_context * ctx = new_ctx(bytes), * ref_ctx = new_ctx(bytes);
    uint32_t shape = mix(seed, 7);
    int n_ops = 3 + any(40), T = 2 + any(24), steps = 4 + any(8), pin = odds(30) ? any(n_ops) : -1;
    if (odds(50)) {
        struct made g = make(ctx, &m, shape, n_ops, T, guests);
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
            g = make(ctx, &m, shape, n_ops, t, guests);
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

/* ---- regressions ---- */

static struct ggml_tensor * input(struct ggml_context * ctx, const char * name) {
    struct ggml_tensor * t = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 256);
    ggml_set_name(t, name);
    ggml_set_input(t);
    return t;
}
static void put(struct ggml_tensor * t, float v) {
    float x[256];
    for (int i = 0; i < 256; i++) x[i] = v;
    ggml_backend_tensor_set(t, x, 0, sizeof(x));
}
static float peek(struct ggml_tensor * t) {
    float x;
    ggml_backend_tensor_get(t, &x, 100 * sizeof(x), sizeof(x));
    return x;
}
static struct ggml_cgraph * graph_of(struct ggml_context * ctx, struct ggml_tensor * t) {
    struct ggml_cgraph * g = ggml_new_graph_custom(ctx, 64, false);
    ggml_set_output(t);
    ggml_build_forward_expand(g, t);
    return g;
}
static struct ggml_context * small_ctx(void) { return new_ctx(ggml_tensor_overhead() * 64 + 4 * ggml_graph_overhead_custom(64, false)); }

static void slow_gpu(bool events, bool transfers) {
    struct device * d = plain(0, "GPU");
    d->events = events;
    d->transfers = transfers;
    d->host_copies = true;
    d->slow = 20000;
    d->seed = 1;
}

/* One graph computed over and over, the next inputs written as soon as it is started. */
static void reuse(bool events, bool parallel, bool through_view) {
    slow_gpu(events, true);
    start(1);
    ggml_backend_sched_t s = ggml_backend_sched_new(backends, NULL, 2, 64, parallel, false);
    struct ggml_context * ctx = small_ctx();
    struct ggml_tensor * x = input(ctx, "x");
    struct ggml_tensor * seen = through_view ? ggml_view_1d(ctx, x, 256, 0) : x;
    struct ggml_tensor * y = ggml_scale(ctx, ggml_scale(ctx, seen, 2.0f), 3.0f);
    struct ggml_cgraph * g = graph_of(ctx, y);
    for (int i = 0; i < ggml_graph_n_nodes(g); i++) {
        if (!is_view(ggml_graph_node(g, i))) ggml_backend_sched_set_tensor_backend(s, ggml_graph_node(g, i), backends[0]);
    }
    CHECK(ggml_backend_sched_alloc_graph(s, g));
    float got[6][256];
    for (int i = 0; i < 6; i++) {
        if (careful) ggml_backend_sched_synchronize(s);
        put(x, (float) i);
        CHECK_EQ(ggml_backend_sched_graph_compute_async(s, g), GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get_async(backends[0], y, got[i], 0, sizeof(got[i]));
    }
    ggml_backend_sched_synchronize(s);
    for (int i = 0; i < 6; i++) CHECK_NEAR(got[i][100], 6.0f * (float) i, 0);
    ggml_backend_sched_free(s);
    ggml_free(ctx);
    stop();
}
static void S6_inputs_are_written_while_the_device_computes(void) {
    for (int i = 0; i < 8; i++) reuse(i & 1, i & 2, i & 4);
}

static void S4_four_graphs_in_flight(void) {
    float got[2][8][256];
    for (int parallel = 0; parallel < 2; parallel++) {
        slow_gpu(true, true);
        devices[0].slow = 3000;
        start(1);
        ggml_backend_sched_t s = ggml_backend_sched_new(backends, NULL, 2, 64, parallel, false);
        CHECK_EQ(ggml_backend_sched_get_n_copies(s), parallel ? 4 : 1);
        struct ggml_context * ctx = small_ctx();
        for (int i = 0; i < 8; i++) {
            ggml_backend_sched_reset(s);
            ggml_reset(ctx);
            struct ggml_tensor * x = input(ctx, "x");
            struct ggml_tensor * a = ggml_scale(ctx, x, 2.0f), * b = ggml_sqr(ctx, a), * y = ggml_add(ctx, b, x);
            struct ggml_cgraph * g = graph_of(ctx, y);
            ggml_backend_sched_set_tensor_backend(s, a, backends[1]);
            ggml_backend_sched_set_tensor_backend(s, b, backends[0]);
            ggml_backend_sched_set_tensor_backend(s, y, backends[0]);
            CHECK(ggml_backend_sched_alloc_graph(s, g));
            put(x, (float) i);
            CHECK_EQ(ggml_backend_sched_graph_compute_async(s, g), GGML_STATUS_SUCCESS);
            ggml_backend_tensor_get_async(backends[0], y, got[parallel][i], 0, 1024);
            if (careful) ggml_backend_sched_synchronize(s);
        }
        ggml_backend_sched_synchronize(s);
        for (int i = 0; i < 8; i++) CHECK_NEAR(got[parallel][i][100], (float) (4 * i * i + i), 0);
        ggml_backend_sched_free(s);
        ggml_free(ctx);
        stop();
    }
    CHECK(memcmp(got[0], got[1], sizeof(got[0])) == 0);
}

static void S8_transfers_without_functions_wait_for_the_queue(void) {
    slow_gpu(true, false);
    start(1);
    struct ggml_context * ctx = small_ctx();
    struct ggml_tensor * x = input(ctx, "x"), * y = ggml_scale(ctx, x, 2.0f);
    struct ggml_cgraph * g = graph_of(ctx, y);
    ggml_backend_buffer_t b = ggml_backend_alloc_ctx_tensors(ctx, backends[0]);
    put(x, 1.0f);
    CHECK_EQ(ggml_backend_graph_compute_async(backends[0], g), GGML_STATUS_SUCCESS);
    float got[256], more[256];
    for (int i = 0; i < 256; i++) more[i] = 50.0f;
    ggml_backend_tensor_get_async(backends[0], y, got, 0, sizeof(got));
    CHECK_NEAR(got[7], 2.0f, 0);
    CHECK_EQ(ggml_backend_graph_compute_async(backends[0], g), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_set_async(backends[0], x, more, 0, sizeof(more));
    ggml_backend_synchronize(backends[0]);
    CHECK_NEAR(peek(y), 2.0f, 0);
    CHECK_NEAR(peek(x), 50.0f, 0);
    ggml_backend_buffer_free(b);
    ggml_free(ctx);
    stop();
}

static struct ggml_cgraph * chain(struct ggml_context * ctx, struct ggml_tensor ** x, struct ggml_tensor ** y, int n, int64_t size) {
    *x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, size);
    ggml_set_input(*x);
    *y = *x;
    for (int i = 0; i < n; i++) *y = ggml_add(ctx, ggml_scale(ctx, *y, 2.0f), *x);
    return graph_of(ctx, *y);
}

static void S9_reserving_waits_for_graphs_in_flight(void) {
    for (int parallel = 0; parallel < 2; parallel++) {
        slow_gpu(true, true);
        devices[0].poison = 0xff;
        start(1);
        ggml_backend_sched_t s = ggml_backend_sched_new(backends, NULL, 2, 64, parallel, false);
        struct ggml_context * ctx = small_ctx(), * large = small_ctx();
        struct ggml_tensor * x, * y, * x2, * y2;
        struct ggml_cgraph * g = chain(ctx, &x, &y, 4, 256);
        for (int i = 0; i < ggml_graph_n_nodes(g); i++) ggml_backend_sched_set_tensor_backend(s, ggml_graph_node(g, i), backends[0]);
        CHECK(ggml_backend_sched_alloc_graph(s, g));
        put(x, 1.0f);
        CHECK_EQ(ggml_backend_sched_graph_compute_async(s, g), GGML_STATUS_SUCCESS);
        float got[256];
        ggml_backend_tensor_get_async(backends[0], y, got, 0, sizeof(got));
        struct ggml_cgraph * g2 = chain(large, &x2, &y2, 8, 1 << 18);
        for (int i = 0; i < ggml_graph_n_nodes(g2); i++) ggml_backend_sched_set_tensor_backend(s, ggml_graph_node(g2, i), backends[0]);
        CHECK(ggml_backend_sched_reserve(s, g2)); /* frees the buffers that the first graph computes in */
        CHECK_NEAR(got[100], 31.0f, 0);
        ggml_backend_sched_free(s);
        ggml_free(ctx);
        ggml_free(large);
        stop();
    }
}

static void S18_graphs_that_share_tensors_take_turns(void) {
    slow_gpu(true, true);
    devices[0].slow = 300;
    start(1);
    ggml_backend_sched_t s = ggml_backend_sched_new(backends, NULL, 2, 64, false, false);
    struct ggml_context * ctx = small_ctx();
    struct ggml_tensor * x = input(ctx, "x"), * shared = ggml_scale(ctx, x, 2.0f);
    struct ggml_tensor * a = ggml_scale(ctx, shared, 3.0f), * b = ggml_sqr(ctx, shared);
    struct ggml_cgraph * g[2] = { graph_of(ctx, a), graph_of(ctx, b) };
    for (int i = 0; i < 6; i++) {
        ggml_backend_sched_reset(s);
        ggml_backend_sched_set_tensor_backend(s, shared, backends[1]);
        ggml_backend_sched_set_tensor_backend(s, a, backends[0]);
        ggml_backend_sched_set_tensor_backend(s, b, backends[0]);
        CHECK(ggml_backend_sched_alloc_graph(s, g[i % 2]));
        put(x, (float) i);
        CHECK_EQ(ggml_backend_sched_graph_compute(s, g[i % 2]), GGML_STATUS_SUCCESS);
        CHECK_NEAR(peek(i % 2 == 0 ? a : b), i % 2 == 0 ? 6.0f * (float) i : 4.0f * (float) (i * i), 0);
    }
    ggml_backend_sched_free(s);
    ggml_free(ctx);
    stop();
}

static void S21_pieces_through_one_function_only(void) {
    for (int which = 0; which < 4; which++) {
        slow_gpu(true, which & 1);
        devices[0].slow = 100;
        devices[0].only_set_2d = which & 1;
        devices[0].only_get_2d = which & 2;
        start(1);
        struct ggml_context * ctx = small_ctx();
        struct ggml_tensor * t = input(ctx, "t");
        ggml_backend_buffer_t b = ggml_backend_alloc_ctx_tensors(ctx, backends[0]);
        put(t, 0.0f);
        float from[32], to[32] = { 0 };
        for (int i = 0; i < 32; i++) from[i] = (float) (i + 1);
        /* 8 pieces of 2 numbers: every 4th here, every 16th there */
        ggml_backend_tensor_set_2d(t, from, 8, 8, 8, 64, 16);
        ggml_backend_tensor_get_2d(t, to, 8, 8, 8, 64, 16);
        for (int i = 0; i < 32; i++) CHECK_NEAR(to[i], i % 4 < 2 ? from[i] : 0.0f, 0);
        float all[256];
        ggml_backend_tensor_get(t, all, 0, sizeof(all));
        for (int i = 0; i < 256; i++) CHECK_NEAR(all[i], i < 128 && i % 16 >= 2 && i % 16 < 4 ? from[i / 16 * 4 + i % 16 - 2] : 0.0f, 0);
        memset(to, 0, sizeof(to));
        ggml_backend_tensor_set_2d_async(backends[0], t, from + 1, 8, 8, 7, 64, 16);
        ggml_backend_tensor_get_2d_async(backends[0], t, to, 8, 8, 7, 64, 16);
        ggml_backend_synchronize(backends[0]);
        for (int i = 0; i < 28; i++) CHECK_NEAR(to[i], i % 4 < 2 ? from[i + 1] : 0.0f, 0);
        CHECK_EQ(devices[0].n_2d, (which & 1) + (which & 2) / 2);
        ggml_backend_buffer_free(b);
        ggml_free(ctx);
        stop();
    }
}

/* Rows that a kernel reads past: what is behind a weight, and behind each expert in use, is no garbage. The device poisons new memory with
 * NaN; an expert's tail lies in the next expert, which the scheduler copies too; buffers for computing say that they are. */
static void S22_the_tail_of_copied_weights(void) {
    slow_gpu(true, true);
    devices[0].slow = 0;
    devices[0].poison = 0xff;
    devices[0].unmapped = false;
    devices[0].padding = 512;
    devices[0].offloads = offloads_products;
    start(1);
    struct ggml_context * wctx = small_ctx(), * ctx = small_ctx();
    struct ggml_tensor * w = ggml_new_tensor_3d(wctx, GGML_TYPE_F32, 33, 5, 8); /* rows that are no multiple of anything */
    ggml_backend_buffer_t b = ggml_backend_alloc_ctx_tensors(wctx, backends[1]);
    ggml_backend_buffer_set_usage(b, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    set_random(w, 3, 1.0f);
    ggml_backend_sched_t s = ggml_backend_sched_new(backends, NULL, 2, 64, false, true);
    struct ggml_tensor * x = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 33, 1, 1), * ids = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, 2, 1);
    ggml_set_input(x);
    ggml_set_input(ids);
    struct ggml_tensor * y = ggml_mul_mat_id(ctx, w, x, ids);
    struct ggml_cgraph * g = graph_of(ctx, y);
    CHECK(ggml_backend_sched_alloc_graph(s, g));
    CHECK_EQ(devices[0].last_init_usage, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    float one[33];
    int32_t chosen[2] = { 1, 4 };
    fill(one, 33, 5, 1.0f);
    ggml_backend_tensor_set(x, one, 0, sizeof(one));
    ggml_backend_tensor_set(ids, chosen, 0, sizeof(chosen));
    CHECK_EQ(ggml_backend_sched_graph_compute(s, g), GGML_STATUS_SUCCESS);
    CHECK(ggml_backend_sched_get_tensor_backend(s, y) == backends[0]);
    const float * copy = (const float *) (const void *) real(y->src[0]);
    int matrix = 33 * 5, n_bad = 0, n_copied = 0;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < matrix + 128; i++) n_bad += copy[chosen[k] * matrix + i] != copy[chosen[k] * matrix + i];
    }
    for (int i = 0; i < 8 * matrix; i++) n_copied += copy[i] == copy[i];
    CHECK_EQ(n_bad, 0);
    CHECK_EQ(n_copied, 2 * (matrix + 128));
    ggml_backend_sched_free(s);
    ggml_backend_buffer_free(b);
    ggml_free(ctx);
    ggml_free(wctx);
    stop();
}

/* ---- seeded races: what the checker must report ---- */

static int races_of(void (*f)(struct ggml_cgraph *, struct ggml_tensor *, struct ggml_tensor *)) {
    slow_gpu(true, true);
    struct device * d = plain(1, "GPU1");
    d->slow = 20000;
    start(2);
    /* a scheduler, so that the checker watches */
    ggml_backend_sched_t s = ggml_backend_sched_new(backends, NULL, 3, 64, false, false);
    struct ggml_context * ctx = small_ctx();
    struct ggml_tensor * x = input(ctx, "x"), * y = ggml_scale(ctx, x, 2.0f);
    static int number;
    ggml_format_name(y, "y%d", number++); /* the same race is reported once */
    ggml_format_name(x, "x%d", number);
    struct ggml_cgraph * g = graph_of(ctx, y);
    ggml_backend_buffer_t b = ggml_backend_alloc_ctx_tensors(ctx, backends[0]);
    put(x, 1.0f);
    int before = races;
    CHECK_EQ(ggml_backend_graph_compute_async(backends[0], g), GGML_STATUS_SUCCESS);
    f(g, x, y);
    ggml_backend_synchronize(backends[0]);
    ggml_backend_synchronize(backends[1]);
    int found = races - before;
    put(x, 1.0f);
    peek(y);
    CHECK_EQ(races - before, found); /* all is quiet after the waits */
    races = before;
    ggml_backend_buffer_free(b);
    ggml_free(ctx);
    ggml_backend_sched_free(s);
    stop();
    return found;
}
static void writes_an_input(struct ggml_cgraph * g, struct ggml_tensor * x, struct ggml_tensor * y) { (void) g; (void) y; put(x, 3.0f); }
static void reads_a_result(struct ggml_cgraph * g, struct ggml_tensor * x, struct ggml_tensor * y) { (void) g; (void) x; peek(y); }
static void clears_the_buffer(struct ggml_cgraph * g, struct ggml_tensor * x, struct ggml_tensor * y) { (void) g; (void) x; ggml_backend_buffer_clear(y->buffer, 0); }
static void computes_on_another_stream(struct ggml_cgraph * g, struct ggml_tensor * x, struct ggml_tensor * y) {
    (void) x; (void) y;
    ggml_backend_graph_compute_async(backends[1], g);
}
static void an_old_mark(struct ggml_cgraph * g, struct ggml_tensor * x, struct ggml_tensor * y) {
    (void) x; (void) y;
    ggml_backend_event_t e = ggml_backend_event_new(ggml_backend_get_device(backends[0]));
    ggml_backend_event_record(e, backends[0]);
    ggml_backend_graph_compute_async(backends[0], g);
    ggml_backend_event_synchronize(e);
    peek(y);
    ggml_backend_event_free(e);
}
static void with_a_mark(struct ggml_cgraph * g, struct ggml_tensor * x, struct ggml_tensor * y) {
    (void) x; (void) y;
    ggml_backend_event_t e = ggml_backend_event_new(ggml_backend_get_device(backends[0]));
    ggml_backend_event_record(e, backends[0]);
    ggml_backend_event_wait(backends[1], e);
    ggml_backend_graph_compute_async(backends[1], g);
    ggml_backend_synchronize(backends[1]);
    peek(y);
    ggml_backend_event_free(e);
}
static void in_the_same_queue(struct ggml_cgraph * g, struct ggml_tensor * x, struct ggml_tensor * y) {
    static float from[256], to[256];
    ggml_backend_tensor_set_async(backends[0], x, from, 0, sizeof(from));
    ggml_backend_graph_compute_async(backends[0], g);
    ggml_backend_tensor_get_async(backends[0], y, to, 0, sizeof(to));
}
static void only_reads(struct ggml_cgraph * g, struct ggml_tensor * x, struct ggml_tensor * y) { (void) g; (void) y; peek(x); }

static void seeded_races_are_reported(void) {
    CHECK_EQ(races_of(writes_an_input), 1);
    CHECK_EQ(races_of(reads_a_result), 1);
    CHECK_EQ(races_of(clears_the_buffer), 2);
    CHECK(races_of(computes_on_another_stream) >= 1);
    CHECK_EQ(races_of(an_old_mark), 1);
}
static void correct_runs_are_not(void) {
    CHECK_EQ(races_of(with_a_mark), 0);
    CHECK_EQ(races_of(in_the_same_queue), 0);
    CHECK_EQ(races_of(only_reads), 0);
}

/* ---- failures ---- */

enum fault { BUFFER, EVENT, COMPUTE, LOST };

/* The same work twice: the first time the k-th thing fails, then nothing does. Returns whether there was a k-th thing. */
static bool with_fault(enum fault fault, int k, bool parallel, bool reserve, bool in_new) {
    struct device * d = plain(0, "GPU");
    d->max_size = 8192;
    d->slow = 200;
    d->host_copies = true;
    struct device * c = plain(1, "HOST"); /* the last backend, a CPU that can fail too */
    c->type = GGML_BACKEND_DEVICE_TYPE_CPU;
    c->queue = c->transfers = c->events = c->copies = c->unmapped = false;
    c->is_host = true;
    start(2);
    struct device * failing = k % 2 == 0 ? c : d;
    int nth = (k + 1) / 2;
    ggml_backend_sched_t s = in_new ? NULL : ggml_backend_sched_new(backends, NULL, 2, 64, parallel, false);
    if (fault == BUFFER) failing->fail_buffer = nth;
    if (fault == EVENT) failing->fail_event = nth;
    if (fault == COMPUTE) failing->fail_compute = nth;
    if (fault == LOST) failing->lost = true;
    if (in_new) s = ggml_backend_sched_new(backends, NULL, 2, 64, parallel, false);
    CHECK(s != NULL);
    bool failed = false;
    int before = errors;
    for (int attempt = 0; attempt < 3; attempt++) {
        struct ggml_context * ctx = small_ctx();
        struct ggml_tensor * x, * y;
        struct ggml_cgraph * g = chain(ctx, &x, &y, 3, 1024);
        for (int i = 0; i < ggml_graph_n_nodes(g); i++) ggml_backend_sched_set_tensor_backend(s, ggml_graph_node(g, i), backends[i / 2 % 2]);
        bool ok = true;
        if (reserve) {
            ok = ggml_backend_sched_reserve(s, g);
            ggml_reset(ctx);
            g = chain(ctx, &x, &y, 3, 1024);
            ggml_backend_sched_reset(s);
            for (int i = 0; i < ggml_graph_n_nodes(g); i++) ggml_backend_sched_set_tensor_backend(s, ggml_graph_node(g, i), backends[i / 2 % 2]);
        }
        ok = ok && ggml_backend_sched_alloc_graph(s, g);
        if (ok) {
            float ones[1024];
            for (int i = 0; i < 1024; i++) ones[i] = 1.0f;
            ggml_backend_tensor_set(x, ones, 0, sizeof(ones));
            enum ggml_status status = ggml_backend_sched_graph_compute_async(s, g);
            ok = status == GGML_STATUS_SUCCESS;
            if (!ok) CHECK_EQ(status, GGML_STATUS_FAILED);
            ggml_backend_sched_synchronize(s);
            if (ok) CHECK_NEAR(peek(y), 15.0f, 0);
        } else if (!failed) {
            CHECK(errors > before); /* the log says why */
        }
        failed = failed || !ok;
        if (attempt == 2) CHECK(ok);
        failing->fail_buffer = failing->fail_event = failing->fail_compute = attempt == 0 ? 0 : failing->fail_buffer;
        failing->lost = false;
        ggml_backend_sched_reset(s);
        ggml_free(ctx);
    }
    ggml_backend_sched_free(s);
    ggml_backend_free(backends[2]);
    n_devices = 2;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(devices[i].live_buffers, 0);
        CHECK_EQ(devices[i].live_events, 0);
        device_end(&devices[i]);
    }
    return failed;
}

static bool quick; /* under valgrind */

static void every(enum fault fault, bool in_new, int least) {
    int n = 0;
    for (int k = 1; k <= (quick ? 4 : 12); k++) {
        for (int how = 0; how < (quick ? 2 : 4); how++) n += with_fault(fault, k, how & 1, how & 2, in_new);
    }
    if (!quick && n < least) test_fails(__FILE__, __LINE__, "only %d failures, expected %d", n, least);
}
static void every_buffer_fails_once(void) { every(BUFFER, false, 8); }
static void every_event_fails_once(void) { every(EVENT, true, 0); }
static void every_computation_fails_once(void) { every(COMPUTE, false, 8); }
static void a_lost_device_comes_back(void) { every(LOST, false, 8); }

int main(int argc, char ** argv) {
    careful = getenv("ASYNC_CAREFUL") != NULL;
    const char * what = argc > 1 ? argv[1] : "";
    ggml_log_set(on_log, NULL);
    if (strcmp(what, "results") == 0) {
        ggml_set_abort_callback(on_abort);
        results(argc > 2 ? (uint32_t) strtoul(argv[2], NULL, 10) : 1, argc > 3 ? atoi(argv[3]) : 100);
    } else if (strcmp(what, "seed") == 0) {
        return run_seed((uint32_t) strtoul(argv[2], NULL, 10));
    } else if (strcmp(what, "rows") == 0) {
        RUN(S4_four_graphs_in_flight);
        RUN(S6_inputs_are_written_while_the_device_computes);
        RUN(S8_transfers_without_functions_wait_for_the_queue);
        RUN(S9_reserving_waits_for_graphs_in_flight);
        if (!careful) RUN(S18_graphs_that_share_tensors_take_turns); /* the original's graphs are good for one split */
        RUN(S21_pieces_through_one_function_only);
        RUN(S22_the_tail_of_copied_weights);
        test_begin();
        CHECK_EQ(races, 0);
        test_end("no races");
    } else if (strcmp(what, "races") == 0) { /* with GGML_SCHED_SANITIZE=1 */
        RUN(seeded_races_are_reported);
        RUN(correct_runs_are_not);
    } else if (strcmp(what, "faults") == 0) {
        quick = argc > 2;
        RUN(every_buffer_fails_once);
        RUN(every_event_fails_once);
        RUN(every_computation_fails_once);
        RUN(a_lost_device_comes_back);
    } else {
        fprintf(stderr, "usage: test_async results FIRST COUNT | seed N | rows | races | faults\n");
        return 2;
    }
    return test_summary();
}
