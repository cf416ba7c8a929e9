/* Shared by the programs about devices with queues: the devices, random numbers, small graphs.
 *
 * ASYNC_CAREFUL=1: wait before inputs are written again, for libraries without this library's contract. */
#pragma once

#include "device.h"
#include "../common/check.h"
#include "../common/log.h"
#include "../common/random.h"

static bool careful;

/* ---- devices ---- */

static struct device devices[MAX_DEVICES];
static int n_devices; /* without the CPU */
static ggml_backend_t backends[MAX_DEVICES + 1]; /* the last one is the CPU */
static inline bool offloads_products(const struct ggml_tensor * t) { return t->op == GGML_OP_MUL_MAT || t->op == GGML_OP_MUL_MAT_ID; }

static inline struct device * plain(int i, const char * name) {
    struct device * d = &devices[i];
    memset(d, 0, sizeof(*d));
    snprintf(d->name, sizeof(d->name), "%s", name);
    d->type = GGML_BACKEND_DEVICE_TYPE_GPU;
    d->queue = d->transfers = d->events = d->copies = true;
    d->unmapped = true;
    d->poison = -1;
    return d;
}

/* Starts all devices, which have been described. */
static inline void start(int n) {
    n_devices = n;
    for (int i = 0; i < n; i++) {
        device_finish(&devices[i]);
        backends[i] = &devices[i].backend;
    }
    backends[n] = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backends[n], 1);
}

static inline void stop(void) {
    ggml_backend_free(backends[n_devices]);
    for (int i = 0; i < n_devices; i++) {
        CHECK_EQ(devices[i].live_buffers, 0);
        CHECK_EQ(devices[i].live_events, 0);
        device_end(&devices[i]);
    }
}

/* ---- small graphs ---- */

static inline struct ggml_tensor * input(struct ggml_context * ctx, const char * name) {
    struct ggml_tensor * t = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 256);
    ggml_set_name(t, name);
    ggml_set_input(t);
    return t;
}

static inline void put(struct ggml_tensor * t, float v) {
    float x[256];
    for (int i = 0; i < 256; i++) x[i] = v;
    ggml_backend_tensor_set(t, x, 0, sizeof(x));
}

static inline float peek(struct ggml_tensor * t) {
    float x;
    ggml_backend_tensor_get(t, &x, 100 * sizeof(x), sizeof(x));
    return x;
}

static inline struct ggml_cgraph * graph_of(struct ggml_context * ctx, struct ggml_tensor * t) {
    struct ggml_cgraph * g = ggml_new_graph_custom(ctx, 64, false);
    ggml_set_output(t);
    ggml_build_forward_expand(g, t);
    return g;
}

static inline struct ggml_context * small_ctx(void) { return new_ctx(ggml_tensor_overhead() * 64 + 4 * ggml_graph_overhead_custom(64, false)); }

static inline struct ggml_cgraph * chain(struct ggml_context * ctx, struct ggml_tensor ** x, struct ggml_tensor ** y, int n, int64_t size) {
    *x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, size);
    ggml_set_input(*x);
    *y = *x;
    for (int i = 0; i < n; i++) *y = ggml_add(ctx, ggml_scale(ctx, *y, 2.0f), *x);
    return graph_of(ctx, *y);
}

static inline void slow_gpu(bool events, bool transfers) {
    struct device * d = plain(0, "GPU");
    d->events = events;
    d->transfers = transfers;
    d->host_copies = true;
    d->slow = 20000;
    d->seed = 1;
}

/* A product with experts chosen by ids. Its weights are in host memory, and those that are copied go to a device that
 * fills new memory with NaN. Call poisoned_gpu, perhaps change that device, then call route. */
struct routed {
    struct ggml_context * weights, * ctx;
    ggml_backend_buffer_t buffer;
    ggml_backend_sched_t sched;
    struct ggml_tensor * w, * x, * ids, * y;
    struct ggml_cgraph * graph;
    float one[64]; /* what x gets */
};

static inline void poisoned_gpu(int slow) {
    slow_gpu(true, true);
    devices[0].slow = slow;
    devices[0].poison = 0xff;
    devices[0].unmapped = false;
    devices[0].offloads = offloads_products;
}

/* Eight experts of five rows. */
static inline struct routed route(int row, int n_ids) {
    struct routed r = { .weights = small_ctx(), .ctx = small_ctx() };
    start(1);
    r.w = ggml_new_tensor_3d(r.weights, GGML_TYPE_F32, row, 5, 8);
    r.buffer = ggml_backend_alloc_ctx_tensors(r.weights, backends[1]);
    ggml_backend_buffer_set_usage(r.buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    set_random(r.w, 3, 1.0f);
    r.sched = ggml_backend_sched_new(backends, NULL, 2, 64, false, true);
    r.x = ggml_new_tensor_3d(r.ctx, GGML_TYPE_F32, row, 1, 1);
    r.ids = ggml_new_tensor_2d(r.ctx, GGML_TYPE_I32, n_ids, 1);
    ggml_set_input(r.x);
    ggml_set_input(r.ids);
    r.y = ggml_mul_mat_id(r.ctx, r.w, r.x, r.ids);
    r.graph = graph_of(r.ctx, r.y);
    fill(r.one, row, 5, 1.0f);
    return r;
}

static inline void compute_routed(struct routed * r, const int32_t * chosen) {
    ggml_backend_tensor_set(r->x, r->one, 0, ggml_nbytes(r->x));
    ggml_backend_tensor_set(r->ids, chosen, 0, ggml_nbytes(r->ids));
    CHECK_EQ(ggml_backend_sched_graph_compute(r->sched, r->graph), GGML_STATUS_SUCCESS);
}

static inline void unroute(struct routed * r) {
    ggml_backend_sched_free(r->sched);
    ggml_backend_buffer_free(r->buffer);
    ggml_free(r->ctx);
    ggml_free(r->weights);
    stop();
}

/* Before anything else in `main`. */
static inline void begin(void) {
    careful = getenv("ASYNC_CAREFUL") != NULL;
    ggml_log_set(on_log, NULL);
}
