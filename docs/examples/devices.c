/* Computes a graph on all devices that there are. */
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-rs.h"
#include "ggml.h"

#include <stdio.h>

// ANCHOR: open
#define MAX_BACKENDS 16

/* Opens all devices: the preferred ones first, a CPU last. */
static int open_devices(ggml_backend_t * backends) {
    static const enum ggml_backend_dev_type order[] = {
        GGML_BACKEND_DEVICE_TYPE_GPU, GGML_BACKEND_DEVICE_TYPE_IGPU, GGML_BACKEND_DEVICE_TYPE_ACCEL, GGML_BACKEND_DEVICE_TYPE_CPU,
    };
    int n = 0;
    ggml_backend_load_all();
    for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
        for (size_t i = 0; i < ggml_backend_dev_count() && n < MAX_BACKENDS; i++) {
            ggml_backend_dev_t dev = ggml_backend_dev_get(i);
            if (ggml_backend_dev_type(dev) == order[k] && (backends[n] = ggml_backend_dev_init(dev, NULL)) != NULL) {
                printf("%s: %s\n", ggml_backend_dev_name(dev), ggml_backend_dev_description(dev));
                n++;
            }
        }
    }
    return n;
}
// ANCHOR_END: open

int main(void) {
    ggml_backend_t backends[MAX_BACKENDS];
    int            n = open_devices(backends);
    if (n == 0) {
        return 1;
    }
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) { .mem_size = 1 << 20, .mem_buffer = NULL, .no_alloc = true });
    // ANCHOR: sched
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, n, GGML_DEFAULT_GRAPH_SIZE, false, true);

    struct ggml_tensor * x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 256);
    ggml_set_input(x);
    struct ggml_tensor * y = ggml_sum(ctx, ggml_sqr(ctx, x));
    ggml_set_output(y);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);

    // Optional: this node here and nowhere else.
    ggml_backend_sched_set_tensor_backend(sched, y, backends[n - 1]);

    if (!ggml_backend_sched_alloc_graph(sched, graph)) {
        fprintf(stderr, "%s\n", ggml_rs_last_error());
        return 1;
    }
    float ones[256];
    for (int i = 0; i < 256; i++) {
        ones[i] = 1.0f;
    }
    ggml_backend_tensor_set(x, ones, 0, sizeof ones);
    if (ggml_backend_sched_graph_compute(sched, graph) != GGML_STATUS_SUCCESS) {
        return 1;
    }
    float sum;
    ggml_backend_tensor_get(y, &sum, 0, sizeof sum);
    printf("sum: %g, splits: %d\n", (double) sum, ggml_backend_sched_get_n_splits(sched));
    // ANCHOR_END: sched

    // ANCHOR: report
    ggml_rs_sched_write_report(sched, GGML_RS_FORMAT_HTML, "placement.html");
    struct ggml_rs_fallback list[8];
    size_t                  found = ggml_rs_sched_fallbacks(sched, list, 8);
    for (size_t i = 0; i < found && i < 8; i++) {
        printf("%s runs on the CPU: %s\n", list[i].node->name, list[i].reason);
    }
    // ANCHOR_END: report
    ggml_backend_sched_free(sched);
    for (int i = 0; i < n; i++) {
        ggml_backend_free(backends[i]);
    }
    ggml_free(ctx);
    return sum != 256.0f;
}
