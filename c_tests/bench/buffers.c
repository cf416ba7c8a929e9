// Preloaded into an unmodified llama.cpp host (buffers.py): a line on standard error after the first reservation of
// each scheduler (the largest graph; buffers never shrink), with the bytes of compute buffers of each backend. Where
// the library writes placement reports, the one of the graph goes to the file $BUFFERS_OUT/NUMBER.json. Nothing is
// computed: only the plans count.
//
//   buffers: NUMBER NODES SPLITS | BUFFER_TYPE BYTES | ...
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef ggml_backend_sched_t (*new_t)(ggml_backend_t *, ggml_backend_buffer_type_t *, int, size_t, bool, bool);
typedef bool (*reserve_t)(ggml_backend_sched_t, struct ggml_cgraph *);
typedef bool (*report_t)(ggml_backend_sched_t, int, const char *);

static bool is_new; // the scheduler has reserved nothing yet

ggml_backend_sched_t ggml_backend_sched_new(ggml_backend_t * b, ggml_backend_buffer_type_t * t, int n, size_t size, bool parallel, bool offload) {
    is_new = true;
    return ((new_t) dlsym(RTLD_NEXT, "ggml_backend_sched_new"))(b, t, n, size, parallel, offload);
}

bool ggml_backend_sched_reserve(ggml_backend_sched_t s, struct ggml_cgraph * g) {
    reserve_t real = (reserve_t) dlsym(RTLD_NEXT, "ggml_backend_sched_reserve");
    if (!real(s, g)) return false;
    if (!is_new) return true;
    is_new = false;
    static int number;
    report_t report = (report_t) dlsym(RTLD_NEXT, "ggml_rs_sched_write_report");
    const char * out = getenv("BUFFERS_OUT");
    char line[1024];
    size_t end = (size_t) snprintf(line, sizeof(line), "\nbuffers: %d %d %d", number, ggml_graph_n_nodes(g), ggml_backend_sched_get_n_splits(s));
    for (int i = 0; i < ggml_backend_sched_get_n_backends(s) && end < sizeof(line); i++) {
        ggml_backend_t b = ggml_backend_sched_get_backend(s, i);
        const char * type = ggml_backend_buft_name(ggml_backend_sched_get_buffer_type(s, b));
        end += (size_t) snprintf(line + end, sizeof(line) - end, " | %s %zu", type, ggml_backend_sched_get_buffer_size(s, b));
    }
    fprintf(stderr, "%s end\n", line); // in one piece: another thread writes the host's log
    if (report && out) {
        char path[1024];
        snprintf(path, sizeof(path), "%s/%d.json", out, number);
        if (ggml_backend_sched_alloc_graph(s, g)) report(s, 0 /* JSON */, path);
        ggml_backend_sched_reset(s);
    }
    number++;
    return true;
}

enum ggml_status ggml_backend_sched_graph_compute_async(ggml_backend_sched_t s, struct ggml_cgraph * g) {
    (void) s; (void) g;
    return GGML_STATUS_SUCCESS;
}
