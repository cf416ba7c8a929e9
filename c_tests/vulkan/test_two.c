/* Two Vulkan devices in one program: copies, events and scheduled graphs go from one to the other, and give the CPU's
 * results. Needs two devices: scripts/test_vulkan.py makes them from one software driver that is loaded twice. */
#include "../common/check.h"
#include "../common/data.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

#include <pthread.h>

enum { WIDTH = 256, TOKENS = 7, LAYERS = 6, STEPS = 8, SIZE = WIDTH * TOKENS };

static const char * const NAMES[2] = { "Vulkan0", "Vulkan1" };

static ggml_backend_t backend_of(int i) {
    return ggml_backend_dev_init(ggml_backend_dev_by_name(NAMES[i]), NULL);
}

static void numbers(float * x, size_t n, uint64_t seed) {
    for (size_t i = 0; i < n; i++) {
        x[i] = data_float(&seed, -0.5f, 0.5f);
    }
}

/* Tensors of one length in a buffer of a backend. */
struct tensors {
    struct ggml_context * ctx;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *  t[3];
    struct ggml_cgraph *  graph; /* t[2] = t[0] + t[1] */
};

static struct tensors tensors_on(ggml_backend_t backend, int64_t n) {
    const struct ggml_init_params params = { 8 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL, true };
    struct tensors                s      = { ggml_init(params), NULL, { NULL, NULL, NULL }, NULL };
    s.t[0]  = ggml_new_tensor_1d(s.ctx, GGML_TYPE_F32, n);
    s.t[1]  = ggml_new_tensor_1d(s.ctx, GGML_TYPE_F32, n);
    s.t[2]  = ggml_add(s.ctx, s.t[0], s.t[1]);
    s.graph = ggml_new_graph(s.ctx);
    ggml_build_forward_expand(s.graph, s.t[2]);
    s.buffer = ggml_backend_alloc_ctx_tensors(s.ctx, backend);
    return s;
}

static void drop(struct tensors * s) {
    ggml_backend_buffer_free(s->buffer);
    ggml_free(s->ctx);
}

/* A sum goes from device to device and grows at each stop, without a wait until the end. */
static void a_sum_travels(void) {
    enum { N = 20000, ROUNDS = 20 };
    ggml_backend_t backends[2] = { backend_of(0), backend_of(1) };
    struct tensors on[2]       = { tensors_on(backends[0], N), tensors_on(backends[1], N) };
    CHECK(on[0].buffer != NULL && on[1].buffer != NULL);
    CHECK(ggml_backend_buffer_get_type(on[0].buffer) != ggml_backend_buffer_get_type(on[1].buffer));
    static float ones[N], twos[N], out[N];
    for (int i = 0; i < N; i++) {
        ones[i] = 1.0f, twos[i] = 2.0f, out[i] = (float) i;
    }
    ggml_backend_tensor_set_async(backends[0], on[0].t[0], out, 0, sizeof out);
    ggml_backend_tensor_set_async(backends[0], on[0].t[1], ones, 0, sizeof ones);
    ggml_backend_tensor_set_async(backends[1], on[1].t[1], twos, 0, sizeof twos);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(ggml_backend_graph_compute_async(backends[i], on[i].graph), GGML_STATUS_SUCCESS);
            ggml_backend_tensor_copy_async(backends[i], backends[1 - i], on[i].t[2], on[1 - i].t[0]);
        }
    }
    static float got[N];
    ggml_backend_tensor_get_async(backends[0], on[0].t[0], got, 0, sizeof got);
    ggml_backend_synchronize(backends[0]);
    int wrong = 0;
    for (int i = 0; i < N; i++) {
        wrong += got[i] != (float) (i + 3 * ROUNDS);
    }
    CHECK_EQ(wrong, 0);
    ggml_backend_synchronize(backends[1]);
    for (int i = 0; i < 2; i++) {
        drop(&on[i]);
        ggml_backend_free(backends[i]);
    }
}

/* An event of one device holds the work of the other one. */
static void an_event_holds_the_other_device(void) {
    enum { N = 1 << 20 };
    ggml_backend_t       backends[2] = { backend_of(0), backend_of(1) };
    ggml_backend_event_t done        = ggml_backend_event_new(ggml_backend_dev_by_name(NAMES[0]));
    CHECK(done != NULL);
    struct tensors on[2] = { tensors_on(backends[0], N), tensors_on(backends[1], N) };
    CHECK(on[0].buffer != NULL && on[1].buffer != NULL);
    float * a = calloc(N, sizeof *a);
    float * b = calloc(N, sizeof *b);
    for (int round = 1; round <= 10; round++) {
        for (int i = 0; i < N; i++) {
            a[i] = (float) (i % 1000 + round);
        }
        ggml_backend_tensor_set_async(backends[0], on[0].t[0], a, 0, N * sizeof *a);
        ggml_backend_tensor_set_async(backends[0], on[0].t[1], a, 0, N * sizeof *a);
        CHECK_EQ(ggml_backend_graph_compute_async(backends[0], on[0].graph), GGML_STATUS_SUCCESS);
        ggml_backend_event_record(done, backends[0]);
        ggml_backend_event_wait(backends[1], done);
        ggml_backend_tensor_copy_async(backends[0], backends[1], on[0].t[2], on[1].t[0]);
        ggml_backend_tensor_copy_async(backends[0], backends[1], on[0].t[0], on[1].t[1]);
        CHECK_EQ(ggml_backend_graph_compute_async(backends[1], on[1].graph), GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get_async(backends[1], on[1].t[2], b, 0, N * sizeof *b);
        ggml_backend_synchronize(backends[1]);
        int wrong = 0;
        for (int i = 0; i < N; i++) {
            wrong += b[i] != 3.0f * a[i];
        }
        CHECK_EQ(wrong, 0);
    }
    free(a);
    free(b);
    ggml_backend_event_synchronize(done);
    ggml_backend_event_free(done);
    for (int i = 0; i < 2; i++) {
        drop(&on[i]);
        ggml_backend_free(backends[i]);
    }
}

/* Layers whose weights are on one device and the other in turns; results of all steps. */
static bool layers(ggml_backend_t * list, int n, bool parallel, float * result, int * splits) {
    const struct ggml_init_params params = { (LAYERS + 1) * ggml_tensor_overhead(), NULL, true };
    struct ggml_context *         ctx[2] = { ggml_init(params), ggml_init(params) };
    struct ggml_tensor *          w[LAYERS];
    ggml_backend_buffer_t         buffers[2];
    const int                     places = n > 2 ? 2 : 1;
    for (int i = 0; i < LAYERS; i++) {
        w[i] = ggml_new_tensor_2d(ctx[i % places], GGML_TYPE_F32, WIDTH, WIDTH);
    }
    bool ok = true;
    for (int d = 0; d < places; d++) {
        buffers[d] = ggml_backend_alloc_ctx_tensors(ctx[d], list[d]);
        ok         = ok && buffers[d] != NULL;
        if (buffers[d] != NULL) {
            ggml_backend_buffer_set_usage(buffers[d], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        }
    }
    float * x = malloc(WIDTH * WIDTH * sizeof *x);
    for (int i = 0; i < LAYERS && ok; i++) {
        numbers(x, WIDTH * WIDTH, 7 + (uint64_t) i);
        ggml_backend_tensor_set(w[i], x, 0, WIDTH * WIDTH * sizeof *x);
    }
    ggml_backend_sched_t sched = ggml_backend_sched_new(list, NULL, n, 64, parallel, false);
    for (int step = 0; step < STEPS && ok; step++) {
        const struct ggml_init_params of_graph = { 64 * ggml_tensor_overhead() + ggml_graph_overhead_custom(64, false), NULL, true };
        struct ggml_context *         c        = ggml_init(of_graph);
        struct ggml_cgraph *          graph    = ggml_new_graph_custom(c, 64, false);
        struct ggml_tensor *          in       = ggml_new_tensor_2d(c, GGML_TYPE_F32, WIDTH, TOKENS);
        struct ggml_tensor *          t        = in;
        ggml_set_input(in);
        for (int i = 0; i < LAYERS; i++) {
            t = ggml_add(c, ggml_rms_norm(c, ggml_silu(c, ggml_mul_mat(c, w[i], t)), 1e-5f), in);
        }
        ggml_set_output(t);
        ggml_build_forward_expand(graph, t);
        ggml_backend_sched_reset(sched);
        ok = ggml_backend_sched_alloc_graph(sched, graph);
        if (ok) {
            numbers(x, SIZE, 100 + (uint64_t) step);
            ggml_backend_tensor_set(in, x, 0, SIZE * sizeof *x);
            ok      = ggml_backend_sched_graph_compute_async(sched, graph) == GGML_STATUS_SUCCESS;
            *splits = ggml_backend_sched_get_n_splits(sched);
            ggml_backend_t where = ggml_backend_sched_get_tensor_backend(sched, t);
            ggml_backend_tensor_get_async(where, t, result + step * SIZE, 0, SIZE * sizeof *x);
            ggml_backend_sched_synchronize(sched);
        }
        ggml_free(c);
    }
    ggml_backend_sched_free(sched);
    free(x);
    for (int d = 0; d < places; d++) {
        ggml_backend_buffer_free(buffers[d]);
    }
    ggml_free(ctx[0]);
    ggml_free(ctx[1]);
    return ok;
}

static float expected[STEPS * SIZE];

static double error_of(const float * got) {
    double error = 0, size = 0;
    for (int i = 0; i < STEPS * SIZE; i++) {
        error += (double) (got[i] - expected[i]) * (got[i] - expected[i]);
        size += (double) expected[i] * expected[i];
    }
    return size > 1 ? error / size : 1;
}

static void on_the_cpu(void) {
    ggml_backend_t cpu    = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    int            splits = 0;
    CHECK(layers(&cpu, 1, false, expected, &splits));
    CHECK_EQ(splits, 1);
    ggml_backend_free(cpu);
}

static void in_turns(bool parallel) {
    static float   got[STEPS * SIZE];
    ggml_backend_t list[3] = { backend_of(0), backend_of(1), ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL) };
    int            splits  = 0;
    CHECK(layers(list, 3, parallel, got, &splits));
    CHECK_EQ(splits, LAYERS);
    CHECK_NEAR(error_of(got), 0, 1e-9);
    for (int i = 0; i < 3; i++) {
        ggml_backend_free(list[i]);
    }
}

static void layers_take_turns(void) { in_turns(false); }
static void layers_take_turns_in_a_pipeline(void) { in_turns(true); }

struct work {
    int   first;
    bool  ok;
    float got[STEPS * SIZE];
};

static void * scheduled(void * data) {
    struct work *  work    = data;
    ggml_backend_t list[3] = { backend_of(work->first), backend_of(1 - work->first), ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL) };
    int            splits  = 0;
    work->ok               = layers(list, 3, true, work->got, &splits) && splits == LAYERS;
    for (int i = 0; i < 3; i++) {
        ggml_backend_free(list[i]);
    }
    return NULL;
}

/* Threads send both ways at once. */
static void threads_have_ways_of_their_own(void) {
    static struct work works[3];
    pthread_t          threads[3];
    for (int i = 0; i < 3; i++) {
        works[i].first = i % 2;
        CHECK_EQ(pthread_create(&threads[i], NULL, scheduled, &works[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        CHECK(works[i].ok);
        CHECK_NEAR(error_of(works[i].got), 0, 1e-9);
    }
}

int main(void) {
    for (int i = 0; i < 2; i++) {
        if (ggml_backend_dev_by_name(NAMES[i]) == NULL) {
            printf("FAIL no device %s\n0 passed, 1 failed\n", NAMES[i]);
            return 1;
        }
    }
    RUN(a_sum_travels);
    RUN(an_event_holds_the_other_device);
    RUN(on_the_cpu);
    RUN(layers_take_turns);
    RUN(layers_take_turns_in_a_pipeline);
    RUN(threads_have_ways_of_their_own);
    return test_summary();
}
