/* Experts whose weights are in host memory, computed by a device that has a cache of some of them and by the CPU. Both
 * have the same kernels here, so that a result has the same bits whatever is in the cache. */
#include "common.h"
#include "../common/mixture.h"

static bool offloads;

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
        struct model m = make(kind, side == 0 ? backends[1] : backends[0], backends[n_devices]);
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
            /* The device finds the slots itself where it may. */
            const bool looks_up = !given && n_tokens == 1 && kind != WITH_BIAS && strstr(cache, "strict") == NULL;
            CHECK_EQ((int) reported(sched, "units_looked_up"), looks_up ? LAYERS : 0);
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

/* A buffer of the scheduler does not fit beside the cache: the cache gets smaller. */
static void the_cache_gives_way(void) {
    float got[2][EMBD];
    for (int side = 0; side < 2; side++) {
        slow_gpu(true, true);
        devices[0].slow = 0;
        start(1);
        setenv("GGML_RS_EXPERT_CACHE", "50%", 1);
        ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 2, 512, false, true);
        struct model m = make(APART, backends[0], backends[n_devices]);
        /* Two pools, then the buffer for results. */
        devices[0].fail_buffer = side == 0 ? 0 : 3;
        struct step s = build(&m, 1, 4, false);
        CHECK(ggml_backend_sched_alloc_graph(sched, s.graph));
        feed(&s, 1, 1, 4, false);
        CHECK_EQ(ggml_backend_sched_graph_compute(sched, s.graph), GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get(s.y, got[side], 0, sizeof(got[side]));
        CHECK_EQ((int) reported(sched, "units"), LAYERS);
        CHECK_EQ((int) reported(sched, "slots"), side == 0 ? EXPERTS : EXPERTS / 2 - 1);
        ggml_free(s.ctx);
        ggml_backend_sched_free(sched);
        drop(&m);
        stop();
    }
    CHECK(memcmp(got[0], got[1], sizeof(got[0])) == 0);
}

/* The graph of the last token: a report is about a graph that lives. */
static struct step last;

/* Computes one token; a graph that fails is computed again afterwards. */
static enum ggml_status token(ggml_backend_sched_t sched, const struct model * m, int number, float * y) {
    struct step s = build(m, 1, 4, false);
    ggml_backend_sched_reset(sched);
    CHECK(ggml_backend_sched_alloc_graph(sched, s.graph));
    feed(&s, number, 1, 4, false);
    enum ggml_status status = ggml_backend_sched_graph_compute(sched, s.graph);
    if (status == GGML_STATUS_SUCCESS) ggml_backend_tensor_get(s.y, y, 0, sizeof(float) * EMBD);
    ggml_free(last.ctx);
    last = s;
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
    struct model m = make(APART, backends[0], backends[n_devices]);
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
    struct model m = make(APART, backends[0], backends[n_devices]);
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
        struct model m = make(APART, backends[0], backends[n_devices]);
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
    ggml_free(last.ctx);
    return test_summary();
}
