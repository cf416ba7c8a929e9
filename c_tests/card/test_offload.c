/* Where a product of weights in host memory is computed: test_offload DEVICE COLUMNS device|cpu|any
 *
 * The variables of the device (card.c), GGML_RS_OFFLOAD and GGML_OP_OFFLOAD_MIN_BATCH decide. The small weights between
 * the products are where the products are. The result has the CPU's bits on either side; CARD_MODE=timing: there is
 * none, only the place counts, because a card that computes by the CPU is no faster. */
#include "../common/check.h"
#include "../common/random.h"

#include "ggml-alloc.h"
#include "ggml-cpu.h"

enum { WIDTH = 2048, PRODUCTS = 4, TIMES = 20, SMALL = 31 };

static ggml_backend_t       backends[2];
static struct ggml_tensor * weights[PRODUCTS], *scales[PRODUCTS];

struct chain {
    struct ggml_context * ctx;
    struct ggml_tensor *  x, *y;
    struct ggml_cgraph *  graph;
};

static struct chain build(int columns) {
    struct chain c = { .ctx = new_ctx(ggml_tensor_overhead() * 64 + ggml_graph_overhead_custom(64, false)) };
    c.x            = ggml_new_tensor_2d(c.ctx, GGML_TYPE_F32, WIDTH, columns);
    ggml_set_input(c.x);
    c.y = c.x;
    for (int i = 0; i < PRODUCTS; i++) { c.y = ggml_mul(c.ctx, ggml_rms_norm(c.ctx, ggml_mul_mat(c.ctx, weights[i], c.y), 1e-5f), scales[i]); }
    ggml_set_output(c.y);
    c.graph = ggml_new_graph_custom(c.ctx, 64, false);
    ggml_build_forward_expand(c.graph, c.y);
    return c;
}

static void compute(ggml_backend_sched_t sched, struct chain * c, float * out) {
    float * x = malloc(ggml_nbytes(c->x));
    fill(x, (size_t) ggml_nelements(c->x), 7, 1.0f);
    ggml_backend_sched_reset(sched);
    CHECK(ggml_backend_sched_alloc_graph(sched, c->graph));
    ggml_backend_tensor_set(c->x, x, 0, ggml_nbytes(c->x));
    CHECK_EQ(ggml_backend_sched_graph_compute(sched, c->graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(c->y, out, 0, ggml_nbytes(c->y));
    free(x);
}

int main(int argc, char ** argv) {
    if (argc < 4) { return 2; }
    const int  columns   = atoi(argv[2]);
    const bool on_device = strcmp(argv[3], "device") == 0, anywhere = strcmp(argv[3], "any") == 0;
    const bool has_values = getenv("CARD_MODE") == NULL || strcmp(getenv("CARD_MODE"), "timing") != 0;
    setenv("GGML_VK_PIPELINE_CACHE_DIR", "", 0); /* costs of this device are no one else's */
    ggml_backend_load_all();
    ggml_backend_dev_t dev = ggml_backend_dev_by_name(argv[1]);
    backends[0]            = dev != NULL ? ggml_backend_dev_init(dev, NULL) : NULL;
    backends[1]            = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backends[1], 1);
    test_begin();
    CHECK(backends[0] != NULL);
    if (backends[0] != NULL) {
        struct ggml_context * ctx = new_ctx(ggml_tensor_overhead() * 2 * PRODUCTS);
        for (int i = 0; i < PRODUCTS; i++) {
            weights[i] = ggml_new_tensor_2d(ctx, GGML_TYPE_Q8_0, WIDTH, WIDTH);
            scales[i]  = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, WIDTH);
        }
        ggml_backend_buffer_t memory = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
        ggml_backend_buffer_set_usage(memory, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        for (int i = 0; i < PRODUCTS; i++) {
            set_random(weights[i], (uint32_t) i, 0.1f);
            set_random(scales[i], (uint32_t) i + 9, 1.0f);
        }
        const size_t         bytes = sizeof(float) * WIDTH * (size_t) columns;
        float *              want = malloc(bytes), *got = malloc(bytes);
        ggml_backend_sched_t plain = ggml_backend_sched_new(backends + 1, NULL, 1, 64, false, true);
        ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 2, 64, false, true);
        struct chain         c     = build(columns);
        compute(plain, &c, want);
        ggml_free(c.ctx);
        /* What the CPU takes is known from smaller batches. */
        float * small = malloc(sizeof(float) * WIDTH * SMALL);
        for (int i = 0; i < 4; i++) {
            c = build(SMALL);
            compute(sched, &c, small);
            ggml_free(c.ctx);
        }
        free(small);
        for (int i = 0; i < TIMES; i++) { /* what was measured decides in the end */
            c = build(columns);
            compute(sched, &c, got);
            CHECK(!has_values || memcmp(want, got, bytes) == 0);
            int n = 0;
            for (int k = 0; k < ggml_graph_n_nodes(c.graph); k++) { n += ggml_backend_sched_get_tensor_backend(sched, ggml_graph_node(c.graph, k)) == backends[0]; }
            if (i == TIMES - 1 && !anywhere) { CHECK_EQ(n, on_device ? ggml_graph_n_nodes(c.graph) : 0); }
            ggml_free(c.ctx);
        }
        ggml_backend_sched_free(plain);
        ggml_backend_sched_free(sched);
        ggml_backend_buffer_free(memory);
        ggml_free(ctx);
        free(want);
        free(got);
    }
    ggml_backend_free(backends[0]);
    ggml_backend_free(backends[1]);
    char name[80];
    snprintf(name, sizeof name, "%d columns: %s", columns, argv[3]);
    test_end(name);
    return test_summary();
}
