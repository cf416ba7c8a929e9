/* Times products of a matrix with few columns, for every format of weights, on one thread: gemv [k rows columns rounds
 * [repack|file [FORMAT]]]. Prints a line "FORMAT<tab>MICROSECONDS" (the fastest round, processor time). With `repack`
 * the weights are in CPU_REPACK, where the format can be. turns.py runs it on two libraries in turns, counts.py counts
 * instructions in an emulator. */
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

/* Gives `weights` memory in CPU_REPACK, if the CPU then computes `product`. NULL if it does not. */
static ggml_backend_buffer_t in_repack(struct ggml_tensor * weights, const struct ggml_tensor * product) {
    ggml_backend_dev_t                 cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    ggml_backend_dev_get_extra_bufts_t get =
        (ggml_backend_dev_get_extra_bufts_t) ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t * type = get != NULL ? get(cpu) : NULL;
    while (type != NULL && *type != NULL && strcmp(ggml_backend_buft_name(*type), "CPU_REPACK") != 0) { type++; }
    if (type == NULL || *type == NULL) { return NULL; }
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(*type, ggml_backend_buft_get_alloc_size(*type, weights));
    weights->buffer              = buffer;
    const bool can               = ggml_backend_dev_supports_op(cpu, product);
    weights->buffer              = NULL;
    if (can && ggml_backend_tensor_alloc(buffer, weights, ggml_backend_buffer_get_base(buffer)) == GGML_STATUS_SUCCESS) { return buffer; }
    ggml_backend_buffer_free(buffer);
    return NULL;
}

int main(int argc, char ** argv) {
    const int64_t k = argc > 1 ? atoll(argv[1]) : 2048, m = argc > 2 ? atoll(argv[2]) : 2048, n = argc > 3 ? atoll(argv[3]) : 1;
    const int     rounds = argc > 4 ? atoi(argv[4]) : 60;
    const bool    repack = argc > 5 && strcmp(argv[5], "file") != 0;
    ggml_backend_t backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, 1);
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        const enum ggml_type type = (enum ggml_type) t;
        if (argc > 6 && strcmp(ggml_type_name(type), argv[6]) != 0) { continue; }
        if (ggml_blck_size(type) <= 0 || ggml_type_size(type) == 0 || k % ggml_blck_size(type) != 0) { continue; }
        if (ggml_get_type_traits_cpu(type)->vec_dot == NULL || type == GGML_TYPE_Q8_1 || type == GGML_TYPE_Q8_K) { continue; }
        const struct ggml_init_params params = { 16 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL, true };
        struct ggml_context * ctx = ggml_init(params);
        struct ggml_tensor *  a = ggml_new_tensor_2d(ctx, type, k, m), * b = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, k, n);
        struct ggml_cgraph *  graph = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph, ggml_mul_mat(ctx, a, b));
        /* A type refuses the formats that it does not have when the tensor gets its memory there. */
        ggml_backend_buffer_t interleaved = repack ? in_repack(a, ggml_graph_node(graph, 0)) : NULL;
        if (repack && interleaved == NULL) {
            ggml_free(ctx);
            continue;
        }
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
        uint64_t              state  = 1;
        float *               x      = ggml_get_data(b);
        for (int64_t i = 0; i < k * n; i++) { x[i] = data_float(&state, -1.0f, 1.0f); }
        void * bytes = calloc(1, ggml_nbytes(a));
        if (type != GGML_TYPE_F32 && type != GGML_TYPE_F16 && type != GGML_TYPE_BF16) { data_blocks(type, bytes, ggml_nbytes(a), 5); }
        ggml_backend_tensor_set(a, bytes, 0, ggml_nbytes(a));
        free(bytes);
        double best = 1e9;
        for (int r = 0; r < rounds; r++) {
            const double start = seconds();
            ggml_backend_graph_compute(backend, graph);
            const double took = seconds() - start;
            if (took < best) { best = took; }
        }
        printf("%s\t%.1f\n", ggml_type_name(type), 1e6 * best);
        ggml_backend_buffer_free(buffer);
        if (interleaved != NULL) { ggml_backend_buffer_free(interleaved); }
        ggml_free(ctx);
    }
    ggml_backend_free(backend);
    return 0;
}
