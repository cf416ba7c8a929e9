/* Times graphs of nodes that hardly compute: tiny [nodes rounds]. Prints "ADD NANOSECONDS" a node for a chain of sums
 * of 16 numbers, then "MUL_MAT" for products of 32 x 4 by 32 x 1 and "FRESH" for the chain when every computation finds
 * another tensor's data moved (the fastest round). */
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

int main(int argc, char ** argv) {
    const int      n = argc > 1 ? atoi(argv[1]) : 2000, rounds = argc > 2 ? atoi(argv[2]) : 300;
    ggml_backend_t backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, 1);
    for (int kind = 0; kind < 3; kind++) {
        const size_t                  size   = (size_t) n * (ggml_tensor_overhead() + 64) + ggml_graph_overhead_custom((size_t) n, false) + (1u << 20);
        const struct ggml_init_params params = { size, NULL, true };
        struct ggml_context *         ctx    = ggml_init(params);
        struct ggml_tensor *          x      = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, kind == 1 ? 32 : 16);
        struct ggml_tensor *          w      = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 32, 4);
        struct ggml_tensor *          y      = x;
        struct ggml_cgraph *          graph  = ggml_new_graph_custom(ctx, (size_t) n, false);
        for (int i = 0; i < n; i++) {
            y = kind == 1 ? ggml_mul_mat(ctx, w, x) : ggml_add(ctx, y, x);
            ggml_build_forward_expand(graph, y);
        }
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
        ggml_backend_buffer_clear(buffer, 0);
        double best = 1e9;
        void * data = y->data;
        for (int r = 0; r < rounds; r++) {
            if (kind == 2) { y->data = r % 2 ? data : ggml_graph_node(graph, n / 2)->data; }
            const double start = seconds();
            ggml_backend_graph_compute(backend, graph);
            const double took = seconds() - start;
            if (took < best) { best = took; }
        }
        printf("%s %.1f\n", kind == 0 ? "ADD" : kind == 1 ? "MUL_MAT" : "FRESH", 1e9 * best / n);
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
    }
    ggml_backend_free(backend);
    return 0;
}
