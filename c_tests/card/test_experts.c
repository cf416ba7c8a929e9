/* Experts in a cache on a device with memory and streams of its own: the simulated card (card.c, by GGML_BACKEND_PATH)
 * or a driver of Vulkan. Results are compared with those of the CPU alone. On the card, which has the CPU's kernels,
 * they have the same bits. Elsewhere they are compared with those of the device alone, too, which has all weights then:
 * if the device computes all rows they are the same, otherwise about as far from the CPU's as those of the device,
 * which does not round activations as the CPU does.
 *
 *   test_experts DEVICE [MODE]
 *
 * (no mode)             values with any cache, changing limits, memory that runs out
 * default               the cache that is there by default (the card has more than a GiB; no GGML_RS_EXPERT_CACHE)
 * lost                  computations until the device is lost (CARD_LOSE_AFTER), and after that
 * faults LAYER [STRIDE] each call of Vulkan fails once (c_tests/vulkan/fault_layer.c)
 * soak SECONDS [SEED]   schedulers, limits, batches and cancelled graphs at random: the process must not grow */
#include "../common/faults.h"
#include "../common/log.h"
#include "../common/mixture.h"
#include "../common/uses.h"

#include "ggml-cpu.h"

static const char *   device_name;
static ggml_backend_t backends[2]; /* of the device, of the CPU */
static bool           is_exact; /* the device calculates as the CPU does */

/* The host chooses the experts, not the graph: then the device cannot look them up before the host knows them. */
static bool given = true;

/* The graph that was computed last: a report is about a graph that lives. */
static struct step last;

static void no_races(void) { CHECK_EQ(races, 0); }

static bool start(void) {
    ggml_backend_load_all();
    ggml_backend_dev_t dev = ggml_backend_dev_by_name(device_name);
    backends[0]            = dev != NULL ? ggml_backend_dev_init(dev, NULL) : NULL;
    backends[1]            = ggml_backend_cpu_init();
    if (backends[0] == NULL) { return false; }
    is_exact = strncmp(device_name, "CARD", 4) == 0;
    return true;
}

static void stop(void) {
    ggml_free(last.ctx);
    last.ctx = NULL;
    ggml_backend_free(backends[0]);
    ggml_backend_free(backends[1]);
}

static ggml_backend_sched_t with_cache(const char * limit) {
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 2, 512, false, true);
    CHECK(ggml_rs_sched_set_expert_cache(sched, limit));
    return sched;
}

/* The square of the difference, by that of the first. */
static double error_of(const float * a, const float * b, size_t n) {
    double difference = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        difference += (double) (a[i] - b[i]) * (double) (a[i] - b[i]);
        sum += (double) a[i] * (double) a[i];
    }
    return difference / sum;
}

/* What is computed of `n_tokens` tokens, of which each uses `n_used` experts. */
static enum ggml_status batch(ggml_backend_sched_t sched, const struct model * m, int number, int n_tokens, int n_used, float * y) {
    struct step s = build(m, n_tokens, n_used, given);
    ggml_backend_sched_reset(sched);
    enum ggml_status status = GGML_STATUS_ALLOC_FAILED;
    if (ggml_backend_sched_alloc_graph(sched, s.graph)) {
        feed(&s, number, n_tokens, n_used, given);
        status = ggml_backend_sched_graph_compute(sched, s.graph);
    }
    if (status == GGML_STATUS_SUCCESS) { ggml_backend_tensor_get(s.y, y, 0, ggml_nbytes(s.y)); }
    ggml_free(last.ctx);
    last = s;
    return status;
}

/* The same on one side alone: 0 the CPU, 1 the device. */
struct reference {
    struct model         models[2];
    ggml_backend_sched_t scheds[2];
};

static struct reference refer(enum kind kind) {
    struct reference r = { .scheds = { ggml_backend_sched_new(backends + 1, NULL, 1, 512, false, true) } };
    r.models[0]        = make(kind, backends[1], backends[1]);
    if (!is_exact) {
        r.scheds[1] = ggml_backend_sched_new(backends, NULL, 2, 512, false, true);
        r.models[1] = make(kind, backends[0], backends[0]);
    }
    return r;
}

static void drop_reference(struct reference * r) {
    for (int k = 0; k < (is_exact ? 1 : 2); k++) {
        ggml_backend_sched_free(r->scheds[k]);
        drop(&r->models[k]);
    }
}

enum { MOST = 8 };
static float want[2][EMBD * MOST], got[EMBD * MOST];

/* What `got` should be. */
static void expect(const struct reference * r, int number, int n_tokens, int n_used) {
    for (int k = 0; k < (is_exact ? 1 : 2); k++) {
        CHECK_EQ(batch(r->scheds[k], &r->models[k], number, n_tokens, n_used, want[k]), GGML_STATUS_SUCCESS);
    }
}

/* `on_device`: it has computed all rows. */
static bool is_right(int n_tokens, bool on_device) {
    const size_t n = (size_t) (EMBD * n_tokens);
    if (is_exact) { return memcmp(want[0], got, n * sizeof(float)) == 0; }
    if (on_device) { return error_of(want[1], got, n) <= 1e-9; }
    return error_of(want[0], got, n) <= 4 * error_of(want[0], want[1], n) + 1e-6;
}

static void same(ggml_backend_sched_t sched, const struct model * m, const struct reference * r, int number, int n_tokens, int n_used, const char * limit) {
    expect(r, number, n_tokens, n_used);
    memset(got, 0xff, sizeof got);
    CHECK_EQ(batch(sched, m, number, n_tokens, n_used, got), GGML_STATUS_SUCCESS);
    CHECK(is_right(n_tokens, strstr(limit, "strict") != NULL || m->kind == WITH_BIAS));
}

static void values_with_any_cache(void) {
    static const char * const limits[] = { "10%", "30%", "100%", "50%,strict" };
    for (int k = 0; k < 6; k++) {
        const enum kind  kind = (enum kind) (k / 2);
        struct model     m = make(kind, backends[0], backends[1]);
        struct reference r = refer(kind);
        given              = k % 2 == 0;
        for (int c = kind == WITH_BIAS ? 2 : 0; c < 4; c++) {
            ggml_backend_sched_t sched = with_cache(limits[c]);
            for (int i = 0; i < 30; i++) {
                const int tokens = i % 5 == 3 ? 3 : 1;
                same(sched, &m, &r, i, tokens, c == 3 ? 2 : 4, limits[c]);
                CHECK_EQ(reported(sched, "units_looked_up"), given || tokens > 1 || c == 3 || kind == WITH_BIAS ? 0 : LAYERS);
            }
            CHECK_EQ(reported(sched, "units"), LAYERS);
            /* What is uploaded, and when, depends on time, unless the device computes all rows. */
            if (c == 3 || kind == WITH_BIAS) { CHECK(reported(sched, "rows_from_the_cache") > 0); }
            if (c < 2) { CHECK(reported(sched, "rows_by_the_cpu") > 0); }
            ggml_backend_sched_free(sched);
        }
        drop(&m);
        drop_reference(&r);
    }
    given = true;
}

/* The host gives the same graph again while the device is still computing it; what is cached changes in between. */
static void graphs_follow_each_other(void) {
    struct model         m     = make(APART, backends[0], backends[1]);
    struct reference     r     = refer(APART);
    ggml_backend_sched_t sched = with_cache("30%");
    given                      = false;
    for (int i = 0; i < 20; i++) {
        same(sched, &m, &r, i, 1, 4, "30%");
        for (int again = 0; again < 4; again++) { CHECK_EQ(ggml_backend_sched_graph_compute_async(sched, last.graph), GGML_STATUS_SUCCESS); }
        ggml_backend_sched_synchronize(sched);
        ggml_backend_tensor_get(last.y, got, 0, ggml_nbytes(last.y));
        CHECK(is_right(1, false));
    }
    ggml_backend_sched_free(sched);
    drop(&m);
    drop_reference(&r);
    given = true;
}

/* The host chooses its budgets, some of which are nonsense. */
static void budgets_change(void) {
    static const char * const limits[] = { "20%", "0", "100%", "100%,strict", "1", "5%", "auto", "" };
    struct model         m     = make(APART, backends[0], backends[1]);
    struct reference     r     = refer(APART);
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 2, 512, false, true);
    for (int i = 0; i < 80; i++) {
        const char * limit = limits[i / 5 % 8];
        if (i % 5 == 0) { CHECK(ggml_rs_sched_set_expert_cache(sched, limit)); }
        if (i % 7 == 0) {
            CHECK(!ggml_rs_sched_set_expert_cache(sched, "some") && !ggml_rs_sched_set_expert_cache(sched, NULL));
            CHECK(strstr(ggml_rs_last_error(), "ggml_rs_sched_set_expert_cache") != NULL);
        }
        given = i % 3 == 0;
        same(sched, &m, &r, i, 1, 4, limit);
        const bool is_on = *limit != '\0' && *limit != '0';
        /* Without a cache the report has no numbers. One layer in three has larger experts: 5 % has no room. */
        CHECK_EQ(reported(sched, "units"), !is_on ? -1 : strcmp(limit, "5%") == 0 ? LAYERS - 1 : LAYERS);
    }
    ggml_backend_sched_free(sched);
    drop(&m);
    drop_reference(&r);
}

/* Takes all memory of the device but so many bytes. */
static ggml_backend_buffer_t leave(size_t bytes) {
    size_t available, total;
    ggml_backend_dev_memory(ggml_backend_get_device(backends[0]), &available, &total);
    return available > bytes ? ggml_backend_alloc_buffer(backends[0], available - bytes) : NULL;
}

/* The cache gets what is there; then a batch needs some of it. (Needs the card, whose memory ends where it says.) */
static void memory_runs_out(void) {
    struct model         m     = make(APART, backends[0], backends[1]);
    struct reference     r     = refer(APART);
    ggml_backend_sched_t sched = with_cache("100%");
    ggml_backend_buffer_t most = leave(300 << 10);
    CHECK(most != NULL);
    same(sched, &m, &r, 0, 1, 4, "100%");
    CHECK_EQ(reported(sched, "units"), LAYERS);
    const double slots = reported(sched, "slots");
    CHECK(slots > 0 && slots < 2 * EXPERTS);
    for (int i = 0; i < 12; i++) {
        given = i % 3 == 0;
        same(sched, &m, &r, i, 1 + i % MOST, 4, "100%");
    }
    CHECK(reported(sched, "rows_from_the_cache") > 0);
    ggml_backend_buffer_free(most);
    /* With a new budget it has everything again. */
    CHECK(ggml_rs_sched_set_expert_cache(sched, "99%"));
    for (int i = 0; i < 12; i++) { same(sched, &m, &r, i, 1, 4, "99%"); }
    CHECK_EQ(reported(sched, "slots"), 2 * EXPERTS - 1);
    ggml_backend_sched_free(sched);
    drop(&m);
    drop_reference(&r);
}

/* From the second small batch on, the cache has memory that the card can spare. Others take so much that it cannot. */
static void the_default(void) {
    struct model         m     = make(APART, backends[0], backends[1]);
    struct reference     r     = refer(APART);
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 2, 512, false, true);
    given                      = false;
    for (int i = 0; i < 6; i++) {
        same(sched, &m, &r, i, 1, 4, "");
        CHECK_EQ(reported(sched, "units_looked_up"), i == 0 ? -1 : LAYERS);
    }
    CHECK_EQ(reported(sched, "slots"), 2 * EXPERTS);
    ggml_backend_buffer_t others = leave((size_t) 400 << 20);
    CHECK(others != NULL);
    /* It looks at the card once a second. */
    const int64_t begun = ggml_time_us();
    for (int i = 0; ggml_time_us() - begun < 1500000; i++) { same(sched, &m, &r, i, 1, 4, ""); }
    CHECK_EQ(reported(sched, "units"), 0);
    ggml_backend_buffer_free(others);
    ggml_backend_sched_free(sched);
    drop(&m);
    drop_reference(&r);
    given = true;
}

/* Failures are reported, and all that is computed is right. */
static void the_device_is_lost(void) {
    struct model         m      = make(APART, backends[0], backends[1]);
    struct reference     r      = refer(APART);
    ggml_backend_sched_t sched  = with_cache("30%");
    int                  failed = 0, right = 0;
    for (int i = 0; i < 60; i++) {
        given = i % 3 == 0;
        expect(&r, i, 1, 4);
        const enum ggml_status status = batch(sched, &m, i, 1, 4, got);
        if (status == GGML_STATUS_SUCCESS) {
            CHECK(is_right(1, false));
            right++;
        } else {
            failed++;
        }
    }
    CHECK(right > 3 && failed > 3);
    ggml_backend_sched_free(sched);
    drop(&m);
    drop_reference(&r);
}

/* ---- each call of Vulkan fails once ---- */

enum { TOKENS = 6 };

/* The devices work when the fault comes: what happens before is for c_tests/vulkan/test_faults.c. */
static void one_call_fails(void * user) {
    const struct fault * f = user;
    faults_open();
    if (!start()) { _exit(93); }
    struct model         m     = make(APART, backends[0], backends[1]);
    struct reference     r     = refer(APART);
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 2, 512, false, true);
    static float references[TOKENS][2][EMBD];
    for (int i = 0; i < TOKENS; i++) {
        given = i % 2 == 0;
        expect(&r, i, 1, 4);
        for (int k = 0; k < 2; k++) { memcpy(references[i][k], want[k], sizeof references[i][k]); }
    }
    if (test_why[0] != '\0') { _exit(92); }
    arm(f->n, f->result);
    if (!ggml_rs_sched_set_expert_cache(sched, "30%")) { _exit(91); }
    int reports = 0;
    for (int i = 0; i < TOKENS; i++) {
        for (int k = 0; k < 2; k++) { memcpy(want[k], references[i][k], sizeof references[i][k]); }
        given = i % 2 == 0;
        if (batch(sched, &m, i, 1, 4, got) != GGML_STATUS_SUCCESS) {
            reports++;
        } else if (!is_right(1, false)) {
            _exit(20);
        }
    }
    const bool has_failed = failed_call() != NULL;
    if (has_failed) { printf("note call %ld, %d: %s, %d of %d tokens failed\n", f->n, f->result, failed_call(), reports, TOKENS); }
    fflush(stdout);
    /* One computation may fail, or two that were on their way; not what comes after, unless the device is lost. */
    if (f->result != DEVICE_LOST && reports > 2) { _exit(21); }
    arm(0, 0);
    ggml_backend_sched_free(sched);
    drop(&m);
    drop_reference(&r);
    stop();
    _exit(!has_failed ? (reports == 0 ? DONE : 30) : reports == 0 ? WITHOUT : REPORTED);
}

static void calls_fail(int result) {
    const struct faults of = faults_run(one_call_fails, result, "experts");
    CHECK(of.reported + of.without > 3);
}

static void no_host_memory(void) { calls_fail(OUT_OF_HOST_MEMORY); }
static void no_device_memory(void) { calls_fail(OUT_OF_DEVICE_MEMORY); }
static void a_lost_device(void) { calls_fail(DEVICE_LOST); }

/* ---- for a long time ---- */

static int patience = -1; /* calls until the computation is cancelled */

static bool impatient(void * user) {
    (void) user;
    return patience >= 0 && patience-- == 0;
}

static void soak(double seconds) {
    static const char * const limits[] = { "10%", "25%", "50%", "100%", "40%,strict", "0", "1", "auto" };
    struct model              models[3];
    struct reference          refs[3];
    ggml_backend_sched_t      scheds[2];
    long                      n_tokens = 0, n_cancelled = 0, n_budgets = 0, n_scheds = 2, n_tight = 0;
    for (int k = 0; k < 3; k++) {
        models[k] = make((enum kind) k, backends[0], backends[1]);
        refs[k]   = refer((enum kind) k);
    }
    for (int k = 0; k < 2; k++) { scheds[k] = with_cache("25%"); }
    ggml_backend_buffer_t filler = NULL;
    const int64_t         begun  = ggml_time_us();
    struct growth         growth = { 0 };
    double                told   = 600;
    while (test_why[0] == '\0') {
        const double passed = (double) (ggml_time_us() - begun) / 1e6;
        growth_note(&growth, passed / seconds);
        if (passed > seconds) { break; }
        if (passed > told) {
            printf("note %.0f s: %ld batches, %ld cancelled, %ld budgets, %ld schedulers, %ld times little memory, %ld KiB\n", passed, n_tokens, n_cancelled,
                   n_budgets, n_scheds, n_tight, resident_kib());
            fflush(stdout);
            told += 600;
        }
        const int k = any(3), which = any(2);
        if (any(8) == 0) {
            CHECK(ggml_rs_sched_set_expert_cache(scheds[which], limits[any(8)]));
            n_budgets++;
        }
        if (any(100) == 0) {
            ggml_backend_sched_free(scheds[which]);
            scheds[which] = with_cache(limits[any(8)]);
            n_scheds++;
        }
        if (is_exact && any(60) == 0) { /* the card: others need its memory, or give it back */
            ggml_backend_buffer_free(filler);
            filler = any(2) == 0 ? NULL : leave((size_t) (200 + any(800)) << 10);
            n_tight += filler != NULL;
        }
        const int tokens = any(4) == 0 ? 1 + any(MOST) : 1, number = any(1000);
        given = any(3) == 0;
        expect(&refs[k], number, tokens, 4);
        patience = any(16) == 0 ? any(30) : -1;
        ggml_backend_cpu_set_abort_callback(backends[1], patience >= 0 ? impatient : NULL, NULL);
        const enum ggml_status status = batch(scheds[which], &models[k], number, tokens, 4, got);
        ggml_backend_cpu_set_abort_callback(backends[1], NULL, NULL);
        if (status == GGML_STATUS_ABORTED) {
            CHECK(patience < 0);
            n_cancelled++;
        } else {
            CHECK(status == GGML_STATUS_SUCCESS || (status == GGML_STATUS_ALLOC_FAILED && filler != NULL));
            if (status == GGML_STATUS_SUCCESS) { CHECK(is_right(tokens, false)); }
        }
        n_tokens++;
    }
    ggml_backend_buffer_free(filler);
    for (int k = 0; k < 2; k++) { ggml_backend_sched_free(scheds[k]); }
    for (int k = 0; k < 3; k++) {
        drop(&models[k]);
        drop_reference(&refs[k]);
    }
    printf("note %ld batches, %ld cancelled, %ld budgets, %ld schedulers, %ld times little memory\n", n_tokens, n_cancelled, n_budgets, n_scheds, n_tight);
    CHECK(n_tokens > 0 && n_budgets > 0);
    growth_check(&growth);
}

int main(int argc, char ** argv) {
    device_name       = argc > 1 ? argv[1] : "CARD0";
    const char * mode = argc > 2 ? argv[2] : "";
    ggml_log_set(on_log, NULL);
    setenv("GGML_VK_PIPELINE_CACHE_DIR", "", 0); /* costs of this device are no one else's */
    if (strcmp(mode, "faults") == 0 && argc > 3) {
        layer  = argv[3];
        stride = argc > 4 ? atol(argv[4]) : 1;
        faults_table();
        RUN(no_host_memory);
        RUN(no_device_memory);
        RUN(a_lost_device);
        return test_summary();
    }
    if (!start()) {
        printf("FAIL there is no device %s\n0 passed, 1 failed\n", device_name);
        return 1;
    }
    if (strcmp(mode, "soak") == 0 && argc > 3) {
        state = argc > 4 ? (uint32_t) atol(argv[4]) : 1;
        test_begin();
        soak(atof(argv[3]));
        test_end("soak");
    } else if (strcmp(mode, "default") == 0) {
        RUN(the_default);
    } else if (strcmp(mode, "lost") == 0) {
        RUN(the_device_is_lost);
    } else {
        RUN(values_with_any_cache);
        RUN(graphs_follow_each_other);
        RUN(budgets_change);
        if (is_exact) { RUN(memory_runs_out); }
    }
    RUN(no_races);
    stop();
    return test_summary();
}
