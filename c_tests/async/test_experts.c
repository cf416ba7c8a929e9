/* Experts whose weights are in host memory, computed by a device that has a cache of some of them and by the CPU. Both
 * have the same kernels here, so that a result has the same bits whatever is in the cache. */
#include "common.h"

#include "ggml-rs.h"

static bool offloads;

enum { LAYERS = 3, EXPERTS = 16, EMBD = 64, FF = 96 };

/* Kinds of models: gate and up apart or in one tensor; a step in between that only a device computes as a whole. */
enum kind { APART, MERGED, WITH_BIAS };

struct model {
    enum kind kind;
    struct ggml_context * ctx[2];
    ggml_backend_buffer_t buffer[2];
    struct ggml_tensor * dense[LAYERS], * router[LAYERS], * gate[LAYERS], * up[LAYERS], * down[LAYERS], * bias[LAYERS];
};

static struct model make(enum kind kind, ggml_backend_t dense_on) {
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
        m.buffer[i] = ggml_backend_alloc_ctx_tensors(m.ctx[i], i == 0 ? dense_on : backends[n_devices]);
        ggml_backend_buffer_set_usage(m.buffer[i], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        uint32_t seed = 1;
        for (struct ggml_tensor * t = ggml_get_first_tensor(m.ctx[i]); t != NULL; t = ggml_get_next_tensor(m.ctx[i], t)) set_random(t, seed++, 0.3f);
    }
    return m;
}

static void drop(struct model * m) {
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
static struct step build(const struct model * m, int n_tokens, int n_used, bool given) {
    struct step s = { .ctx = new_ctx(ggml_tensor_overhead() * 512 + ggml_graph_overhead_custom(512, false)) };
    struct ggml_context * c = s.ctx;
    s.x = ggml_new_tensor_2d(c, GGML_TYPE_F32, EMBD, n_tokens);
    ggml_set_input(s.x);
    struct ggml_tensor * x = s.x;
    for (int l = 0; l < LAYERS; l++) {
        x = ggml_rms_norm(c, ggml_add(c, ggml_mul_mat(c, m->dense[l], x), x), 1e-5f);
        struct ggml_tensor * probs = ggml_soft_max(c, ggml_mul_mat(c, m->router[l], x)), * ids;
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

static void feed(const struct step * s, int number, int n_tokens, int n_used, bool given) {
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
static double reported(ggml_backend_sched_t sched, const char * key) {
    char * json = ggml_rs_sched_report(sched, GGML_RS_FORMAT_JSON);
    const char * at = json != NULL ? strstr(json, key) : NULL;
    double value = at != NULL ? strtod(at + strlen(key) + 2, NULL) : -1;
    ggml_rs_string_free(json);
    return value;
}

/* Computes tokens with a cache and without, on a device and on the CPU. `again`: one graph for all tokens. */
static void same(const char * cache, enum kind kind, int n_tokens, int n_used, bool given, bool again, bool parallel) {
    enum { N = 48 };
    static float got[2][N][EMBD * 8];
    for (int side = 0; side < 2; side++) {
        slow_gpu(true, true);
        devices[0].slow = offloads ? 4000 : 0; /* copies take long: the CPU gets most of the experts */
        devices[0].poison = 0xff;
        devices[0].offloads = offloads ? offloads_products : NULL;
        start(1);
        setenv("GGML_RS_EXPERT_CACHE", side == 0 ? "0" : cache, 1);
        ggml_backend_sched_t sched =
            side == 0 ? ggml_backend_sched_new(backends + 1, NULL, 1, 512, false, true) : ggml_backend_sched_new(backends, NULL, 2, 512, parallel, true);
        struct model m = make(kind, side == 0 ? backends[1] : backends[0]);
        struct step s = { 0 };
        for (int i = 0; i < N; i++) {
            if (i == 0 || !again) {
                if (s.ctx != NULL) ggml_free(s.ctx);
                s = build(&m, n_tokens, n_used, given);
            }
            if (i == 0 || !again) ggml_backend_sched_reset(sched);
            if (i == 0 || !again) CHECK(ggml_backend_sched_alloc_graph(sched, s.graph));
            feed(&s, i, n_tokens, n_used, given);
            CHECK_EQ(ggml_backend_sched_graph_compute(sched, s.graph), GGML_STATUS_SUCCESS);
            ggml_backend_tensor_get(s.y, got[side][i], 0, ggml_nbytes(s.y));
        }
        if (side == 1) {
            double hits = reported(sched, "rows_from_the_cache"), cpu = reported(sched, "rows_by_the_cpu"), staged = reported(sched, "units_of_large_batches");
            CHECK_EQ((int) reported(sched, "units"), LAYERS);
            CHECK_EQ((int) staged, offloads ? LAYERS : 0);
            if (!offloads) CHECK(hits > 0);
            if (strstr(cache, "strict") != NULL || kind == WITH_BIAS) CHECK_EQ((int) cpu, 0);
            for (int l = 0; l < LAYERS; l++) {
                /* All of a unit's products are on the device. */
                int on_device = 0;
                for (int i = 0; i < ggml_graph_n_nodes(s.graph); i++) {
                    struct ggml_tensor * node = ggml_graph_node(s.graph, i);
                    if (node->op == GGML_OP_MUL_MAT_ID) on_device += ggml_backend_sched_get_tensor_backend(sched, node) == backends[0];
                }
                CHECK_EQ(on_device, LAYERS * (kind == MERGED ? 2 : 3));
            }
        }
        ggml_free(s.ctx);
        ggml_backend_sched_free(sched);
        drop(&m);
        stop();
    }
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += memcmp(got[0][i], got[1][i], sizeof(float) * EMBD * (size_t) n_tokens) != 0;
    if (wrong != 0)
        fprintf(stderr, "cache %s, kind %d, %d tokens, %d used, given %d, again %d, parallel %d: %d wrong\n", cache, kind, n_tokens, n_used, given, again, parallel, wrong);
    CHECK_EQ(wrong, 0);
}

static void results_do_not_depend_on_the_cache(void) {
    const char * caches[] = { "10%", "30%", "100%", "100%,strict", "auto", "50%,strict" };
    for (int c = 0; c < 6; c++) {
        for (int i = 0; i < 8; i++) same(caches[c], i & 1 ? MERGED : APART, i & 2 ? 3 : 1, c == 5 ? 2 : 4, false, i & 4, false);
    }
    same("30%", APART, 1, 4, true, false, false);
    same("30%", MERGED, 2, 4, true, true, false);
    same("30%", APART, 1, 4, false, false, true);
    same("100%", WITH_BIAS, 1, 4, false, false, false);
}

/* Large batches, which the device takes over: it computes some of the experts, the CPU the others. */
static void large_batches_are_shared(void) {
    for (int i = 0; i < 4; i++) same("50%", i & 1 ? MERGED : APART, 8, 4, i & 2, false, false);
}

/* A buffer of the scheduler does not fit beside the cache: the cache is given up. */
static void the_cache_gives_way(void) {
    float got[2][EMBD];
    for (int side = 0; side < 2; side++) {
        slow_gpu(true, true);
        devices[0].slow = 0;
        start(1);
        setenv("GGML_RS_EXPERT_CACHE", "50%", 1);
        ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 2, 512, false, true);
        struct model m = make(APART, backends[0]);
        /* Two pools, then the buffer for results. */
        devices[0].fail_buffer = side == 0 ? 0 : 3;
        struct step s = build(&m, 1, 4, false);
        CHECK(ggml_backend_sched_alloc_graph(sched, s.graph));
        feed(&s, 1, 1, 4, false);
        CHECK_EQ(ggml_backend_sched_graph_compute(sched, s.graph), GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get(s.y, got[side], 0, sizeof(got[side]));
        CHECK_EQ((int) reported(sched, "units"), side == 0 ? LAYERS : 0);
        ggml_free(s.ctx);
        ggml_backend_sched_free(sched);
        drop(&m);
        stop();
    }
    CHECK(memcmp(got[0], got[1], sizeof(got[0])) == 0);
}

/* Computes one token; a graph that fails is computed again afterwards. */
static enum ggml_status token(ggml_backend_sched_t sched, const struct model * m, int number, float * y) {
    struct step s = build(m, 1, 4, false);
    ggml_backend_sched_reset(sched);
    CHECK(ggml_backend_sched_alloc_graph(sched, s.graph));
    feed(&s, number, 1, 4, false);
    enum ggml_status status = ggml_backend_sched_graph_compute(sched, s.graph);
    if (status == GGML_STATUS_SUCCESS) ggml_backend_tensor_get(s.y, y, 0, sizeof(float) * EMBD);
    ggml_free(s.ctx);
    return status;
}

static ggml_backend_sched_t with_cache(const char * cache) {
    setenv("GGML_RS_EXPERT_CACHE", cache, 1);
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 2, 512, false, true);
    setenv("GGML_RS_EXPERT_CACHE", "0", 1);
    return sched;
}

/* Weights that the host writes again are not those in the cache. */
static void written_weights_are_copied_again(void) {
    slow_gpu(true, true);
    devices[0].slow = 0;
    start(1);
    ggml_backend_sched_t sched = with_cache("100%"), plain_sched = with_cache("0");
    struct model m = make(APART, backends[0]);
    float want[EMBD], got[EMBD];
    for (int i = 0; i < 6; i++) {
        if (i == 3) set_random(m.gate[1], 77, 0.3f);
        CHECK_EQ(token(plain_sched, &m, 1, want), GGML_STATUS_SUCCESS);
        CHECK_EQ(token(sched, &m, 1, got), GGML_STATUS_SUCCESS);
        CHECK(memcmp(want, got, sizeof(want)) == 0);
    }
    ggml_backend_sched_free(sched);
    ggml_backend_sched_free(plain_sched);
    drop(&m);
    stop();
}

/* Two schedulers with caches of their own on one device, in turns. */
static void two_schedulers_share_a_device(void) {
    slow_gpu(true, true);
    devices[0].slow = 100;
    start(1);
    ggml_backend_sched_t scheds[3] = { with_cache("0"), with_cache("20%"), with_cache("40%,strict") };
    struct model m = make(APART, backends[0]);
    float y[3][EMBD];
    for (int i = 0; i < 30; i++) {
        for (int k = 0; k < 3; k++) CHECK_EQ(token(scheds[k], &m, i, y[k]), GGML_STATUS_SUCCESS);
        for (int k = 1; k < 3; k++) CHECK(memcmp(y[0], y[k], sizeof(y[0])) == 0);
    }
    for (int k = 1; k < 3; k++) CHECK(reported(scheds[k], "rows_from_the_cache") > 0);
    ggml_backend_sched_free(scheds[1]);
    CHECK_EQ(token(scheds[2], &m, 30, y[2]), GGML_STATUS_SUCCESS);
    CHECK_EQ(token(scheds[0], &m, 30, y[0]), GGML_STATUS_SUCCESS);
    CHECK(memcmp(y[0], y[2], sizeof(y[0])) == 0);
    ggml_backend_sched_free(scheds[0]);
    ggml_backend_sched_free(scheds[2]);
    drop(&m);
    stop();
}

static int calls_until_abort = -1;

static bool aborts(void * data) {
    (void) data;
    return calls_until_abort >= 0 && calls_until_abort-- == 0;
}

/* A computation of the device fails, it is lost for a while, or the host cancels what the CPU computes: the graph
 * fails, and later ones are right. */
static void failures_leave_the_cache_right(void) {
    for (int strict = 0; strict < 2; strict++) {
        slow_gpu(true, true);
        devices[0].slow = 100;
        start(1);
        ggml_backend_sched_t plain_sched = with_cache("0"), sched = with_cache(strict ? "40%,strict" : "20%");
        struct model m = make(APART, backends[0]);
        float want[EMBD], got[EMBD];
        int n_failed = 0, n_cancelled = 0;
        for (int i = 0; i < 40; i++) {
            CHECK_EQ(token(plain_sched, &m, i, want), GGML_STATUS_SUCCESS);
            if (i % 4 == 1) devices[0].fail_compute = 1 + i / 4;
            if (i % 8 == 3) devices[0].lost = true;
            if (i % 4 == 2) {
                calls_until_abort = i;
                ggml_backend_cpu_set_abort_callback(backends[1], aborts, NULL);
            }
            enum ggml_status status = token(sched, &m, i, got);
            n_failed += status == GGML_STATUS_FAILED;
            n_cancelled += status == GGML_STATUS_ABORTED;
            devices[0].fail_compute = 0;
            devices[0].lost = false;
            calls_until_abort = -1;
            ggml_backend_cpu_set_abort_callback(backends[1], NULL, NULL);
            ggml_backend_sched_synchronize(sched);
            CHECK_EQ(token(sched, &m, i, got), GGML_STATUS_SUCCESS);
            CHECK(memcmp(want, got, sizeof(want)) == 0);
        }
        CHECK(n_failed > 5);
        CHECK(strict || n_cancelled > 0);
        CHECK(reported(sched, "rows_from_the_cache") > 0);
        ggml_backend_sched_free(sched);
        ggml_backend_sched_free(plain_sched);
        drop(&m);
        stop();
    }
}

int main(void) {
    begin();
    setenv("GGML_VK_PIPELINE_CACHE_DIR", "", 1); /* costs of these devices are no one else's */
    RUN(results_do_not_depend_on_the_cache);
    offloads = true;
    RUN(large_batches_are_shared);
    offloads = false;
    RUN(the_cache_gives_way);
    RUN(written_weights_are_copied_again);
    RUN(two_schedulers_share_a_device);
    RUN(failures_leave_the_cache_right);
    return test_summary();
}
