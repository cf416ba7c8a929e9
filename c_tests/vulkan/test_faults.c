/* Every call of Vulkan fails once: test_faults LAYER [DEVICES [STRIDE]]
 *
 * Needs the layer fault_layer.c (VK_INSTANCE_LAYERS), whose file is LAYER. A session opens the device, loads weights,
 * reserves, allocates, computes, copies with and without a queue, and frees. With two devices, each has every second
 * layer, and copies go from one to the other. The n-th call of the session fails, for n = 1, 1 + STRIDE ... until a
 * session succeeds without reaching n; each n has a process of its own. A result that the session reports as a success
 * must be right. A read that failed must not return what was in memory before. After a failure without loss of a
 * device, the same objects work as soon as the data is written again: verdicts above 1 are errors. The next session
 * must work. */
#include "../common/faults.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

enum { WIDTH = 64, ROWS = 4, LAYERS = 6, BYTES = WIDTH * ROWS * 4, LARGE = 3 << 20 };

static int n_devices = 1;

struct world {
    ggml_backend_t        backends[3]; /* of the devices, then of the CPU */
    ggml_backend_sched_t  sched;
    struct ggml_context * weights[2], *ctx;
    ggml_backend_buffer_t buffers[2];
    struct ggml_tensor *  w[2], *large[2], *x, *y;
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
    for (int d = 0; d < n_devices; d++) { ggml_backend_tensor_set(w->w[d], data, 0, sizeof data); }
}

static void write_input(struct world * w) {
    for (int i = 0; i < WIDTH * ROWS; i++) { data[i] = 1.0f; }
    ggml_backend_tensor_set(w->x, data, 0, BYTES);
}

/* Returns 0: right, 1: it has failed, and reports it, 2: wrong. */
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

/* Whether a device computes a graph that reads its `large`. */
static bool is_computed_with(struct world * w, int d) {
    struct ggml_context * c = ggml_init((struct ggml_init_params) { 1u << 14, NULL, true });
    struct ggml_cgraph *  g = ggml_new_graph_custom(c, 8, false);
    ggml_build_forward_expand(g, ggml_scale(c, w->large[d], 2.0f));
    ggml_backend_buffer_t room     = ggml_backend_alloc_ctx_tensors(c, w->backends[d]);
    const bool            computes = room != NULL && ggml_backend_graph_compute(w->backends[d], g) == GGML_STATUS_SUCCESS;
    ggml_backend_buffer_free(room);
    ggml_free(c);
    return computes;
}

/* Returns 0 if the bytes that were read of a device are right, 1 if they are marked as not read or come from a tensor
 * that was not written, with which nothing is computed, and 5 if they are wrong. */
static int judged(struct world * w, int d, const char * here, char first, char others) {
    bool is_wrong = false, is_marked = false;
    for (int i = 0; i < LARGE; i++) {
        const char expected = i >= 8 && i < 1008 ? first : others;
        is_marked |= (unsigned char) here[i] == 0xff;
        is_wrong |= here[i] != expected && (unsigned char) here[i] != 0xff;
    }
    if (is_wrong) { return is_computed_with(w, d) ? 5 : 1; }
    return is_marked ? 1 : 0;
}

/* Copies by the queue, and large ones in pieces. */
static int copied(struct world * w) {
    static char here[LARGE];
    memset(bytes, 3, sizeof bytes);
    ggml_backend_tensor_set(w->large[0], bytes, 0, LARGE);
    memset(bytes, 9, sizeof bytes);
    ggml_backend_tensor_set_async(w->backends[0], w->large[0], bytes, 8, 1000);
    memset(here, 7, sizeof here);
    ggml_backend_tensor_get_async(w->backends[0], w->large[0], here, 0, 5000);
    ggml_backend_synchronize(w->backends[0]);
    ggml_backend_tensor_get(w->large[0], here + 5000, 5000, LARGE - 5000);
    return judged(w, 0, here, 9, 3);
}

/* From one device to the other and back, without a wait until the end. */
static int crossed(struct world * w) {
    static char here[LARGE];
    memset(bytes, 5, sizeof bytes);
    ggml_backend_tensor_set_async(w->backends[0], w->large[0], bytes, 0, LARGE);
    ggml_backend_tensor_copy_async(w->backends[0], w->backends[1], w->large[0], w->large[1]);
    memset(bytes + LARGE / 2, 6, 1000);
    ggml_backend_tensor_set_async(w->backends[1], w->large[1], bytes + LARGE / 2, 8, 1000);
    ggml_backend_tensor_copy_async(w->backends[1], w->backends[0], w->large[1], w->large[0]);
    int worst = 0;
    for (int d = 0; d < 2; d++) {
        memset(here, 7, sizeof here);
        ggml_backend_tensor_get_async(w->backends[d], w->large[d], here, 0, LARGE);
        ggml_backend_synchronize(w->backends[d]);
        const int verdict = judged(w, d, here, 6, 5);
        worst             = verdict > worst ? verdict : worst;
    }
    return worst;
}

/* The devices with weights on each. -> whether all is there */
static bool opened(struct world * w) {
    static const char * const names[] = { "Vulkan0", "Vulkan1" };
    for (int d = 0; d < n_devices; d++) {
        w->backends[d] = ggml_backend_dev_init(ggml_backend_dev_by_name(names[d]), NULL);
        if (w->backends[d] == NULL) { return false; }
        w->weights[d] = ggml_init((struct ggml_init_params) { 1u << 14, NULL, true });
        w->w[d]       = ggml_new_tensor_2d(w->weights[d], GGML_TYPE_F32, WIDTH, WIDTH);
        w->large[d]   = ggml_new_tensor_1d(w->weights[d], GGML_TYPE_F32, LARGE / 4);
        w->buffers[d] = ggml_backend_alloc_ctx_tensors(w->weights[d], w->backends[d]);
        if (w->buffers[d] == NULL) { return false; }
        ggml_backend_buffer_set_usage(w->buffers[d], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        ggml_backend_buffer_clear(w->buffers[d], 1);
    }
    w->backends[n_devices] = ggml_backend_cpu_init();
    return true;
}

static int computed_and_copied(struct world * w) {
    int verdict = computed(w);
    for (int i = 0; i < n_devices && verdict != 2; i++) {
        const int copies = i == 0 ? copied(w) : crossed(w);
        verdict          = copies > verdict ? copies : verdict;
    }
    return verdict;
}

/* Returns 0: all is right, 1: something has failed and was reported, 2...: wrong. */
static int session(bool * has_devices) {
    struct world w = { .backends = { NULL } };
    *has_devices   = ggml_backend_dev_by_name(n_devices == 1 ? "Vulkan0" : "Vulkan1") != NULL;
    if (!*has_devices) { return 1; }
    int verdict = 1;
    if (opened(&w)) {
        write_weights(&w);
        w.sched = ggml_backend_sched_new(w.backends, NULL, n_devices + 1, 256, n_devices > 1, false);
        w.ctx   = ggml_init((struct ggml_init_params) { 1u << 18, NULL, true });
        w.x     = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, WIDTH, ROWS);
        ggml_set_input(w.x);
        w.y = w.x;
        for (int i = 0; i < LAYERS; i++) { w.y = ggml_add(w.ctx, ggml_mul_mat(w.ctx, w.w[i % n_devices], w.y), w.x); }
        ggml_set_output(w.y);
        w.graph = ggml_new_graph_custom(w.ctx, 256, false);
        ggml_build_forward_expand(w.graph, w.y);
        bool placed = ggml_backend_sched_reserve(w.sched, w.graph);
        placed      = ggml_backend_sched_alloc_graph(w.sched, w.graph) && placed;
        if (placed) {
            write_input(&w);
            verdict = computed_and_copied(&w);
            if (verdict == 1 && failed_call() != NULL) {
                /* nothing fails any more: the objects are as good as before, unless a device is lost */
                write_weights(&w);
                write_input(&w);
                int again = computed(&w);
                if (again == 1) { again = computed(&w); } /* an earlier loss is reported once */
                if (again == 2) { verdict = 3; }
                if (again == 1 && verdict == 1) { verdict = 4; }
            }
        }
        ggml_backend_sched_free(w.sched);
        ggml_free(w.ctx);
    }
    for (int d = 0; d < n_devices; d++) {
        ggml_backend_buffer_free(w.buffers[d]);
        ggml_free(w.weights[d]);
    }
    for (int d = n_devices; d >= 0; d--) { ggml_backend_free(w.backends[d]); }
    return verdict;
}

static void one_call_fails(void * user) {
    const struct fault * o = user;
    faults_open();
    bool had_devices, has_devices;
    arm(o->n, o->result);
    int verdict = session(&had_devices);
    if (failed_call() != NULL) {
        printf("note call %ld, %d: %s, verdict %d\n", o->n, o->result, failed_call(), verdict);
        fflush(stdout);
    }
    if (verdict == 4 && o->result == DEVICE_LOST) { verdict = 1; }
    if (verdict > 1) { _exit(20 + verdict); }
    if (failed_call() == NULL) { _exit(verdict == 0 ? DONE : 30); }
    arm(0, 0);
    /* A device that was not found is not looked for again. */
    if (had_devices && (session(&has_devices) != 0 || !has_devices)) { _exit(31); }
    _exit(verdict == 0 ? WITHOUT : REPORTED);
}

static void calls_fail(int result) {
    const struct faults of = faults_run(one_call_fails, result, "Vulkan calls");
    CHECK(of.reported > 5);
}

static void no_host_memory(void) { calls_fail(OUT_OF_HOST_MEMORY); }
static void no_device_memory(void) { calls_fail(OUT_OF_DEVICE_MEMORY); }
static void the_device_is_lost(void) { calls_fail(DEVICE_LOST); }

int main(int argc, char ** argv) {
    if (argc < 2) { return 2; }
    layer = argv[1];
    if (argc > 2) { n_devices = atoi(argv[2]) == 2 ? 2 : 1; }
    if (argc > 3) { stride = atol(argv[3]); }
    faults_table();
    RUN(no_host_memory);
    RUN(no_device_memory);
    RUN(the_device_is_lost);
    return test_summary();
}
