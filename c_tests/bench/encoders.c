/* Times encoders with random weights: encoders [threads [milliseconds]]. MiniLM's shapes (6 layers of 384 values, 12
 * heads, 32 tokens) with one sentence and with 32 at once, and those of the encoder of Whisper's base model (two
 * convolutions, 6 layers of 512 values, 8 heads, 1,500 positions). Prints a line "NAME<tab>MICROSECONDS" for each: the
 * median of several computations. turns.py runs it on two libraries in turns. */
#include "../common/encoder.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static T minilm(struct model * m, int64_t sentences) {
    const struct shape s = { 6, 384, 1536, 12, 32, sentences };
    T                  x = norm(m, ggml_new_tensor_2d(m->c, GGML_TYPE_F32, s.width, s.tokens * s.batch));
    for (int l = 0; l < s.layers; l++) { x = layer(m, x, &s, false, false); }
    return x;
}

static double microseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double) t.tv_sec + 1e-3 * (double) t.tv_nsec;
}

static int ascending(const void * a, const void * b) {
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static void run(const char * name, enum ggml_type type, int64_t sentences, ggml_backend_t backend, double milliseconds) {
    const struct ggml_init_params params = { 1024 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL, true };
    struct model                  m      = { ggml_init(params), ggml_init(params), type };
    const struct shape            base   = { 6, 512, 2048, 8, 1500, 1 };
    T                             out    = sentences > 0 ? minilm(&m, sentences) : whisper(&m, &base, 80);
    struct ggml_cgraph *          graph  = ggml_new_graph(m.g);
    ggml_build_forward_expand(graph, out);
    ggml_backend_buffer_t weights = ggml_backend_alloc_ctx_tensors(m.c, backend);
    ggml_gallocr_t        memory  = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    if (weights == NULL || !ggml_gallocr_alloc_graph(memory, graph)) { exit(1); }
    fill(&m);
    double       times[1000];
    size_t       n    = 0;
    const double end  = microseconds() + 1e3 * milliseconds;
    double       sum  = 0.0;
    while (n < 3 || (n < 1000 && microseconds() < end)) {
        const double start = microseconds();
        if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) { exit(1); }
        times[n++] = microseconds() - start;
    }
    for (int64_t i = 0; i < ggml_nelements(out); i++) { sum += ((float *) out->data)[i]; }
    if (!isfinite(sum)) { exit(1); }
    qsort(times, n, sizeof times[0], ascending);
    printf("%s\t%.1f\n", name, times[n / 2]);
    ggml_gallocr_free(memory);
    ggml_backend_buffer_free(weights);
    ggml_free(m.g);
    ggml_free(m.c);
}

int main(int argc, char ** argv) {
    const int      threads      = argc > 1 ? atoi(argv[1]) : 1;
    const double   milliseconds = argc > 2 ? atof(argv[2]) : 1000.0;
    ggml_backend_t backend      = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, threads);
    run("MiniLM F32, 1 sentence", GGML_TYPE_F32, 1, backend, milliseconds);
    run("MiniLM F32, 32 sentences", GGML_TYPE_F32, 32, backend, milliseconds);
    run("MiniLM F16, 1 sentence", GGML_TYPE_F16, 1, backend, milliseconds);
    run("MiniLM F16, 32 sentences", GGML_TYPE_F16, 32, backend, milliseconds);
    run("Whisper base, encoder F16", GGML_TYPE_F16, 0, backend, milliseconds);
    ggml_backend_free(backend);
    return 0;
}
