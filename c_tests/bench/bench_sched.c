// The cost of building, splitting and allocating a llama-shaped graph: nanoseconds a node, for the library that the
// program is run with. Prints `MEASURE DEVICES NODES MEDIAN LEAST` of many rounds. bench.py runs it with two libraries
// in turns.
//
//   bench_sched [milliseconds a measurement] [most nodes] [measurement [devices: 1 or 2, with exactly that many nodes]]
//   bench_sched list: the measurements, and the numbers of nodes
#include "../sched/fake.h"

#include <time.h>

enum { D = 64, H = 4, HD = 16, FF = 128, VOCAB = 64, KV = 64 };

// Processor time of this thread, without that of other threads.
static double now(void) {
    struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

typedef struct { struct ggml_tensor * norm, * q, * k, * v, * o, * norm2, * up, * gate, * down, * ck, * cv; } layer_t;
typedef struct {
    struct ggml_context * ctx[2];
    ggml_backend_buffer_t buf[2];
    layer_t * layers;
    struct ggml_tensor * tok, * out_norm, * out;
    int n;
} model_t;

static void make_model(model_t * m, int n_layers, int n_dev) {
    m->n = n_layers;
    m->layers = calloc((size_t) n_layers, sizeof(layer_t));
    for (int d = 0; d < 2; d++) {
        struct ggml_init_params p = { ggml_tensor_overhead() * (size_t) (n_layers * 11 + 8), NULL, true };
        m->ctx[d] = ggml_init(p);
    }
    struct ggml_context * last = m->ctx[1];
    m->tok = ggml_new_tensor_2d(last, GGML_TYPE_F32, D, VOCAB);
    m->out_norm = ggml_new_tensor_1d(last, GGML_TYPE_F32, D);
    m->out = ggml_new_tensor_2d(last, GGML_TYPE_F32, D, VOCAB);
    for (int l = 0; l < n_layers; l++) {
        struct ggml_context * c = l < n_layers / 2 ? m->ctx[0] : m->ctx[1]; // the accelerator has the first half
        layer_t * y = &m->layers[l];
        y->norm = ggml_new_tensor_1d(c, GGML_TYPE_F32, D); y->norm2 = ggml_new_tensor_1d(c, GGML_TYPE_F32, D);
        y->q = ggml_new_tensor_2d(c, GGML_TYPE_Q8_0, D, D); y->k = ggml_new_tensor_2d(c, GGML_TYPE_Q8_0, D, D);
        y->v = ggml_new_tensor_2d(c, GGML_TYPE_Q8_0, D, D); y->o = ggml_new_tensor_2d(c, GGML_TYPE_Q8_0, D, D);
        y->up = ggml_new_tensor_2d(c, GGML_TYPE_Q8_0, D, FF); y->gate = ggml_new_tensor_2d(c, GGML_TYPE_Q8_0, D, FF);
        y->down = ggml_new_tensor_2d(c, GGML_TYPE_Q8_0, FF, D);
        y->ck = ggml_new_tensor_2d(c, GGML_TYPE_F16, D, KV); y->cv = ggml_new_tensor_2d(c, GGML_TYPE_F16, D, KV);
    }
    for (int d = 0; d < 2; d++) {
        m->buf[d] = ggml_backend_alloc_ctx_tensors(m->ctx[d], &fakes[n_dev == 2 ? d : n_dev - 1].backend);
        if (m->buf[d]) ggml_backend_buffer_set_usage(m->buf[d], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
}

static void free_model(model_t * m) {
    for (int d = 0; d < 2; d++) { ggml_backend_buffer_free(m->buf[d]); ggml_free(m->ctx[d]); }
    free(m->layers);
}

static int others; // nodes that make it a graph of another structure

// Only the operations; the graph is filled by `expand`.
static struct ggml_tensor * make_ops(struct ggml_context * c, model_t * m, int T, struct ggml_cgraph * g) {
    struct ggml_tensor * tokens = ggml_new_tensor_1d(c, GGML_TYPE_I32, T), * pos = ggml_new_tensor_1d(c, GGML_TYPE_I32, T);
    struct ggml_tensor * mask = ggml_new_tensor_2d(c, GGML_TYPE_F32, KV, T), * at = ggml_new_tensor_1d(c, GGML_TYPE_I64, T);
    ggml_set_input(tokens); ggml_set_input(pos); ggml_set_input(mask); ggml_set_input(at);
    struct ggml_tensor * x = ggml_get_rows(c, m->tok, tokens);
    for (int i = 0; i < others; i++) x = ggml_scale(c, x, 2);
    for (int l = 0; l < m->n; l++) {
        layer_t * y = &m->layers[l];
        struct ggml_tensor * h = ggml_mul(c, ggml_rms_norm(c, x, 1e-5f), y->norm);
        struct ggml_tensor * q = ggml_reshape_3d(c, ggml_mul_mat(c, y->q, h), HD, H, T);
        struct ggml_tensor * k = ggml_reshape_3d(c, ggml_mul_mat(c, y->k, h), HD, H, T);
        struct ggml_tensor * v = ggml_mul_mat(c, y->v, h);
        q = ggml_rope(c, q, pos, HD, 0); k = ggml_rope(c, k, pos, HD, 0);
        struct ggml_tensor * sk = ggml_set_rows(c, y->ck, ggml_reshape_2d(c, k, D, T), at);
        struct ggml_tensor * sv = ggml_set_rows(c, y->cv, v, at);
        if (g) { ggml_build_forward_expand(g, q); ggml_build_forward_expand(g, sk); ggml_build_forward_expand(g, sv); }
        struct ggml_tensor * kk = ggml_permute(c, ggml_view_3d(c, y->ck, HD, H, KV, HD * 2, D * 2, 0), 0, 2, 1, 3);
        struct ggml_tensor * vv = ggml_permute(c, ggml_view_3d(c, y->cv, HD, H, KV, HD * 2, D * 2, 0), 1, 2, 0, 3);
        struct ggml_tensor * kq = ggml_soft_max_ext(c, ggml_mul_mat(c, kk, ggml_permute(c, q, 0, 2, 1, 3)), mask, 0.25f, 0);
        struct ggml_tensor * a = ggml_permute(c, ggml_mul_mat(c, ggml_cont(c, vv), kq), 0, 2, 1, 3);
        a = ggml_mul_mat(c, y->o, ggml_cont_2d(c, a, D, T));
        x = ggml_add(c, a, x);
        h = ggml_mul(c, ggml_rms_norm(c, x, 1e-5f), y->norm2);
        h = ggml_swiglu_split(c, ggml_mul_mat(c, y->gate, h), ggml_mul_mat(c, y->up, h));
        x = ggml_add(c, ggml_mul_mat(c, y->down, h), x);
    }
    x = ggml_mul_mat(c, m->out, ggml_mul(c, ggml_rms_norm(c, x, 1e-5f), m->out_norm));
    ggml_set_output(x);
    return x;
}

// `shifted`: by how many tensors the addresses of all others are higher.
static struct ggml_cgraph * make_at(struct ggml_context * c, model_t * m, int T, size_t room, int shifted) {
    ggml_reset(c);
    for (int i = 0; i < shifted; i++) ggml_new_tensor_1d(c, GGML_TYPE_F32, 1);
    struct ggml_cgraph * g = ggml_new_graph_custom(c, room, false);
    ggml_build_forward_expand(g, make_ops(c, m, T, g));
    return g;
}

static struct ggml_cgraph * make(struct ggml_context * c, model_t * m, int T, size_t room) {
    return make_at(c, m, T, room, 0);
}

static int by_value(const void * a, const void * b) {
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static double budget = 60e6; // nanoseconds a measurement
static const char * only;    // the one measurement to make

enum { BUILD_OPS, BUILD_NEW, BUILD_EXPAND, BUILD, SPLIT, FRESH, SWITCH, SIZES, ALLOC, RESIZE, REPEAT, PARALLEL, GALLOCR, RESERVE, N_MEASURES };
enum { KINDS = 64 }; // more than any scheduler keeps
static const char * measures[] = { "constructors", "new_graph", "expand", "build", "split", "fresh", "switch", "sizes", "alloc", "resize", "repeat", "parallel", "gallocr", "reserve" };

static void measure(int n_dev, int n_layers) {
    n_fakes = n_dev;
    memset(fakes, 0, sizeof(fakes));
    for (int i = 0; i < n_dev; i++) {
        fake_t * f = &fakes[i];
        bool cpu = i == n_dev - 1;
        f->index = i;
        snprintf(f->name, sizeof(f->name), cpu ? "CPU" : "DEV%d", i);
        f->type = cpu ? GGML_BACKEND_DEVICE_TYPE_CPU : GGML_BACKEND_DEVICE_TYPE_GPU;
        f->op_percent = 100;
        f->is_host = f->has_host_buft = cpu;
        f->alignment = 32;
        fake_finish(f);
    }
    model_t m;
    make_model(&m, n_layers, n_dev);
    int n_tensors = n_layers * 9 + 3 + KINDS, room = 8 * n_tensors > 1024 ? 8 * n_tensors : 1024; // as llama.cpp
    struct ggml_init_params p = { ggml_tensor_overhead() * (size_t) room * 2 + ggml_graph_overhead_custom((size_t) room, false), NULL, true };
    struct ggml_context * c = ggml_init(p);
    ggml_backend_t bs[] = { &fakes[0].backend, &fakes[1].backend };
    ggml_backend_sched_t s = ggml_backend_sched_new(bs, NULL, n_dev, (size_t) room, false, true);
    struct ggml_cgraph * g = make(c, &m, 8, (size_t) room);
    int n_nodes = ggml_graph_n_nodes(g);
    ggml_backend_sched_reserve(s, g);
    ggml_backend_sched_t pipeline = ggml_backend_sched_new(bs, NULL, n_dev, (size_t) room, true, true);
    ggml_backend_sched_reserve(pipeline, make(c, &m, 8, (size_t) room));
    ggml_gallocr_t a = ggml_gallocr_new(&fakes[n_dev - 1].buft);
    static double took[4096];
    for (int w = 0; w < N_MEASURES; w++) {
        if (only && strcmp(only, measures[w]) != 0) continue;
        // The library knows what takes turns after three turns of each. A pipeline has four copies.
        int n = 0, unknown = w == SWITCH || w == SIZES || w == PARALLEL ? 12 : 0;
        double start = now();
        while (n < 4096 && (unknown > 0 || n < 5 || now() - start < budget)) {
            // These never build a structure that came lately; two structures, or three sizes, in turns; a graph with
            // other sizes and at other addresses each time; one that is built again with other sizes.
            bool fresh = w == SPLIT || w == FRESH;
            others = fresh ? n % KINDS : w == SWITCH ? n % 2 : 0;
            int shifted = fresh || w == ALLOC ? n % KINDS : 0;
            int T = w == ALLOC || w == RESIZE ? 1 + n % 8 : w == SIZES ? 8 - n % 3 : 8;
            double t0, t1;
            struct ggml_tensor * x;
            switch (w) {
                case BUILD_OPS:
                    ggml_reset(c); t0 = now(); make_ops(c, &m, T, NULL); t1 = now(); break;
                case BUILD_NEW:
                    ggml_reset(c); t0 = now(); ggml_new_graph_custom(c, (size_t) room, false); t1 = now(); break;
                case BUILD_EXPAND:
                    ggml_reset(c); x = make_ops(c, &m, T, NULL); g = ggml_new_graph_custom(c, (size_t) room, false);
                    t0 = now(); ggml_build_forward_expand(g, x); t1 = now(); break;
                case BUILD:
                    t0 = now(); make(c, &m, T, (size_t) room); t1 = now(); break;
                case SPLIT:
                    g = make_at(c, &m, T, (size_t) room, shifted); ggml_backend_sched_reset(s);
                    t0 = now(); ggml_backend_sched_split_graph(s, g); t1 = now(); break;
                case GALLOCR:
                    g = make(c, &m, T, (size_t) room);
                    t0 = now(); if (!ggml_gallocr_alloc_graph(a, g)) abort(); t1 = now(); break;
                case RESERVE:
                    g = make(c, &m, T, (size_t) room); ggml_backend_sched_reset(s);
                    t0 = now(); if (!ggml_backend_sched_reserve(s, g)) abort(); t1 = now(); break;
                case PARALLEL:
                    g = make(c, &m, T, (size_t) room);
                    t0 = now(); ggml_backend_sched_reset(pipeline); if (!ggml_backend_sched_alloc_graph(pipeline, g)) abort(); t1 = now(); break;
                default:
                    g = make_at(c, &m, T, (size_t) room, shifted);
                    t0 = now(); ggml_backend_sched_reset(s); if (!ggml_backend_sched_alloc_graph(s, g)) abort(); t1 = now(); break;
            }
            took[n++] = t1 - t0;
            if (n == unknown) {
                n = unknown = 0;
                start = now();
            }
        }
        others = 0;
        qsort(took, (size_t) n, sizeof(double), by_value);
        printf("%s %s %d %.2f %.2f\n", measures[w], n_dev == 1 ? "cpu" : "accel+cpu", n_nodes, took[n / 2] / n_nodes, took[0] / n_nodes);
        fflush(stdout);
    }
    ggml_gallocr_free(a);
    ggml_backend_sched_free(s);
    ggml_backend_sched_free(pipeline);
    ggml_free(c);
    free_model(&m);
}

int main(int argc, char ** argv) {
    int sizes[] = { 300, 1000, 3300, 10000, 33000 };
    if (argc > 1 && strcmp(argv[1], "list") == 0) {
        for (int w = 0; w < N_MEASURES; w++) printf("%s%s", measures[w], w + 1 < N_MEASURES ? " " : "\n");
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) printf("%d ", sizes[i]);
        return 0;
    }
    if (argc > 1) budget = atof(argv[1]) * 1e6;
    int most = argc > 2 ? atoi(argv[2]) : 33000;
    if (argc > 3) only = argv[3];
    int devices = argc > 4 ? atoi(argv[4]) : 0;
    fake_quiet = true;
    for (int d = 1; d <= 2; d++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            bool selected = devices ? d == devices && sizes[i] == most : sizes[i] <= most;
            if (selected) measure(d, sizes[i] / 33 + (sizes[i] % 33 != 0));
        }
    }
    return 0;
}
