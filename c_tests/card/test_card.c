/* The card keeps its times, and computes: test_card LIBCARD. Set CARD_MODE=timing and no other variable of the card for
 * times (with the usual settings: 25 GB/s, half of it pageable, 8 microseconds a copy), CARD_MODE=values for values.
 * A time may be 10 % or 0.3 milliseconds longer, whichever is more, but never shorter. */
#include "../common/check.h"

#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"

#include <stdint.h>
#include <time.h>

#define MB 1000000

static ggml_backend_dev_t dev;
static ggml_backend_t one, two, host;
static struct ggml_context * ctx;
static struct ggml_tensor * big, * other; /* 100 MB on the card */
static ggml_backend_buffer_t pinned;
static char * pageable;

static double ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e3 + (double) t.tv_nsec / 1e6;
}

static void check_ms(double begun, double expected) {
    double took = ms() - begun, more = expected * 0.1 > 0.3 ? expected * 0.1 : 0.3;
    printf("     %.3f ms, %.3f expected\n", took, expected);
    CHECK(took >= expected - 0.001 && took <= expected + more);
}

static void test_pinned_copy_returns_at_once(void) {
    double t = ms();
    ggml_backend_tensor_set_async(one, big, ggml_backend_buffer_get_base(pinned), 0, 100 * MB);
    check_ms(t, 0);
    ggml_backend_synchronize(one);
    check_ms(t, 4.008);
}
static void test_pageable_copy_blocks(void) {
    double t = ms();
    ggml_backend_tensor_set_async(one, big, pageable, 0, 100 * MB);
    check_ms(t, 8.008);
    ggml_backend_synchronize(one);
    t = ms();
    ggml_backend_tensor_set_async(one, big, pageable, 0, 32768);
    check_ms(t, 0);
    ggml_backend_synchronize(one);
}
static void test_copies_one_way_take_turns(void) {
    double t = ms();
    ggml_backend_tensor_set_async(one, big, ggml_backend_buffer_get_base(pinned), 0, 100 * MB);
    ggml_backend_tensor_set_async(two, other, ggml_backend_buffer_get_base(pinned), 0, 100 * MB);
    ggml_backend_synchronize(one);
    ggml_backend_synchronize(two);
    check_ms(t, 8.016);
}
static void test_copies_both_ways_overlap(void) {
    double t = ms();
    ggml_backend_tensor_set_async(one, big, ggml_backend_buffer_get_base(pinned), 0, 100 * MB);
    ggml_backend_tensor_get_async(two, other, ggml_backend_buffer_get_base(pinned), 0, 100 * MB);
    ggml_backend_synchronize(one);
    ggml_backend_synchronize(two);
    check_ms(t, 4.008);
}

/* A graph of `n` sums of 100 MB: each reads 200 MB and writes 100. */
static struct ggml_cgraph * sums(struct ggml_context * c, int n) {
    struct ggml_cgraph * g = ggml_new_graph(c);
    for (int i = 0; i < n; i++) ggml_build_forward_expand(g, ggml_add_inplace(c, other, other));
    return g;
}
static struct ggml_context * scratch(void) {
    return ggml_init((struct ggml_init_params) { 4 << 20, NULL, true });
}
static void test_copies_overlap_with_graphs(void) {
    struct ggml_context * c = scratch();
    struct ggml_cgraph * g = sums(c, 10);
    for (int i = 0; i < ggml_graph_n_nodes(g); i++) ggml_backend_view_init(ggml_graph_node(g, i));
    double t = ms();
    ggml_backend_graph_compute_async(one, g);
    ggml_backend_tensor_set_async(two, big, ggml_backend_buffer_get_base(pinned), 0, 75 * MB);
    check_ms(t, 0);
    ggml_backend_synchronize(one);
    ggml_backend_synchronize(two);
    check_ms(t, 0.010 + 10 * 0.3015);
    ggml_free(c);
}
static void test_many_jobs_do_not_drift(void) {
    double t = ms();
    for (int i = 0; i < 300; i++) {
        ggml_backend_tensor_set_async(i % 2 ? one : two, i % 2 ? big : other, ggml_backend_buffer_get_base(pinned), 0, 2 * MB);
    }
    ggml_backend_synchronize(one);
    ggml_backend_synchronize(two);
    check_ms(t, 300 * 0.088);
}
static void test_events_order_streams(void) {
    ggml_backend_event_t e = ggml_backend_event_new(dev);
    double t = ms();
    ggml_backend_tensor_set_async(one, big, ggml_backend_buffer_get_base(pinned), 0, 100 * MB);
    ggml_backend_event_record(e, one);
    ggml_backend_event_wait(two, e);
    ggml_backend_tensor_get_async(two, big, ggml_backend_buffer_get_base(pinned), 0, 50 * MB);
    ggml_backend_event_synchronize(e);
    check_ms(t, 4.008);
    ggml_backend_synchronize(two);
    check_ms(t, 6.016);
    ggml_backend_event_free(e);
}
static void test_memory_is_limited(void) {
    size_t unused, total;
    ggml_backend_dev_memory(dev, &unused, &total);
    CHECK(total == (size_t) 8 << 30 && unused < total - 200 * MB && unused > total - 210 * MB);
    CHECK(ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(dev), unused + 1) == NULL);
    ggml_backend_buffer_t b = ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(dev), unused / 2);
    CHECK(b != NULL);
    ggml_backend_buffer_free(b);
}
static void test_offload_begins_at_32(void) {
    struct ggml_context * c = scratch();
    struct ggml_tensor * w = ggml_new_tensor_2d(c, GGML_TYPE_Q8_0, 64, 64), * ids = ggml_new_tensor_1d(c, GGML_TYPE_I32, 64);
    for (int n = 31; n <= 32; n++) {
        struct ggml_tensor * x = ggml_mul_mat(c, w, ggml_new_tensor_2d(c, GGML_TYPE_F32, 64, n));
        CHECK(ggml_backend_dev_offload_op(dev, x) == (n == 32) && ggml_backend_dev_supports_op(dev, x));
    }
    CHECK(!ggml_backend_dev_offload_op(dev, ggml_get_rows(c, w, ids)));
    ggml_free(c);
}

/* A product with experts, by ids that are not contiguous, with -1 and duplicates: as on the CPU. */
enum { K = 64, M = 32, EXPERTS = 9, USED = 4, TOKENS = 7 };
static void mixture(ggml_backend_t b, float * out) {
    struct ggml_context * c = scratch();
    struct ggml_tensor * w = ggml_new_tensor_3d(c, GGML_TYPE_Q8_0, K, M, EXPERTS), * x = ggml_new_tensor_3d(c, GGML_TYPE_F32, K, 1, TOKENS);
    struct ggml_tensor * all = ggml_new_tensor_2d(c, GGML_TYPE_I32, EXPERTS, TOKENS);
    struct ggml_tensor * y = ggml_mul_mat_id(c, w, x, ggml_view_2d(c, all, USED, TOKENS, all->nb[1], 0));
    struct ggml_cgraph * g = ggml_new_graph(c);
    ggml_build_forward_expand(g, y);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(c, b);
    static float weights[K * M * EXPERTS], inputs[K * TOKENS];
    static char blocks[sizeof weights];
    for (int i = 0; i < K * M * EXPERTS; i++) weights[i] = (float) (i * 37 % 101) / 50 - 1;
    for (int i = 0; i < K * TOKENS; i++) inputs[i] = (float) (i * 53 % 97) / 48 - 1;
    int32_t ids[EXPERTS * TOKENS];
    for (int i = 0; i < EXPERTS * TOKENS; i++) ids[i] = i % 11 == 3 ? -1 : i * 5 % EXPERTS;
    ids[0] = ids[1] = 2;
    size_t size = ggml_quantize_chunk(GGML_TYPE_Q8_0, weights, blocks, 0, M * EXPERTS, K, NULL);
    ggml_backend_tensor_set(w, blocks, 0, size);
    ggml_backend_tensor_set(x, inputs, 0, sizeof inputs);
    ggml_backend_tensor_set(all, ids, 0, sizeof ids);
    CHECK(ggml_backend_graph_compute(b, g) == GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(y, out, 0, sizeof(float) * M * USED * TOKENS);
    ggml_backend_buffer_free(buffer);
    ggml_free(c);
}
static void test_experts_as_on_the_cpu(void) {
    static float here[M * USED * TOKENS], there[M * USED * TOKENS];
    mixture(one, here);
    mixture(host, there);
    CHECK(memcmp(here, there, sizeof here) == 0);
    int zero = 3 * M; /* the row of ids[3] */
    for (int i = 0; i < M; i++) CHECK(here[zero + i] == 0);
}

int main(int argc, char ** argv) {
    if (argc < 2 || ggml_backend_load(argv[1]) == NULL) { fprintf(stderr, "usage: test_card LIBCARD\n"); return 2; }
    dev = ggml_backend_dev_by_name("CARD0");
    one = ggml_backend_dev_init(dev, NULL);
    two = ggml_backend_dev_init(dev, NULL);
    host = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ctx = ggml_init((struct ggml_init_params) { 1 << 20, NULL, true });
    big = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 25 * MB);
    other = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 25 * MB);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, one);
    pinned = ggml_backend_buft_alloc_buffer(ggml_backend_dev_host_buffer_type(dev), 100 * MB);
    pageable = malloc(100 * MB);
    const char * mode = getenv("CARD_MODE");
    RUN(test_memory_is_limited);
    RUN(test_offload_begins_at_32);
    if (mode != NULL && strcmp(mode, "timing") == 0) {
        RUN(test_pinned_copy_returns_at_once);
        RUN(test_pageable_copy_blocks);
        RUN(test_copies_one_way_take_turns);
        RUN(test_copies_both_ways_overlap);
        RUN(test_copies_overlap_with_graphs);
        RUN(test_many_jobs_do_not_drift);
        RUN(test_events_order_streams);
    } else {
        RUN(test_experts_as_on_the_cpu);
    }
    ggml_backend_buffer_free(buffer);
    ggml_backend_buffer_free(pinned);
    ggml_backend_free(one);
    ggml_backend_free(two);
    ggml_backend_free(host);
    ggml_free(ctx);
    free(pageable);
    return test_summary();
}
