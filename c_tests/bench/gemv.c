/* Times products of a matrix with few columns, for every format of weights, on one thread: gemv [k rows columns rounds]. Prints a line
 * "FORMAT<tab>MICROSECONDS" (the fastest round, processor time). turns.py runs it on two libraries in turns. */
#include "../common/data.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

int main(int argc, char ** argv) {
    const int64_t k = argc > 1 ? atoll(argv[1]) : 2048, m = argc > 2 ? atoll(argv[2]) : 2048, n = argc > 3 ? atoll(argv[3]) : 1;
    const int     rounds = argc > 4 ? atoi(argv[4]) : 60;
    ggml_backend_t backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, 1);
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        const enum ggml_type type = (enum ggml_type) t;
        if (ggml_blck_size(type) <= 0 || ggml_type_size(type) == 0 || k % ggml_blck_size(type) != 0) { continue; }
        if (ggml_get_type_traits_cpu(type)->vec_dot == NULL || type == GGML_TYPE_Q8_1 || type == GGML_TYPE_Q8_K) { continue; }
        const struct ggml_init_params params = { 16 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL, true };
        struct ggml_context * ctx = ggml_init(params);
        struct ggml_tensor *  a = ggml_new_tensor_2d(ctx, type, k, m), * b = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, k, n);
        struct ggml_cgraph *  graph = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph, ggml_mul_mat(ctx, a, b));
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
        uint64_t              state  = 1;
        float *               x      = ggml_get_data(b);
        for (int64_t i = 0; i < k * n; i++) { x[i] = data_float(&state, -1.0f, 1.0f); }
        if (type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16) {
            memset(ggml_get_data(a), 0, ggml_nbytes(a));
        } else {
            data_blocks(type, ggml_get_data(a), ggml_nbytes(a), 5);
        }
        double best = 1e9;
        for (int r = 0; r < rounds; r++) {
            const double start = seconds();
            ggml_backend_graph_compute(backend, graph);
            const double took = seconds() - start;
            if (took < best) { best = took; }
        }
        printf("%s\t%.1f\n", ggml_type_name(type), 1e6 * best);
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
    }
    ggml_backend_free(backend);
    return 0;
}
