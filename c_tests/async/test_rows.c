/* Bugs that schedulers once had, by their names in docs/FAULTS.md (S4, S6 and so on), on a device with a slow queue. */
#include "common.h"

/* One graph computed over and over. The next inputs are written as soon as it is started. */
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

/* Kernels that read past the end of rows must not find garbage after a weight, nor after each expert in use. The device
 * fills new memory with NaN. The tail of an expert is in the next expert, which the scheduler copies too. Buffers for
 * computing have the usage of compute buffers. */
static void S22_the_tail_of_copied_weights(void) {
    poisoned_gpu(0);
    devices[0].padding = 512;
    struct routed r = route(33, 2); /* rows that are no multiple of anything */
    CHECK(ggml_backend_sched_alloc_graph(r.sched, r.graph));
    CHECK_EQ(devices[0].last_init_usage, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    int32_t chosen[2] = { 1, 4 };
    compute_routed(&r, chosen);
    CHECK(ggml_backend_sched_get_tensor_backend(r.sched, r.y) == backends[0]);
    const float * copy = (const float *) (const void *) real(r.y->src[0]);
    int matrix = 33 * 5, n_bad = 0, n_copied = 0;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < matrix + 128; i++) n_bad += copy[chosen[k] * matrix + i] != copy[chosen[k] * matrix + i];
    }
    for (int i = 0; i < 8 * matrix; i++) n_copied += copy[i] == copy[i];
    CHECK_EQ(n_bad, 0);
    /* Without a callback, the original copies all experts. */
    CHECK_EQ(n_copied, careful ? 8 * matrix : 2 * (matrix + 128));
    unroute(&r);
}

int main(void) {
    begin();
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
    return test_summary();
}
