/* Looks at results while a graph is computed. */
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <stdio.h>

// ANCHOR: callback
/* Called twice for a node: with `ask`, to learn whether the program needs its result; then with the result. */
static bool look(struct ggml_tensor * t, bool ask, void * user) {
    int * seen = user;
    if (ask) {
        return t->op == GGML_OP_MUL; // the scheduler computes up to this node in one go
    }
    float first;
    ggml_backend_tensor_get(t, &first, 0, sizeof first);
    printf("%s = %g\n", t->name, (double) first);
    ++*seen;
    return true; // false ends the computation
}
// ANCHOR_END: callback

int main(void) {
    ggml_backend_t        cpu   = ggml_backend_cpu_init();
    struct ggml_context * ctx   = ggml_init((struct ggml_init_params) { .mem_size = 1 << 20, .mem_buffer = NULL, .no_alloc = true });
    struct ggml_tensor *  x     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 1);
    struct ggml_tensor *  y     = ggml_set_name(ggml_mul(ctx, x, x), "square");
    struct ggml_tensor *  z     = ggml_add(ctx, y, x);
    struct ggml_cgraph *  graph = ggml_new_graph(ctx);
    ggml_set_input(x);
    ggml_set_output(z);
    ggml_build_forward_expand(graph, z);
    ggml_backend_sched_t sched = ggml_backend_sched_new(&cpu, NULL, 1, GGML_DEFAULT_GRAPH_SIZE, false, true);
    int                  seen  = 0;
    // ANCHOR: set
    ggml_backend_sched_set_eval_callback(sched, look, &seen);
    // ANCHOR_END: set
    if (!ggml_backend_sched_alloc_graph(sched, graph)) {
        return 1;
    }
    const float three = 3;
    float       result;
    ggml_backend_tensor_set(x, &three, 0, sizeof three);
    if (ggml_backend_sched_graph_compute(sched, graph) != GGML_STATUS_SUCCESS) {
        return 1;
    }
    ggml_backend_tensor_get(z, &result, 0, sizeof result);
    ggml_backend_sched_free(sched);
    ggml_free(ctx);
    ggml_backend_free(cpu);
    return seen != 1 || result != 12.0f;
}
