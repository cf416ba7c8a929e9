/* Functions that write the data of tensors return nothing. If one fails, graphs that read the tensor fail until it is
 * written. Here the writes fail because their range is wrong and GGML_RS_POLICY_ERROR makes that an error. Those of
 * devices fail in c_tests/vulkan/test_faults.c. */
#include "../common/check.h"
#include "../common/child.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-rs.h"

enum { N = 64 };

struct world {
    ggml_backend_t        backend;
    struct ggml_context * ctx;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *  x, *other, *y;
    struct ggml_cgraph *  graph;
};

static struct world begin(void) {
    struct world w;
    w.backend = ggml_backend_cpu_init();
    w.ctx     = ggml_init((struct ggml_init_params) { 1u << 18, NULL, true });
    w.x       = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, N);
    w.other   = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, N);
    w.y       = ggml_sqr(w.ctx, ggml_sqr(w.ctx, w.x));
    ggml_set_name(w.x, "the input");
    w.graph   = ggml_new_graph(w.ctx);
    ggml_build_forward_expand(w.graph, w.y);
    w.buffer = ggml_backend_alloc_ctx_tensors(w.ctx, w.backend);
    ggml_backend_buffer_clear(w.buffer, 0);
    return w;
}

static void end(struct world * w) {
    ggml_backend_buffer_free(w->buffer);
    ggml_free(w->ctx);
    ggml_backend_free(w->backend);
}

static enum ggml_status run(struct world * w) {
    ggml_rs_clear_error();
    return ggml_backend_graph_compute(w->backend, w->graph);
}

static void a_write_that_failed_is_not_computed_with(void) {
    struct world w = begin();
    float        ones[2 * N];
    for (int i = 0; i < 2 * N; i++) { ones[i] = 1.0f; }
    CHECK_EQ(run(&w), GGML_STATUS_SUCCESS);
    for (int how = 0; how < 6; how++) {
        const size_t half = N / 2 * sizeof(float);
        switch (how) { /* each is half a tensor too far */
            case 0: ggml_backend_tensor_set(w.x, ones, half, 2 * half); break;
            case 1: ggml_backend_tensor_memset(w.x, 0, half, 2 * half); break;
            case 2: ggml_backend_tensor_set_2d(w.x, ones, half, 4, N, 4, 4); break;
            case 3: ggml_backend_tensor_set_async(w.backend, w.x, ones, half, 2 * half); break;
            case 4: ggml_backend_tensor_set_2d_async(w.backend, w.x, ones, half, 4, N, 4, 4); break;
            default: {
                struct ggml_tensor * shorter = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, N / 2);
                ggml_backend_tensor_copy(shorter, w.x);
            }
        }
        CHECK_EQ(run(&w), GGML_STATUS_FAILED);
        CHECK(strstr(ggml_rs_last_error(), "the input") != NULL);
        /* A graph that does not read it computes. */
        struct ggml_cgraph *  rest  = ggml_new_graph_custom(w.ctx, 8, false);
        struct ggml_context * apart = ggml_init((struct ggml_init_params) { 1u << 16, NULL, true });
        struct ggml_tensor *  z     = ggml_sqr(apart, w.other);
        ggml_build_forward_expand(rest, z);
        ggml_backend_buffer_t room = ggml_backend_alloc_ctx_tensors(apart, w.backend);
        CHECK_EQ(ggml_backend_graph_compute(w.backend, rest), GGML_STATUS_SUCCESS);
        /* Copies from it fail too, so the destination cannot be read either. */
        ggml_backend_tensor_copy(w.x, w.other);
        CHECK_EQ(ggml_backend_graph_compute(w.backend, rest), GGML_STATUS_FAILED);
        ggml_backend_tensor_set(w.other, ones, 0, N * sizeof(float));
        CHECK_EQ(ggml_backend_graph_compute(w.backend, rest), GGML_STATUS_SUCCESS);
        ggml_backend_buffer_free(room);
        ggml_free(apart);
        ggml_backend_tensor_set(w.x, ones, half, half - 4);
        CHECK_EQ(run(&w), GGML_STATUS_FAILED); /* four bytes are missing */
        ggml_backend_tensor_set(w.x, ones, 0, N * sizeof(float));
        CHECK_EQ(run(&w), GGML_STATUS_SUCCESS);
        float last = 0;
        ggml_backend_tensor_get(w.y, &last, (N - 1) * sizeof(float), sizeof last);
        CHECK(last == 1.0f);
        ggml_graph_clear(rest);
    }
    end(&w);
}

/* The scheduler copies inputs between devices, and plans its memory again: overwritten data does not matter any
 * more. */
static void a_scheduler_refuses_too(void) {
    ggml_backend_t        backend = ggml_backend_cpu_init();
    ggml_backend_sched_t  sched   = ggml_backend_sched_new(&backend, NULL, 1, 64, false, false);
    struct ggml_context * c       = ggml_init((struct ggml_init_params) { 1u << 18, NULL, true });
    struct ggml_tensor *  x       = ggml_new_tensor_1d(c, GGML_TYPE_F32, N);
    ggml_set_input(x);
    struct ggml_cgraph * g = ggml_new_graph(c);
    ggml_build_forward_expand(g, ggml_sqr(c, x));
    float ones[2 * N] = { 0 };
    CHECK(ggml_backend_sched_alloc_graph(sched, g));
    ggml_backend_tensor_set(x, ones, 0, N * sizeof(float));
    CHECK_EQ(ggml_backend_sched_graph_compute(sched, g), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_set(x, ones, 4, N * sizeof(float));
    CHECK_EQ(ggml_backend_sched_graph_compute(sched, g), GGML_STATUS_FAILED);
    ggml_backend_tensor_set(x, ones, 0, N * sizeof(float));
    CHECK_EQ(ggml_backend_sched_graph_compute(sched, g), GGML_STATUS_SUCCESS);
    ggml_backend_sched_free(sched);
    ggml_backend_free(backend);
    ggml_free(c);
}

int main(void) {
    setenv("GGML_DISABLE_VULKAN", "1", 1);
    ggml_log_set(child_quiet, NULL);
    ggml_rs_set_policy(GGML_RS_POLICY_ERROR);
    RUN(a_write_that_failed_is_not_computed_with);
    RUN(a_scheduler_refuses_too);
    return test_summary();
}
