/* Loads the module of backend.c and lets the scheduler use it beside the CPU: use_backend ./libtoy.so */
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <stdio.h>

int main(int argc, char ** argv) {
    // ANCHOR: use
    if (argc != 2 || ggml_backend_load(argv[1]) == NULL) {
        return 1; // the log says why
    }
    ggml_backend_t backends[2] = { ggml_backend_init_by_name("Toy0", NULL), ggml_backend_cpu_init() };
    // ANCHOR_END: use
    if (backends[0] == NULL) {
        return 1;
    }
    struct ggml_context * ctx   = ggml_init((struct ggml_init_params) { .mem_size = 1 << 20, .mem_buffer = NULL, .no_alloc = true });
    struct ggml_tensor *  x     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4);
    struct ggml_tensor *  y     = ggml_add(ctx, ggml_sqr(ctx, x), x);
    struct ggml_cgraph *  graph = ggml_new_graph(ctx);
    ggml_set_input(x);
    ggml_set_output(y);
    ggml_build_forward_expand(graph, y);
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 2, GGML_DEFAULT_GRAPH_SIZE, false, true);
    if (!ggml_backend_sched_alloc_graph(sched, graph)) {
        return 1;
    }
    const float in[4] = { 1, 2, 3, 4 };
    float       out[4];
    ggml_backend_tensor_set(x, in, 0, sizeof in);
    if (ggml_backend_sched_graph_compute(sched, graph) != GGML_STATUS_SUCCESS) {
        return 1;
    }
    ggml_backend_tensor_get(y, out, 0, sizeof out);
    int splits = ggml_backend_sched_get_n_splits(sched);
    printf("%g in %d splits\n", (double) out[3], splits);
    ggml_backend_sched_free(sched);
    ggml_backend_free(backends[0]);
    ggml_backend_free(backends[1]);
    ggml_free(ctx);
    return out[3] != 20.0f || splits != 2;
}
