/* Operations that the host computes: on which threads they are called, how often, with which arguments. */
#include "../common/check.h"

#include "ggml-cpu.h"

#include <stdatomic.h>
#include <stdint.h>

enum { ROWS = 12, COLUMNS = 7 };

static atomic_int calls, threads, wrong;
static int        datum;

/* Each thread triples its own rows. */
static void rows_of(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * userdata) {
    atomic_fetch_add(&calls, 1);
    atomic_store(&threads, nth);
    if (ith < 0 || ith >= nth || userdata != &datum) { atomic_fetch_add(&wrong, 1); }
    for (int64_t row = ith; row < ggml_nrows(dst); row += nth) {
        for (int64_t i = 0; i < dst->ne[0]; i++) { ((float *) dst->data)[row * dst->ne[0] + i] = 3 * ((const float *) a->data)[row * a->ne[0] + i]; }
    }
}

static void of_two(struct ggml_tensor * dst, const struct ggml_tensor * a, const struct ggml_tensor * b, int ith, int nth, void * userdata) {
    if (b->ne[0] != COLUMNS) { atomic_fetch_add(&wrong, 1); }
    rows_of(dst, a, ith, nth, userdata);
}

static void of_three(struct ggml_tensor * dst, const struct ggml_tensor * a, const struct ggml_tensor * b, const struct ggml_tensor * c, int ith, int nth, void * userdata) {
    if (c->ne[0] != 2) { atomic_fetch_add(&wrong, 1); }
    of_two(dst, a, b, ith, nth, userdata);
}

static void any(struct ggml_tensor * dst, int ith, int nth, void * userdata) {
    if (dst->src[1] == NULL) { atomic_fetch_add(&wrong, 1); }
    rows_of(dst, dst->src[0], ith, nth, userdata);
}

/* An operation with `tasks` tasks, in a graph that has `n_threads`. */
static void one(int kind, int tasks, int n_threads, int expected) {
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) { .mem_size = 4u << 20, .mem_buffer = NULL, .no_alloc = false });
    struct ggml_tensor *a = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, COLUMNS, ROWS), *b = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, COLUMNS, ROWS);
    struct ggml_tensor *c = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 2), *sources[2] = { a, b }, *out = NULL;
    for (int i = 0; i < COLUMNS * ROWS; i++) { ((float *) a->data)[i] = (float) i; }
    switch (kind) {
        case 1: out = ggml_map_custom1(ctx, a, rows_of, tasks, &datum); break;
        case 2: out = ggml_map_custom2(ctx, a, b, of_two, tasks, &datum); break;
        case 3: out = ggml_map_custom3(ctx, a, b, c, of_three, tasks, &datum); break;
        default: out = ggml_custom_4d(ctx, GGML_TYPE_F32, COLUMNS, ROWS, 1, 1, sources, 2, any, tasks, &datum); break;
    }
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, out);
    atomic_store(&calls, 0);
    atomic_store(&wrong, 0);
    CHECK_EQ(ggml_graph_compute_with_ctx(ctx, graph, n_threads), GGML_STATUS_SUCCESS);
    if (atomic_load(&calls) != expected || atomic_load(&threads) != expected || atomic_load(&wrong) != 0) {
        test_fails(__FILE__, __LINE__, "kind %d, %d tasks, %d threads: %d calls of %d threads, %d wrong, expected %d", kind, tasks, n_threads, atomic_load(&calls),
            atomic_load(&threads), atomic_load(&wrong), expected);
    }
    for (int i = 0; i < COLUMNS * ROWS; i++) { CHECK_NEAR(((float *) out->data)[i], 3.0 * i, 0); }
    ggml_free(ctx);
}

static void as_many_threads_as_wanted(void) {
    for (int kind = 1; kind <= 4; kind++) {
        one(kind, 1, 4, 1);
        one(kind, 2, 4, 2);
        one(kind, 3, 4, 3);
        one(kind, GGML_N_TASKS_MAX, 4, 4);
    }
}

static void no_more_than_there_are(void) {
    for (int kind = 1; kind <= 4; kind++) {
        one(kind, 8, 3, 3);
        one(kind, 2, 1, 1);
        one(kind, GGML_N_TASKS_MAX, 1, 1);
    }
}

int main(void) {
    RUN(as_many_threads_as_wanted);
    RUN(no_more_than_there_are);
    return test_summary();
}
