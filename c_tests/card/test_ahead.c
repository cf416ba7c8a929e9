/* Weights in pinned memory that are read ahead, on the simulated card (card.c, by GGML_BACKEND_PATH), whose streams
 * overlap: test_ahead CARD0
 *
 * The environment has the settings of a fast card. Each test has a card of its own, in a process of its own: with slow
 * launches a copy that does not wait for the device overwrites weights that it still needs, over a slow bus the device
 * reads weights that have not arrived. */
#include "../common/check.h"
#include "../common/child.h"
#include "../common/log.h"
#include "../common/random.h"

#include "ggml-alloc.h"
#include "ggml-cpu.h"

#include <sys/mman.h>

/* Products in a row. Before the last two, whose weights are small, the CPU computes something. */
enum { WIDTH = 256, COLUMNS = 32, PRODUCTS = 10, N = WIDTH * COLUMNS, PAGE = 4096 };

static const char *   device_name;
static ggml_backend_t backends[2];
static struct {
    struct ggml_context * ctx;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *  w[PRODUCTS];
} model;
static struct {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  x, *y;
} chain;
static float got[N], want[N];

static void doubled(struct ggml_tensor * dst, const struct ggml_tensor * x, int ith, int nth, void * user) {
    (void) user;
    for (int64_t i = ith; i < ggml_nelements(x); i += nth) { ((float *) dst->data)[i] = 2 * ((const float *) x->data)[i]; }
}

/* The CPU's input is the graph's: it does not wait for the card. */
static void build(void) {
    struct ggml_context * c = chain.ctx = new_ctx(ggml_tensor_overhead() * 64 + ggml_graph_overhead());
    chain.graph = ggml_new_graph(c);
    chain.x     = ggml_new_tensor_2d(c, GGML_TYPE_F32, WIDTH, COLUMNS);
    ggml_set_input(chain.x);
    struct ggml_tensor * t = chain.x;
    for (int i = 0; i < PRODUCTS; i++) {
        if (i == PRODUCTS - 2) {
            ggml_build_forward_expand(chain.graph, t);
            t = ggml_add(c, t, ggml_map_custom1(c, chain.x, doubled, 1, NULL));
        }
        t = ggml_rms_norm(c, ggml_mul_mat(c, model.w[i], t), 1e-5f);
    }
    chain.y = t;
    ggml_set_output(chain.y);
    ggml_build_forward_expand(chain.graph, chain.y);
}

static enum ggml_status compute(ggml_backend_sched_t sched, uint32_t seed, float * y) {
    float x[N];
    fill(x, N, seed, 1.0f);
    ggml_backend_tensor_set(chain.x, x, 0, sizeof x);
    enum ggml_status status = ggml_backend_sched_graph_compute(sched, chain.graph);
    if (status == GGML_STATUS_SUCCESS) { ggml_backend_tensor_get(chain.y, y, 0, sizeof x); }
    return status;
}

static void expect(uint32_t seed) {
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends + 1, NULL, 1, 64, false, true);
    build();
    CHECK(ggml_backend_sched_alloc_graph(sched, chain.graph));
    CHECK_EQ(compute(sched, seed, want), GGML_STATUS_SUCCESS);
    ggml_backend_sched_free(sched);
    ggml_free(chain.ctx);
}

/* A card with a setting of its own (NAME=VALUE), the model, and the expected result of an input. The graph is built. */
static ggml_backend_sched_t start(char * setting, uint32_t seed) {
    putenv(setting);
    ggml_log_set(on_log, NULL);
    ggml_backend_load_all();
    ggml_backend_dev_t dev = ggml_backend_dev_by_name(device_name);
    if (dev == NULL) { _exit(2); }
    backends[0]            = ggml_backend_dev_init(dev, NULL);
    backends[1]            = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backends[1], 1);
    model.ctx = new_ctx(ggml_tensor_overhead() * PRODUCTS);
    for (int i = 0; i < PRODUCTS; i++) {
        model.w[i] = ggml_new_tensor_2d(model.ctx, i < PRODUCTS - 2 ? GGML_TYPE_F32 : GGML_TYPE_Q8_0, WIDTH, WIDTH);
    }
    model.buffer = ggml_backend_alloc_ctx_tensors_from_buft(model.ctx, ggml_backend_dev_host_buffer_type(dev));
    ggml_backend_buffer_set_usage(model.buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    for (int i = 0; i < PRODUCTS; i++) { set_random(model.w[i], (uint32_t) i, 0.2f); }
    expect(seed);
    build();
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 2, 64, false, true);
    CHECK(ggml_backend_sched_alloc_graph(sched, chain.graph));
    return sched;
}

/* Ends the process: 0 if all is right. */
static void leave(ggml_backend_sched_t sched) {
    ggml_backend_sched_free(sched);
    ggml_free(chain.ctx);
    ggml_backend_buffer_free(model.buffer);
    ggml_free(model.ctx);
    ggml_backend_free(backends[0]);
    ggml_backend_free(backends[1]);
    CHECK_EQ(races, 0);
    if (test_why[0] != '\0') { printf("%s\n", test_why); }
    fflush(stdout);
    _exit(test_why[0] != '\0');
}

static void as_on_the_cpu(void * setting) {
    ggml_backend_sched_t sched = start(setting, 1);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(compute(sched, 1, got), GGML_STATUS_SUCCESS);
        CHECK(memcmp(got, want, sizeof got) == 0);
    }
    leave(sched);
}

static bool aborted(void * data) {
    return *(const bool *) data;
}

/* The bytes of the last weight. A thread that reads them while they are out of reach ends the process. */
static void protect(int protection) {
    const uintptr_t begin = ((uintptr_t) model.w[PRODUCTS - 1]->data + PAGE - 1) / PAGE * PAGE;
    const uintptr_t end   = ((uintptr_t) model.w[PRODUCTS - 1]->data + ggml_nbytes(model.w[PRODUCTS - 1])) / PAGE * PAGE;
    CHECK(end > begin && mprotect((void *) begin, end - begin, protection) == 0);
}

static void a_failure_leaves_no_copy(void * setting) {
    bool                 fails = true;
    ggml_backend_sched_t sched = start(setting, 2);
    ggml_backend_cpu_set_abort_callback(backends[1], aborted, &fails);
    CHECK_EQ(compute(sched, 2, got), GGML_STATUS_ABORTED);
    ggml_backend_sched_synchronize(sched);
    protect(PROT_NONE);
    usleep(50000);
    protect(PROT_READ | PROT_WRITE);
    fails = false;
    CHECK_EQ(compute(sched, 2, got), GGML_STATUS_SUCCESS);
    CHECK(memcmp(got, want, sizeof got) == 0);
    leave(sched);
}

static void copies_wait_for_the_device(void) {
    CHECK_STR(child_verdict(child_run(as_on_the_cpu, "CARD_LAUNCH_US=3000")), "returns");
}
static void products_wait_for_copies(void) {
    CHECK_STR(child_verdict(child_run(as_on_the_cpu, "CARD_H2D_GBPS=0.03")), "returns");
}
static void after_a_failure_nothing_is_copied(void) {
    CHECK_STR(child_verdict(child_run(a_failure_leaves_no_copy, "CARD_H2D_GBPS=0.01")), "returns");
}

int main(int argc, char ** argv) {
    if (argc < 2) { return 2; }
    device_name = argv[1];
    setenv("GGML_VK_PIPELINE_CACHE_DIR", "", 1); /* costs of this device are no one else's */
    RUN(copies_wait_for_the_device);
    RUN(products_wait_for_copies);
    RUN(after_a_failure_nothing_is_copied);
    return test_summary();
}
