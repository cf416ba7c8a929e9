/* Calls into the scheduler from its own callbacks. Queries return their answer. Calls that would change the scheduler
 * during its work are refused with a line in the log, and the computation goes on. The original has no such check: with
 * it, the test only makes the queries. */
#include "common.h"

enum { NODES = 4 };

static struct ggml_backend_sched * sched;
static struct ggml_cgraph * graph;
static struct ggml_tensor * watched[NODES];
static int  calls, shown, refusals;
static bool changes; /* the callback also tries to change the scheduler */

/* Queries that a host may make at any time. */
static void ask(struct ggml_tensor * t) {
    CHECK_EQ(ggml_backend_sched_get_n_backends(sched), 2);
    CHECK_EQ(ggml_backend_sched_get_n_copies(sched), 1);
    CHECK(ggml_backend_sched_get_n_splits(sched) >= 1);
    CHECK(ggml_backend_sched_get_backend(sched, 1) == backends[1]);
    CHECK(ggml_backend_sched_get_tensor_backend(sched, t) != NULL);
    CHECK(ggml_backend_sched_get_buffer_type(sched, backends[1]) != NULL);
    ggml_backend_sched_get_buffer_size(sched, backends[1]);
}

static void refused(int before) {
    refusals++;
    CHECK_EQ(errors, before + refusals);
}

/* Calls that would change the scheduler. */
static void change(struct ggml_tensor * t) {
    int before = errors;
    size_t sizes[2] = { 7, 7 };
    refusals = 0;
    ggml_backend_sched_reset(sched);
    refused(before);
    CHECK(!ggml_backend_sched_alloc_graph(sched, graph));
    refused(before);
    CHECK(!ggml_backend_sched_reserve(sched, graph));
    refused(before);
    ggml_backend_sched_reserve_size(sched, graph, sizes);
    refused(before);
    CHECK(sizes[0] == 0 && sizes[1] == 0);
    ggml_backend_sched_split_graph(sched, graph);
    refused(before);
    CHECK_EQ(ggml_backend_sched_graph_compute_async(sched, graph), GGML_STATUS_FAILED);
    refused(before);
    CHECK_EQ(ggml_backend_sched_graph_compute(sched, graph), GGML_STATUS_FAILED);
    refused(before);
    ggml_backend_sched_set_tensor_backend(sched, t, backends[1]);
    refused(before);
    ggml_backend_sched_free(sched);
    refused(before);
    errors = before;
}

static bool on_eval(struct ggml_tensor * t, bool is_question, void * user) {
    (void) user;
    calls++;
    ask(t);
    if (!is_question) {
        float x;
        ggml_backend_tensor_get(t, &x, 0, sizeof(x));
        CHECK_NEAR(x, 3.0f * (float) (2 << shown), 0);
        shown++;
        ggml_backend_sched_synchronize(sched);
    }
    if (changes) change(t);
    return true;
}

static bool on_copy(ggml_backend_t backend, const struct ggml_tensor * src, struct ggml_tensor * dst, struct ggml_cgraph * g, void * user) {
    (void) backend; (void) dst; (void) g; (void) user;
    calls++;
    ask((struct ggml_tensor *) (uintptr_t) src);
    if (changes) change(watched[0]);
    return false;
}

static void on_realloc(ggml_backend_sched_t s, struct ggml_cgraph * g, bool ids, bool size, void * user) {
    (void) ids; (void) size; (void) user;
    calls++;
    CHECK(s == sched && g != NULL);
    ask(watched[0]);
    if (changes) change(watched[0]);
}

/* Doubles x four times: on the device twice, then on the CPU. */
static struct ggml_tensor * doubled(struct ggml_context * ctx, struct ggml_tensor ** x) {
    struct ggml_tensor * y = *x = input(ctx, "x");
    for (int i = 0; i < NODES; i++) {
        y = watched[i] = ggml_scale(ctx, y, 2.0f);
        ggml_backend_sched_set_tensor_backend(sched, y, backends[i / 2]);
    }
    graph = graph_of(ctx, y);
    return y;
}

static void begin_calls(bool also_changes) {
    calls = shown = 0;
    changes = also_changes;
    slow_gpu(true, true);
    devices[0].slow = 0;
    devices[0].offloads = offloads_products;
    start(1);
    sched = ggml_backend_sched_new(backends, NULL, 2, 64, false, true);
}

static void end_calls(struct ggml_context * ctx) {
    ggml_backend_sched_free(sched);
    ggml_free(ctx);
    stop();
}

static void watch(bool also_changes) {
    begin_calls(also_changes);
    struct ggml_context * ctx = small_ctx();
    struct ggml_tensor * x, * y = doubled(ctx, &x);
    CHECK(ggml_backend_sched_alloc_graph(sched, graph));
    put(x, 3.0f);
    ggml_backend_sched_set_eval_callback(sched, on_eval, NULL);
    CHECK_EQ(ggml_backend_sched_graph_compute(sched, graph), GGML_STATUS_SUCCESS);
    CHECK_EQ(calls, 2 * NODES);
    CHECK_EQ(shown, NODES);
    CHECK_NEAR(peek(y), 48.0f, 0);
    /* Once more: the callback is gone. */
    ggml_backend_sched_set_eval_callback(sched, NULL, NULL);
    put(x, 1.0f);
    CHECK_EQ(ggml_backend_sched_graph_compute(sched, graph), GGML_STATUS_SUCCESS);
    CHECK_NEAR(peek(y), 16.0f, 0);
    end_calls(ctx);
}

static void copy(bool also_changes) {
    begin_calls(also_changes);
    struct ggml_context * weights = small_ctx(), * ctx = small_ctx();
    struct ggml_tensor * w = ggml_new_tensor_2d(weights, GGML_TYPE_F32, 64, 64);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(weights, backends[1]);
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    set_random(w, 3, 1.0f);
    struct ggml_tensor * x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    ggml_set_input(x);
    watched[0] = ggml_mul_mat(ctx, w, x);
    graph = graph_of(ctx, watched[0]);
    ggml_backend_sched_set_copy_callback(sched, on_copy, NULL);
    CHECK(ggml_backend_sched_alloc_graph(sched, graph));
    CHECK_EQ(ggml_backend_sched_graph_compute(sched, graph), GGML_STATUS_SUCCESS);
    CHECK_EQ(calls, 1);
    ggml_backend_buffer_free(buffer);
    ggml_free(weights);
    end_calls(ctx);
}

static void reallocate(bool also_changes) {
    begin_calls(also_changes);
    struct ggml_context * ctx = small_ctx();
    struct ggml_tensor * x, * y = doubled(ctx, &x);
    ggml_backend_sched_set_realloc_callback(sched, on_realloc, NULL);
    CHECK(ggml_backend_sched_alloc_graph(sched, graph));
    CHECK_EQ(calls, 1);
    put(x, 5.0f);
    CHECK_EQ(ggml_backend_sched_graph_compute(sched, graph), GGML_STATUS_SUCCESS);
    CHECK_NEAR(peek(y), 80.0f, 0);
    end_calls(ctx);
}

static void callbacks_may_ask_the_scheduler(void) {
    watch(false);
    copy(false);
    reallocate(false);
}

static void the_eval_callback_cannot_change_the_scheduler(void) { watch(true); }
static void the_copy_callback_cannot_change_the_scheduler(void) { copy(true); }
static void the_realloc_callback_cannot_change_the_scheduler(void) { reallocate(true); }

/* A callback may replace itself, or remove itself. */
static bool on_last(struct ggml_tensor * t, bool is_question, void * user) {
    (void) t;
    ++*(int *) user;
    if (is_question) return true;
    ggml_backend_sched_set_eval_callback(sched, on_eval, NULL);
    return false;
}
static void a_callback_may_be_set_in_a_callback(void) {
    begin_calls(false);
    struct ggml_context * ctx = small_ctx();
    struct ggml_tensor * x;
    doubled(ctx, &x);
    CHECK(ggml_backend_sched_alloc_graph(sched, graph));
    put(x, 3.0f);
    int first = 0;
    ggml_backend_sched_set_eval_callback(sched, on_last, &first);
    shown = 1;
    CHECK_EQ(ggml_backend_sched_graph_compute(sched, graph), GGML_STATUS_SUCCESS);
    CHECK_EQ(first, 2); /* called twice for the first node, which ends the device's part */
    CHECK_EQ(calls, NODES);
    end_calls(ctx);
}

int main(void) {
    begin();
    RUN(callbacks_may_ask_the_scheduler);
    if (!careful) {
        RUN(the_eval_callback_cannot_change_the_scheduler);
        RUN(the_copy_callback_cannot_change_the_scheduler);
        RUN(the_realloc_callback_cannot_change_the_scheduler);
        RUN(a_callback_may_be_set_in_a_callback);
    }
    test_begin();
    CHECK_EQ(races, 0);
    test_end("no races");
    return test_summary();
}
