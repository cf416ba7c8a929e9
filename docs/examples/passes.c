/* The graph of the picture in docs/scheduler.md, placed by the scheduler: passes accel.so (c_tests/plugin/accel.c).
 * Prints a letter for each node, A for the accelerator and C for the CPU, and the number of splits; fails if the
 * picture shows something else. */
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <stdio.h>
#include <string.h>

#define N 32

static struct ggml_context * context(void) {
    return ggml_init((struct ggml_init_params) { .mem_size = 1 << 20, .mem_buffer = NULL, .no_alloc = true });
}

int main(int argc, char ** argv) {
    if (argc != 2 || ggml_backend_load(argv[1]) == NULL) {
        return 1;
    }
    ggml_backend_t        backends[2] = { ggml_backend_init_by_name("Accel0", NULL), ggml_backend_cpu_init() };
    struct ggml_context * host = context(), *device = context(), *c = context();
    struct ggml_tensor *  table = ggml_new_tensor_2d(host, GGML_TYPE_F32, N, 100), *w1 = ggml_new_tensor_2d(host, GGML_TYPE_F32, N, N);
    struct ggml_tensor *  w2 = ggml_new_tensor_2d(device, GGML_TYPE_F32, N, N), *w3 = ggml_new_tensor_2d(device, GGML_TYPE_F32, N, N);
    ggml_backend_buffer_t buffers[2] = { ggml_backend_alloc_ctx_tensors(host, backends[1]), ggml_backend_alloc_ctx_tensors(device, backends[0]) };
    for (int i = 0; i < 2; i++) {
        ggml_backend_buffer_clear(buffers[i], 0);
        ggml_backend_buffer_set_usage(buffers[i], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    struct ggml_tensor * tokens = ggml_new_tensor_1d(c, GGML_TYPE_I32, 2);
    ggml_set_input(tokens);
    struct ggml_tensor * x = ggml_get_rows(c, table, tokens);
    struct ggml_tensor * s = ggml_add(c, x, x);
    struct ggml_tensor * p = ggml_mul_mat(c, w1, s);
    struct ggml_tensor * q = ggml_add(c, p, s);
    struct ggml_tensor * r = ggml_add(c, q, q);
    struct ggml_tensor * m = ggml_mul_mat(c, w2, r);
    struct ggml_tensor * n = ggml_rms_norm(c, m, 1e-6f); /* this accelerator does not have it */
    struct ggml_tensor * a = ggml_add(c, n, q);
    struct ggml_tensor * v = ggml_reshape_2d(c, a, N, 2);
    struct ggml_tensor * o = ggml_mul_mat(c, w3, v);
    ggml_set_output(o);
    struct ggml_cgraph * graph = ggml_new_graph(c);
    ggml_build_forward_expand(graph, o);
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 2, GGML_DEFAULT_GRAPH_SIZE, false, true);
    struct ggml_tensor * nodes[] = { x, s, p, q, r, m, n, a, v, o };
    char                 where[11] = "";
    if (!ggml_backend_sched_alloc_graph(sched, graph)) {
        return 1;
    }
    for (int i = 0; i < 10; i++) {
        where[i] = ggml_backend_sched_get_tensor_backend(sched, nodes[i]) == backends[0] ? 'A' : 'C';
    }
    int splits = ggml_backend_sched_get_n_splits(sched);
    printf("%s %d\n", where, splits);
    const int32_t two[2] = { 1, 2 };
    ggml_backend_tensor_set(tokens, two, 0, sizeof two);
    enum ggml_status status = ggml_backend_sched_graph_compute(sched, graph);
    ggml_backend_sched_free(sched);
    for (int i = 0; i < 2; i++) {
        ggml_backend_buffer_free(buffers[i]);
        ggml_backend_free(backends[i]);
    }
    ggml_free(host);
    ggml_free(device);
    ggml_free(c);
    return strcmp(where, "CCCAAACAAA") != 0 || splits != 4 || status != GGML_STATUS_SUCCESS;
}
