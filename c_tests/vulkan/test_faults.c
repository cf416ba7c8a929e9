/* Every call of Vulkan fails once: test_faults LAYER [STRIDE]
 *
 * Needs the layer fault_layer.c (VK_INSTANCE_LAYERS), whose file is LAYER. A session opens the device, loads weights, reserves, allocates, computes,
 * copies with and without a queue, and frees. The n-th call of the session fails, for n = 1, 1 + STRIDE ... until a session gets through;
 * each n has a process of its own. What the session reports as a success must be right; what it could not read is not what was in memory before. After a
 * failure without loss of the device, the same objects work as soon as the data is written again: verdicts above 1 are mistakes. The next session must work. */
#include "../common/check.h"
#include "../common/child.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <dlfcn.h>

enum { WIDTH = 64, ROWS = 4, LAYERS = 6, BYTES = WIDTH * ROWS * 4, LARGE = 3 << 20 };
enum { OUT_OF_HOST_MEMORY = -1, OUT_OF_DEVICE_MEMORY = -2, DEVICE_LOST = -4 };

static const char * layer;
static void (*arm)(long n, int result);
static const char * (*failed_call)(void);

struct world {
    ggml_backend_t        backends[2];
    ggml_backend_sched_t  sched;
    struct ggml_context * weights, *ctx;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *  w, *large, *x, *y;
    struct ggml_cgraph *  graph;
};

static float data[WIDTH * WIDTH], out[WIDTH * ROWS];
static char  bytes[LARGE];

static bool untouched(const void * p, size_t n) { /* as a read leaves it that has failed */
    for (size_t i = 0; i < n; i++) {
        if (((const unsigned char *) p)[i] != 0xff) { return false; }
    }
    return true;
}

static void write_weights(struct world * w) {
    memset(data, 0, sizeof data);
    for (int i = 0; i < WIDTH; i++) { data[i * (WIDTH + 1)] = 1.0f; }
    ggml_backend_tensor_set(w->w, data, 0, sizeof data);
}

static void write_input(struct world * w) {
    for (int i = 0; i < WIDTH * ROWS; i++) { data[i] = 1.0f; }
    ggml_backend_tensor_set(w->x, data, 0, BYTES);
}

/* -> 0: right, 1: it has failed, and says so, 2: wrong */
static int computed(struct world * w) {
    if (ggml_backend_sched_graph_compute(w->sched, w->graph) != GGML_STATUS_SUCCESS) { return 1; }
    memset(out, 7, sizeof out);
    ggml_backend_tensor_get(w->y, out, 0, sizeof out);
    if (untouched(out, sizeof out)) { return 1; }
    for (int i = 0; i < WIDTH * ROWS; i++) {
        if (out[i] != LAYERS + 1) { return 2; }
    }
    return 0;
}

/* Whether a graph that reads `large` is computed. */
static bool is_computed_with(struct world * w) {
    struct ggml_context * c = ggml_init((struct ggml_init_params) { 1u << 14, NULL, true });
    struct ggml_cgraph *  g = ggml_new_graph_custom(c, 8, false);
    ggml_build_forward_expand(g, ggml_scale(c, w->large, 2.0f));
    ggml_backend_buffer_t room     = ggml_backend_alloc_ctx_tensors(c, w->backends[0]);
    const bool            computes = room != NULL && ggml_backend_graph_compute(w->backends[0], g) == GGML_STATUS_SUCCESS;
    ggml_backend_buffer_free(room);
    ggml_free(c);
    return computes;
}

/* Copies by the queue, and large ones in pieces. What is read is right, or marked; or the write has failed: then nobody computes with it. */
static int copied(struct world * w) {
    static char here[LARGE];
    memset(bytes, 3, sizeof bytes);
    ggml_backend_tensor_set(w->large, bytes, 0, LARGE);
    memset(bytes, 9, sizeof bytes);
    ggml_backend_tensor_set_async(w->backends[0], w->large, bytes, 8, 1000);
    memset(here, 7, sizeof here);
    ggml_backend_tensor_get_async(w->backends[0], w->large, here, 0, 5000);
    ggml_backend_synchronize(w->backends[0]);
    ggml_backend_tensor_get(w->large, here + 5000, 5000, LARGE - 5000);
    bool is_wrong = false, is_marked = false;
    for (int i = 0; i < LARGE; i++) {
        const char expected = i >= 8 && i < 1008 ? 9 : 3;
        is_marked |= (unsigned char) here[i] == 0xff;
        is_wrong |= here[i] != expected && (unsigned char) here[i] != 0xff;
    }
    if (is_wrong) { return is_computed_with(w) ? 5 : 1; }
    return is_marked ? 1 : 0;
}

/* -> 0: all is right, 1: something has failed and was reported, 2...: wrong */
static int session(bool * has_device) {
    struct world w = { .backends = { NULL } };
    ggml_backend_dev_t device = ggml_backend_dev_by_name("Vulkan0");
    *has_device = device != NULL;
    if (device == NULL) { return 1; }
    w.backends[0] = ggml_backend_dev_init(device, NULL);
    if (w.backends[0] == NULL) { return 1; }
    w.backends[1] = ggml_backend_cpu_init();
    w.weights     = ggml_init((struct ggml_init_params) { 1u << 14, NULL, true });
    w.w           = ggml_new_tensor_2d(w.weights, GGML_TYPE_F32, WIDTH, WIDTH);
    w.large       = ggml_new_tensor_1d(w.weights, GGML_TYPE_F32, LARGE / 4);
    w.buffer      = ggml_backend_alloc_ctx_tensors(w.weights, w.backends[0]);
    int verdict   = 1;
    if (w.buffer != NULL) {
        ggml_backend_buffer_set_usage(w.buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        ggml_backend_buffer_clear(w.buffer, 1);
        write_weights(&w);
        w.sched = ggml_backend_sched_new(w.backends, NULL, 2, 256, false, false);
        w.ctx   = ggml_init((struct ggml_init_params) { 1u << 18, NULL, true });
        w.x     = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, WIDTH, ROWS);
        ggml_set_input(w.x);
        w.y = w.x;
        for (int i = 0; i < LAYERS; i++) { w.y = ggml_add(w.ctx, ggml_mul_mat(w.ctx, w.w, w.y), w.x); }
        ggml_set_output(w.y);
        w.graph = ggml_new_graph_custom(w.ctx, 256, false);
        ggml_build_forward_expand(w.graph, w.y);
        bool placed = ggml_backend_sched_reserve(w.sched, w.graph);
        placed      = ggml_backend_sched_alloc_graph(w.sched, w.graph) && placed;
        if (placed) {
            write_input(&w);
            verdict = computed(&w);
            const int copies = verdict == 2 ? 2 : copied(&w);
            verdict          = copies > verdict ? copies : verdict;
            if (verdict == 1 && failed_call() != NULL) {
                /* nothing fails any more: the objects are as good as before, unless the device is lost */
                write_weights(&w);
                write_input(&w);
                int again = computed(&w);
                if (again == 1) { again = computed(&w); } /* what was lost before is told once */
                if (again == 2) { verdict = 3; }
                if (again == 1 && verdict == 1) { verdict = 4; }
            }
        }
        ggml_backend_sched_free(w.sched);
        ggml_free(w.ctx);
    }
    ggml_backend_buffer_free(w.buffer);
    ggml_free(w.weights);
    ggml_backend_free(w.backends[1]);
    ggml_backend_free(w.backends[0]);
    return verdict;
}

enum { REPORTED = 10, WITHOUT = 11, DONE = 12 };

struct order {
    long n;
    int  result;
};

static void one_call_fails(void * user) {
    const struct order * o = user;
    void * handle = dlopen(layer, RTLD_NOW);
    if (handle == NULL) { _exit(90); }
    arm         = (void (*)(long, int)) (size_t) dlsym(handle, "fault_layer_arm");
    failed_call = (const char * (*) (void)) (size_t) dlsym(handle, "fault_layer_failed");
    if (arm == NULL || failed_call == NULL) { _exit(91); }
    bool had_device, has_device;
    arm(o->n, o->result);
    int verdict = session(&had_device);
    if (failed_call() != NULL) {
        printf("note call %ld, %d: %s, verdict %d\n", o->n, o->result, failed_call(), verdict);
        fflush(stdout);
    }
    if (verdict == 4 && o->result == DEVICE_LOST) { verdict = 1; }
    if (verdict > 1) { _exit(20 + verdict); }
    if (failed_call() == NULL) { _exit(verdict == 0 ? DONE : 30); }
    arm(0, 0);
    /* A device that was not found is not looked for again. */
    if (had_device && (session(&has_device) != 0 || !has_device)) { _exit(31); }
    _exit(verdict == 0 ? WITHOUT : REPORTED);
}

static long stride = 1;

static void calls_fail(int result) {
    int reported = 0, without = 0;
    for (long n = 1; n < 5000; n += stride) {
        struct order o      = { n, result };
        const int    status = child_run(one_call_fails, &o);
        if (status == DONE) { break; }
        if (status == REPORTED) {
            reported++;
        } else if (status == WITHOUT) {
            without++;
        } else {
            test_fails(__FILE__, __LINE__, "call %ld fails with %d: %s", n, result, child_verdict(status));
        }
    }
    CHECK(reported > 5);
    printf("note | Vulkan calls | %d | %d | %d | %d |\n", result, reported + without, reported, without);
}

static void no_host_memory(void) { calls_fail(OUT_OF_HOST_MEMORY); }
static void no_device_memory(void) { calls_fail(OUT_OF_DEVICE_MEMORY); }
static void the_device_is_lost(void) { calls_fail(DEVICE_LOST); }

int main(int argc, char ** argv) {
    if (argc < 2) { return 2; }
    layer = argv[1];
    if (argc > 2) { stride = atol(argv[2]); }
    printf("note | what | result | calls | reported | done without |\n");
    RUN(no_host_memory);
    RUN(no_device_memory);
    RUN(the_device_is_lost);
    return test_summary();
}
