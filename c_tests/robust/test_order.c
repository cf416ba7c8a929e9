/* Backends that are freed before the scheduler that used them, as llama.cpp does. */
#define ACCEL_STATIC
#include "../plugin/accel.c"

#include "../common/check.h"
#include "../common/child.h"

#include "ggml-alloc.h"
#include "ggml-cpu.h"

static int made, freed, computed, late; /* plans; calls to a backend that was freed */

static ggml_backend_graph_plan_t plan_create(ggml_backend_t b, const struct ggml_cgraph * g) {
    (void) b;
    const struct ggml_cgraph ** plan = malloc(sizeof *plan);
    *plan = g;
    made++;
    return plan;
}

static void plan_free(ggml_backend_t b, ggml_backend_graph_plan_t plan) {
    (void) b;
    free(plan);
    freed++;
}

static void plan_update(ggml_backend_t b, ggml_backend_graph_plan_t plan, const struct ggml_cgraph * g) {
    (void) b;
    *(const struct ggml_cgraph **) plan = g;
}

static enum ggml_status plan_compute(ggml_backend_t b, ggml_backend_graph_plan_t plan) {
    computed++;
    union { const struct ggml_cgraph * in; struct ggml_cgraph * out; } graph = { .in = *(const struct ggml_cgraph **) plan };
    return backend_compute(b, graph.out);
}

static void late_synchronize(ggml_backend_t b) {
    (void) b;
    late++;
}

static void late_plan(ggml_backend_t b, ggml_backend_graph_plan_t plan) {
    (void) b; (void) plan;
    late++;
}

/* Keeps the memory, so that calls after the free can be counted. */
static void free_and_watch(ggml_backend_t b) {
    b->iface = (struct ggml_backend_i) { .get_name = backend_name, .synchronize = late_synchronize, .graph_plan_free = late_plan };
}

enum { N = 8 };

struct host {
    ggml_backend_t        backends[2];
    ggml_backend_sched_t  sched;
    struct ggml_context * weights, *ctx;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *  w, *x, *y;
    struct ggml_cgraph *  graph;
};

static void begin(struct host * h) {
    made = freed = computed = late = 0;
    h->backends[0] = device_init(the_device(), NULL);
    h->backends[1] = ggml_backend_cpu_init();
    struct ggml_backend_i * iface = &h->backends[0]->iface;
    iface->free                   = free_and_watch;
    iface->graph_plan_create      = plan_create;
    iface->graph_plan_free        = plan_free;
    iface->graph_plan_update      = plan_update;
    iface->graph_plan_compute     = plan_compute;
    h->sched   = ggml_backend_sched_new(h->backends, NULL, 2, 64, false, false);
    h->weights = ggml_init((struct ggml_init_params) { 1u << 14, NULL, true });
    h->w       = ggml_new_tensor_2d(h->weights, GGML_TYPE_F32, N, N);
    h->buffer  = ggml_backend_alloc_ctx_tensors(h->weights, h->backends[0]);
    ggml_backend_buffer_set_usage(h->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    float one[N * N] = { 0 };
    for (int i = 0; i < N; i++) { one[i * (N + 1)] = 2.0f; }
    ggml_backend_tensor_set(h->w, one, 0, sizeof one);
    h->ctx = ggml_init((struct ggml_init_params) { 1u << 18, NULL, true });
    h->x   = ggml_new_tensor_1d(h->ctx, GGML_TYPE_F32, N);
    ggml_set_input(h->x);
    h->y = ggml_mul_mat(h->ctx, h->w, h->x);
    ggml_set_output(h->y);
    h->graph = ggml_new_graph(h->ctx);
    ggml_build_forward_expand(h->graph, h->y);
    CHECK(ggml_backend_sched_alloc_graph(h->sched, h->graph));
    for (int i = 0; i < 4; i++) {
        float in[N], out[N];
        for (int k = 0; k < N; k++) { in[k] = (float) (k + i); }
        ggml_backend_tensor_set(h->x, in, 0, sizeof in);
        CHECK_EQ(ggml_backend_sched_graph_compute(h->sched, h->graph), GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get(h->y, out, 0, sizeof out);
        CHECK_EQ(out[N - 1], 2 * (N - 1 + i));
    }
    CHECK_EQ(made, 1);
    CHECK(computed > 0);
}

static void end(struct host * h, bool scheduler_first) {
    struct ggml_backend * accel = h->backends[0];
    if (scheduler_first) { ggml_backend_sched_free(h->sched); }
    ggml_backend_free(h->backends[0]);
    CHECK_EQ(freed, 1);
    ggml_backend_free(h->backends[1]);
    if (!scheduler_first) { ggml_backend_sched_free(h->sched); }
    CHECK_EQ(freed, 1);
    CHECK_EQ(late, 0);
    free(accel);
    ggml_free(h->ctx);
    ggml_backend_buffer_free(h->buffer);
    ggml_free(h->weights);
}

static void plans_go_with_the_scheduler(void) {
    struct host h;
    begin(&h);
    end(&h, true);
}

static void plans_go_with_the_backend(void) {
    struct host h;
    begin(&h);
    end(&h, false);
}

int main(void) {
    RUN(plans_go_with_the_scheduler);
    RUN(plans_go_with_the_backend);
    return test_summary();
}
