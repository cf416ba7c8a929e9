/* Violations of the contract that the race checker must report, and correct runs that it must not report. Needs
 * GGML_SCHED_SANITIZE=1. */
#include "common.h"

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
    CHECK_EQ(races - before, found); /* no report after the waits */
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

int main(void) {
    begin();
    RUN(seeded_races_are_reported);
    RUN(correct_runs_are_not);
    return test_summary();
}
