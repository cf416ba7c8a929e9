/* Every buffer, event and computation of a device fails once: the call returns an error, frees everything, and the next
 * call works.
 *
 *   test_faults [quick] */
#include "common.h"

enum fault { BUFFER, EVENT, COMPUTE, LOST };

/* The same work twice. The k-th allocation, event or computation fails the first time, and nothing the second time.
 * Returns whether there was a k-th. */
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
    (void) argv;
    begin();
    quick = argc > 1;
    RUN(every_buffer_fails_once);
    RUN(every_event_fails_once);
    RUN(every_computation_fails_once);
    RUN(a_lost_device_comes_back);
    return test_summary();
}
