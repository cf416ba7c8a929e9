/* A small graph with a scheduler, weights, and a result that is known. */
#ifndef C_TESTS_CALCULATION_HPP
#define C_TESTS_CALCULATION_HPP

#include "check.h"

#include "ggml-alloc.h"
#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <vector>

struct calculation {
    enum { N = 64, N_NODES = 6 };
    ggml_backend_t        backend = ggml_backend_cpu_init();
    ggml_backend_sched_t  sched   = ggml_backend_sched_new(&backend, nullptr, 1, 64, false, false);
    ggml_context *        weights = ggml_init({ 1u << 16, nullptr, true });
    ggml_context *        ctx     = ggml_init({ 1u << 20, nullptr, true });
    ggml_tensor *         w       = ggml_new_tensor_2d(weights, GGML_TYPE_F32, N, N);
    ggml_backend_buffer_t buffer  = ggml_backend_alloc_ctx_tensors(weights, backend);
    ggml_tensor *         x       = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, N);
    ggml_tensor *         y       = x;
    ggml_cgraph *         graph   = ggml_new_graph(ctx);

    calculation() {
        std::vector<float> two(N * N);
        for (int i = 0; i < N; i++) { two[(size_t) (i * (N + 1))] = 2.0f; }
        ggml_backend_tensor_set(w, two.data(), 0, ggml_nbytes(w));
        ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        ggml_set_input(x);
        for (int i = 0; i < N_NODES; i++) { y = ggml_mul_mat(ctx, w, y); }
        ggml_set_output(y);
        ggml_build_forward_expand(graph, y);
    }
    calculation(const calculation &) = delete;

    ~calculation() {
        ggml_backend_sched_free(sched);
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
        ggml_free(weights);
        ggml_backend_free(backend);
    }

    /* Allocates and computes; checks the result. */
    void run() {
        ggml_backend_sched_reset(sched);
        CHECK(ggml_backend_sched_alloc_graph(sched, graph));
        std::vector<float> in(N), out(N);
        for (int i = 0; i < N; i++) { in[(size_t) i] = (float) i; }
        ggml_backend_tensor_set(x, in.data(), 0, ggml_nbytes(x));
        CHECK_EQ(ggml_backend_sched_graph_compute(sched, graph), GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get(y, out.data(), 0, ggml_nbytes(y));
        CHECK_EQ(out[N - 1], (N - 1) << N_NODES);
    }
};

#endif
