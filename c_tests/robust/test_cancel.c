/* How soon a computation ends after its abort callback has returned true: nodes that take long, and many short nodes,
 * on two threads. The test measures the processor time of the calling thread, which does not depend on other
 * programs. */
#include "../common/check.h"
#include "../common/child.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { TRIES = 15 };
static const double ENOUGH_MS = 10.0;

static atomic_bool     stop;
static _Atomic int64_t stopped_at, worked_until; /* time, and processor time of the computing thread, in microseconds */
static clockid_t       work;

static bool asked(void * user) {
    (void) user;
    return stop;
}

static int64_t work_us(void) {
    struct timespec t;
    return clock_gettime(work, &t) == 0 ? t.tv_sec * 1000000 + t.tv_nsec / 1000 : 0;
}

static void * stop_later(void * after_us) {
    const int64_t until = ggml_time_us() + *(int64_t *) after_us;
    while (ggml_time_us() < until) { nanosleep(&(struct timespec) { 0, 100000 }, NULL); }
    worked_until = work_us();
    stopped_at   = ggml_time_us();
    stop         = true;
    return NULL;
}

struct host {
    ggml_backend_t        backend;
    ggml_backend_sched_t  sched;
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  result;
};

static struct ggml_tensor * input(struct host * h, enum ggml_type type, int64_t a, int64_t b, int64_t c) {
    struct ggml_tensor * t = ggml_new_tensor_3d(h->ctx, type, a, b, c);
    ggml_set_input(t);
    return t;
}

/* `kind` of computation; each takes much longer than ENOUGH_MS on two threads, also on a fast machine */
static struct ggml_tensor * build(struct host * h, const char * kind) {
    if (strcmp(kind, "product") == 0) { return ggml_mul_mat(h->ctx, input(h, GGML_TYPE_F32, 4096, 4096, 1), input(h, GGML_TYPE_F32, 4096, 512, 1)); }
    if (strcmp(kind, "quantized") == 0) { return ggml_mul_mat(h->ctx, input(h, GGML_TYPE_Q4_0, 4096, 8192, 1), input(h, GGML_TYPE_F32, 4096, 2048, 1)); }
    if (strcmp(kind, "attention") == 0) {
        struct ggml_tensor * k = input(h, GGML_TYPE_F16, 64, 4096, 8);
        return ggml_flash_attn_ext(h->ctx, input(h, GGML_TYPE_F32, 64, 1024, 8), k, k, NULL, 0.1f, 0.0f, 0.0f);
    }
    if (strcmp(kind, "pooling") == 0) { return ggml_pool_2d(h->ctx, input(h, GGML_TYPE_F32, 512, 512, 64), GGML_OP_POOL_MAX, 15, 15, 1, 1, 7, 7); }
    struct ggml_tensor * t = input(h, GGML_TYPE_F32, 1024, 1024, 1);
    for (int i = 0; i < 1000; i++) { t = ggml_soft_max(h->ctx, t); }
    return t;
}

static void begin(struct host * h, const char * kind) {
    h->backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(h->backend, 2);
    ggml_backend_cpu_set_abort_callback(h->backend, asked, NULL);
    h->sched  = ggml_backend_sched_new(&h->backend, NULL, 1, 2048, false, false);
    h->ctx    = ggml_init((struct ggml_init_params) { 4u << 20, NULL, true });
    h->graph  = ggml_new_graph_custom(h->ctx, 2048, false);
    h->result = build(h, kind);
    ggml_set_output(h->result);
    ggml_build_forward_expand(h->graph, h->result);
    CHECK(ggml_backend_sched_alloc_graph(h->sched, h->graph));
    for (struct ggml_tensor * t = ggml_get_first_tensor(h->ctx); t != NULL; t = ggml_get_next_tensor(h->ctx, t)) {
        if ((t->flags & GGML_TENSOR_FLAG_INPUT) != 0) { ggml_backend_tensor_memset(t, 0, 0, ggml_nbytes(t)); }
    }
}

static int ascending(const void * a, const void * b) {
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static void cancelled(const char * kind) {
    struct host h;
    begin(&h, kind);
    double ms[TRIES], work_ms[TRIES];
    int    n = 0;
    for (int i = 0; i < TRIES; i++) {
        int64_t   after_us = 1000 + 1700 * i;
        pthread_t other;
        stop = false;
        pthread_create(&other, NULL, stop_later, &after_us);
        const enum ggml_status status = ggml_backend_sched_graph_compute(h.sched, h.graph);
        const int64_t          now = ggml_time_us(), worked = work_us();
        pthread_join(other, NULL);
        CHECK_EQ(status, GGML_STATUS_ABORTED);
        work_ms[n] = (double) (worked - worked_until) / 1e3;
        ms[n++]    = (double) (now - stopped_at) / 1e3;
    }
    qsort(ms, (size_t) n, sizeof ms[0], ascending);
    qsort(work_ms, (size_t) n, sizeof ms[0], ascending);
    printf("note %s: %.2f ms of work after the request, %.2f ms at most; ended after %.2f ms, %.2f ms at most (%d times)\n", kind, work_ms[n / 2], work_ms[n - 1], ms[n / 2],
           ms[n - 1], n);
    CHECK(work_ms[n / 2] < ENOUGH_MS);
    /* the scheduler and the graph are as good as before */
    stop = false;
    const int64_t begun = ggml_time_us();
    CHECK_EQ(ggml_backend_sched_graph_compute(h.sched, h.graph), GGML_STATUS_SUCCESS);
    const double whole = (double) (ggml_time_us() - begun) / 1e3;
    CHECK(whole > 3 * ENOUGH_MS); /* otherwise stopping would prove nothing */
    ggml_backend_sched_free(h.sched);
    ggml_backend_free(h.backend);
    ggml_free(h.ctx);
}

static void a_product_is_cancelled(void) { cancelled("product"); }
static void a_quantized_product_is_cancelled(void) { cancelled("quantized"); }
static void attention_is_cancelled(void) { cancelled("attention"); }
static void pooling_is_cancelled(void) { cancelled("pooling"); }
static void many_nodes_are_cancelled(void) { cancelled("nodes"); }

int main(void) {
    if (pthread_getcpuclockid(pthread_self(), &work) != 0) { return 1; }
    RUN(a_product_is_cancelled);
    RUN(a_quantized_product_is_cancelled);
    RUN(attention_is_cancelled);
    RUN(pooling_is_cancelled);
    RUN(many_nodes_are_cancelled);
    return test_summary();
}
