/* Builds a graph and computes it on the CPU. */
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <stdio.h>

int main(void) {
    // ANCHOR: graph
    // A context holds the descriptions of tensors and graphs. With no_alloc it holds no data.
    struct ggml_init_params params = {
        .mem_size   = ggml_tensor_overhead() * 16 + ggml_graph_overhead(),
        .mem_buffer = NULL,
        .no_alloc   = true,
    };
    struct ggml_context * ctx = ggml_init(params);

    struct ggml_tensor * a = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 3, 2); // 2 rows of 3
    struct ggml_tensor * x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 3);
    ggml_set_input(a); // its memory is not reused for intermediate results
    ggml_set_input(x);
    struct ggml_tensor * y = ggml_relu(ctx, ggml_mul_mat(ctx, a, x)); // y[i] = max(0, sum of a[i][k] * x[k])
    ggml_set_output(y);

    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);

    // Memory for all tensors of the graph; results that are no longer needed share it.
    ggml_backend_t  cpu   = ggml_backend_cpu_init();
    ggml_gallocr_t  alloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(cpu));
    if (!ggml_gallocr_alloc_graph(alloc, graph)) {
        return 1;
    }
    const float rows[] = { 1, 2, 3, -1, -2, -3 }, column[] = { 1, 1, 1 };
    ggml_backend_tensor_set(a, rows, 0, sizeof rows);
    ggml_backend_tensor_set(x, column, 0, sizeof column);
    if (ggml_backend_graph_compute(cpu, graph) != GGML_STATUS_SUCCESS) {
        return 1;
    }
    float result[2];
    ggml_backend_tensor_get(y, result, 0, sizeof result);
    printf("%g %g\n", (double) result[0], (double) result[1]); // 6 0
    // ANCHOR_END: graph
    ggml_gallocr_free(alloc);
    ggml_backend_free(cpu);
    ggml_free(ctx);
    return result[0] != 6.0f || result[1] != 0.0f;
}
