/* Queues inputs, a graph and its result on a device, and works meanwhile. */
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <stdio.h>

int main(void) {
    ggml_backend_t        backend = ggml_backend_init_best();
    struct ggml_context * ctx     = ggml_init((struct ggml_init_params) { .mem_size = 1 << 20, .mem_buffer = NULL, .no_alloc = true });
    struct ggml_tensor *  x       = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4);
    struct ggml_tensor *  y       = ggml_scale(ctx, x, 2.0f);
    struct ggml_cgraph *  graph   = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    if (buffer == NULL) {
        return 1;
    }
    // ANCHOR: async
    const float in[4] = { 1, 2, 3, 4 };
    float       out[4];

    ggml_backend_tensor_set_async(backend, x, in, 0, sizeof in); // `in` must stay as it is until synchronize
    enum ggml_status status = ggml_backend_graph_compute_async(backend, graph);
    ggml_backend_tensor_get_async(backend, y, out, 0, sizeof out); // `out` is undefined until synchronize

    // ... the host does something else here: `in`, `out`, x, y and the graph are the device's ...

    ggml_backend_synchronize(backend);
    if (status != GGML_STATUS_SUCCESS) {
        return 1;
    }
    printf("%g\n", (double) out[3]); // 8
    // ANCHOR_END: async
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    ggml_backend_free(backend);
    return out[3] != 8.0f;
}
