/* A small transformer whose layers are spread over the devices of a loaded module and the CPU of the library that the
 * program runs on. The module is from another build: the original's CPU, Vulkan or RPC module on this library, or this
 * library as a CPU module on the original.
 * A library's own libggml-rpc with the endpoints of servers on another processor is a test of these.
 * usage: test_foreign MODULE TOLERANCE [ENDPOINT ...]      with endpoints, the devices are those of RPC servers */
#include "../common/check.h"

#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"

#include <math.h>
#include <stdint.h>

enum { WIDTH = 64, HEADS = 4, LAYERS = 6, TOKENS = 7, WORDS = 50, MAX_DEVICES = 8, MAX_NODES = 1024 };

static const char *       module_path;
static double             tolerance;
static char **            endpoints;
static int                n_endpoints;
static ggml_backend_reg_t module;
static ggml_backend_t     backends[MAX_DEVICES + 1]; /* those of the module, then the CPU */
static int                n_devices;
static float              reference[WORDS * TOKENS];

/* ---- the model ---- */

struct layer { struct ggml_tensor *norm, *q, *k, *v, *o, *norm2, *gate, *up, *down; };

struct model {
    struct ggml_context * ctx[MAX_DEVICES + 1];
    ggml_backend_buffer_t buffers[MAX_DEVICES + 1];
    struct ggml_tensor *  words, *head;
    struct layer          layers[LAYERS];
};

static int device_of(int layer, int n) { return layer * (n + 1) / LAYERS; } /* the last part stays on the CPU */

static uint32_t seed;
static float random_float(void) {
    seed = seed * 1664525u + 1013904223u;
    return (float) (seed >> 8) / (float) (1 << 24) - 0.5f;
}

static void fill(struct ggml_tensor * t, float scale, float offset) {
    const int64_t n    = ggml_nelements(t);
    float *       data = malloc((size_t) n * sizeof *data);
    for (int64_t i = 0; i < n; i++) { data[i] = offset + scale * random_float(); }
    ggml_backend_tensor_set(t, data, 0, (size_t) n * sizeof *data);
    free(data);
}

static bool make_model(struct model * m, int n) {
    const struct ggml_init_params params = { .mem_size = 1u << 18, .mem_buffer = NULL, .no_alloc = true };
    memset(m, 0, sizeof *m);
    for (int d = 0; d <= n; d++) { m->ctx[d] = ggml_init(params); }
    struct ggml_context * cpu = m->ctx[n];
    m->words = ggml_new_tensor_2d(cpu, GGML_TYPE_F32, WIDTH, WORDS);
    m->head  = ggml_new_tensor_2d(cpu, GGML_TYPE_F32, WIDTH, WORDS);
    for (int i = 0; i < LAYERS; i++) {
        struct ggml_context * c = m->ctx[device_of(i, n)];
        struct layer *        l = &m->layers[i];
        struct ggml_tensor ** square[] = { &l->q, &l->k, &l->v, &l->o };
        l->norm  = ggml_new_tensor_1d(c, GGML_TYPE_F32, WIDTH);
        l->norm2 = ggml_new_tensor_1d(c, GGML_TYPE_F32, WIDTH);
        for (int k = 0; k < 4; k++) { *square[k] = ggml_new_tensor_2d(c, GGML_TYPE_F32, WIDTH, WIDTH); }
        l->gate = ggml_new_tensor_2d(c, GGML_TYPE_F32, WIDTH, 2 * WIDTH);
        l->up   = ggml_new_tensor_2d(c, GGML_TYPE_F32, WIDTH, 2 * WIDTH);
        l->down = ggml_new_tensor_2d(c, GGML_TYPE_F32, 2 * WIDTH, WIDTH);
    }
    for (int d = 0; d <= n; d++) {
        m->buffers[d] = ggml_backend_alloc_ctx_tensors(m->ctx[d], backends[d + n_devices - n]);
        if (m->buffers[d] == NULL) { return false; }
        ggml_backend_buffer_set_usage(m->buffers[d], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    seed = 1;
    fill(m->words, 2.0f, 0.0f);
    fill(m->head, 0.5f, 0.0f);
    for (int i = 0; i < LAYERS; i++) {
        struct layer *       l     = &m->layers[i];
        struct ggml_tensor * all[] = { l->q, l->k, l->v, l->o, l->gate, l->up, l->down };
        fill(l->norm, 0.2f, 1.0f);
        fill(l->norm2, 0.2f, 1.0f);
        for (int k = 0; k < 7; k++) { fill(all[k], 0.4f, 0.0f); }
    }
    return true;
}

static void free_model(struct model * m, int n) {
    for (int d = 0; d <= n; d++) {
        ggml_backend_buffer_free(m->buffers[d]);
        ggml_free(m->ctx[d]);
    }
}

static struct ggml_tensor * attention(struct ggml_context * c, const struct layer * l, struct ggml_tensor * x, struct ggml_tensor * positions) {
    struct ggml_tensor * q = ggml_reshape_3d(c, ggml_mul_mat(c, l->q, x), WIDTH / HEADS, HEADS, TOKENS);
    struct ggml_tensor * k = ggml_reshape_3d(c, ggml_mul_mat(c, l->k, x), WIDTH / HEADS, HEADS, TOKENS);
    struct ggml_tensor * v = ggml_reshape_3d(c, ggml_mul_mat(c, l->v, x), WIDTH / HEADS, HEADS, TOKENS);
    q = ggml_permute(c, ggml_rope_ext(c, q, positions, NULL, WIDTH / HEADS, 0, 0, 10000.0f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f), 0, 2, 1, 3);
    k = ggml_permute(c, ggml_rope_ext(c, k, positions, NULL, WIDTH / HEADS, 0, 0, 10000.0f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f), 0, 2, 1, 3);
    struct ggml_tensor * a = ggml_soft_max_ext(c, ggml_mul_mat(c, k, q), NULL, 1.0f / sqrtf((float) WIDTH / HEADS), 0.0f);
    a = ggml_mul_mat(c, ggml_cont(c, ggml_permute(c, v, 1, 2, 0, 3)), a);
    return ggml_mul_mat(c, l->o, ggml_cont_2d(c, ggml_permute(c, a, 0, 2, 1, 3), WIDTH, TOKENS));
}

/* Runs the model on `n` devices of the module and the CPU (n may be 0). Returns the number of nodes that a device of
 * the module computed, or -1. */
static int run_model(int n, float * out, int * splits) {
    struct model m;
    if (!make_model(&m, n)) { return -1; }
    ggml_backend_t *      list   = backends + n_devices - n;
    ggml_backend_sched_t  sched  = ggml_backend_sched_new(list, NULL, n + 1, MAX_NODES, false, true);
    const struct ggml_init_params params = { .mem_size = MAX_NODES * ggml_tensor_overhead() + ggml_graph_overhead_custom(MAX_NODES, false), .mem_buffer = NULL, .no_alloc = true };
    int                   nodes  = -1;
    for (int round = 0; round < 3; round++) { /* the same again and again, as hosts do */
        struct ggml_context * c         = ggml_init(params);
        struct ggml_tensor *  tokens    = ggml_new_tensor_1d(c, GGML_TYPE_I32, TOKENS);
        struct ggml_tensor *  positions = ggml_new_tensor_1d(c, GGML_TYPE_I32, TOKENS);
        struct ggml_cgraph *  graph     = ggml_new_graph_custom(c, MAX_NODES, false);
        ggml_set_input(tokens);
        ggml_set_input(positions);
        ggml_backend_sched_reset(sched);
        struct ggml_tensor * x = ggml_get_rows(c, m.words, tokens);
        for (int i = 0; i < LAYERS; i++) {
            const struct layer * l = &m.layers[i];
            x = ggml_add(c, x, attention(c, l, ggml_mul(c, ggml_rms_norm(c, x, 1e-5f), l->norm), positions));
            struct ggml_tensor * y = ggml_mul(c, ggml_rms_norm(c, x, 1e-5f), l->norm2);
            y = ggml_mul(c, ggml_silu(c, ggml_mul_mat(c, l->gate, y)), ggml_mul_mat(c, l->up, y));
            x = ggml_add(c, x, ggml_mul_mat(c, l->down, y));
            ggml_build_forward_expand(graph, x);
        }
        struct ggml_tensor * logits = ggml_mul_mat(c, m.head, x);
        ggml_set_output(logits);
        ggml_build_forward_expand(graph, logits);
        if (!ggml_backend_sched_alloc_graph(sched, graph)) { ggml_free(c); nodes = -1; break; }
        int32_t ids[TOKENS], at[TOKENS];
        for (int i = 0; i < TOKENS; i++) { ids[i] = (i * 17 + 3) % WORDS; at[i] = i; }
        ggml_backend_tensor_set(tokens, ids, 0, sizeof ids);
        ggml_backend_tensor_set(positions, at, 0, sizeof at);
        if (ggml_backend_sched_graph_compute(sched, graph) != GGML_STATUS_SUCCESS) { ggml_free(c); nodes = -1; break; }
        ggml_backend_tensor_get(logits, out, 0, WORDS * TOKENS * sizeof *out);
        nodes   = 0;
        *splits = ggml_backend_sched_get_n_splits(sched);
        for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
            nodes += ggml_backend_sched_get_tensor_backend(sched, ggml_graph_node(graph, i)) != list[n];
        }
        ggml_free(c);
    }
    ggml_backend_sched_free(sched);
    free_model(&m, n);
    return nodes;
}

/* ---- the tests ---- */

static void the_module_loads_and_brings_its_own_devices(void) {
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    ggml_backend_reg_t rpc = ggml_backend_reg_by_name("RPC");
    const size_t       was = ggml_backend_reg_count();
    CHECK(cpu != NULL);
    module = ggml_backend_load(module_path);
    const size_t now = was + (module != rpc); /* a library's own file for RPC is built in */
    CHECK(module != NULL);
    if (module == NULL || cpu == NULL) { return; }
    CHECK(module != ggml_backend_dev_backend_reg(cpu));
    CHECK_EQ(ggml_backend_reg_count(), now);
    CHECK(ggml_backend_load(module_path) == module);
    CHECK_EQ(ggml_backend_reg_count(), now);
    if (n_endpoints == 0) {
        for (size_t i = 0; i < ggml_backend_reg_dev_count(module) && n_devices < MAX_DEVICES; i++) {
            ggml_backend_t b = ggml_backend_dev_init(ggml_backend_reg_dev_get(module, i), NULL);
            CHECK(b != NULL);
            if (b != NULL) { backends[n_devices++] = b; }
        }
    }
    ggml_backend_reg_t (*add_server)(const char * endpoint) = NULL;
    void * address = ggml_backend_reg_get_proc_address(module, "ggml_backend_rpc_add_server");
    memcpy(&add_server, &address, sizeof add_server);
    for (int i = 0; i < n_endpoints; i++) {
        CHECK(add_server != NULL);
        ggml_backend_reg_t server = add_server != NULL ? add_server(endpoints[i]) : NULL;
        CHECK(server != NULL);
        if (server == NULL) { return; }
        ggml_backend_register(server);
        ggml_backend_t b = ggml_backend_dev_init(ggml_backend_reg_dev_get(server, 0), NULL);
        CHECK(b != NULL);
        if (b != NULL) { backends[n_devices++] = b; }
    }
    CHECK(n_devices > 0);
    backends[n_devices] = ggml_backend_dev_init(cpu, NULL);
    CHECK(backends[n_devices] != NULL);
    printf("note devices:");
    for (int i = 0; i <= n_devices; i++) { printf(" %s", ggml_backend_name(backends[i])); }
    printf("\n");
}

static void the_model_spread_over_the_devices_gives_the_same(void) {
    static float out[WORDS * TOKENS];
    int          splits = 0;
    CHECK_EQ(run_model(0, reference, &splits), 0);
    CHECK_EQ(splits, 1);
    const int nodes = run_model(n_devices, out, &splits);
    CHECK(nodes > 20 * n_devices);
    /* A CPU device before the CPU takes all that it can compute, without copies: both compute in the same memory. */
    const bool is_cpu = ggml_backend_dev_type(ggml_backend_get_device(backends[0])) == GGML_BACKEND_DEVICE_TYPE_CPU;
    CHECK(is_cpu ? nodes > 100 : splits > n_devices);
    double worst = 0, largest = 0;
    for (int i = 0; i < WORDS * TOKENS; i++) {
        worst   = fmax(worst, fabs((double) out[i] - reference[i]));
        largest = fmax(largest, fabs((double) reference[i]));
    }
    printf("note %d nodes on the module's devices in %d splits, largest error %.2g of %.3g\n", nodes, splits, worst, largest);
    CHECK(largest > 0.1 && worst <= tolerance * largest);
}

static void a_module_can_be_unloaded(void) {
    for (int i = 0; i <= n_devices; i++) { ggml_backend_free(backends[i]); }
    if (n_endpoints == 0) { /* registries of servers stay */
        const size_t was = ggml_backend_reg_count();
        ggml_backend_unload(module);
        CHECK_EQ(ggml_backend_reg_count(), was - 1);
    }
}

int main(int argc, char ** argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: test_foreign MODULE TOLERANCE [ENDPOINT ...]\n");
        return 2;
    }
    module_path = argv[1];
    tolerance   = atof(argv[2]);
    endpoints   = argv + 3;
    n_endpoints = argc - 3;
    RUN(the_module_loads_and_brings_its_own_devices);
    if (tests_failed == 0) {
        RUN(the_model_spread_over_the_devices_gives_the_same);
        RUN(a_module_can_be_unloaded);
    }
    return test_summary();
}
