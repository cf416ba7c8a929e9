/* Loads the test accelerator as a module and lets the scheduler share work between it and the CPU; then modules that
 * cannot be loaded.
 *   test_plugin DIR     DIR holds accel.so, old.so, newer.so, noinit.so, noreg.so, score0.so, small.so, text.so */
#include "../common/check.h"
#include "../common/child.h"
#include "accel.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <math.h>
#include <stdint.h>

static const char *                 dir;
static ggml_backend_reg_t           reg;
static ggml_backend_dev_t           dev;
static const struct accel_stats *   stats;
static char                         logged[4096];

static void keep_log(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (level >= GGML_LOG_LEVEL_WARN && strlen(logged) + strlen(text) < sizeof logged) {
        strcat(logged, text);
    }
}

static ggml_backend_reg_t load(const char * name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    logged[0] = '\0';
    return ggml_backend_load(path);
}

static void loads(void) {
    const size_t regs = ggml_backend_reg_count(), devs = ggml_backend_dev_count();
    reg = load("accel.so");
    CHECK(reg != NULL);
    if (reg == NULL) { return; }
    CHECK_STR(ggml_backend_reg_name(reg), "Accel");
    CHECK_EQ(ggml_backend_reg_count(), regs + 1);
    CHECK_EQ(ggml_backend_dev_count(), devs + 1);
    CHECK_EQ(ggml_backend_reg_dev_count(reg), 1);
    dev = ggml_backend_reg_dev_get(reg, 0);
    CHECK(ggml_backend_dev_by_name("Accel0") == dev);
    CHECK(ggml_backend_dev_by_name("accel0") == dev); /* names are found without regard to case */
    CHECK(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU) == dev);
    CHECK(ggml_backend_reg_by_name("Accel") == reg);
    CHECK(ggml_backend_dev_backend_reg(dev) == reg);
    CHECK_STR(ggml_backend_dev_description(dev), "an accelerator for tests");
    struct ggml_backend_dev_props props;
    ggml_backend_dev_get_props(dev, &props);
    CHECK_STR(props.name, "Accel0");
    CHECK_STR(props.device_id, "0000:00:00.0");
    CHECK_EQ(props.memory_total, 256 << 20);
    CHECK_EQ(props.type, GGML_BACKEND_DEVICE_TYPE_GPU);
    CHECK(ggml_backend_dev_host_buffer_type(dev) == NULL);
    CHECK(ggml_backend_event_new(dev) == NULL);
    CHECK(ggml_backend_reg_get_proc_address(reg, "nothing of this name") == NULL);
    stats = ggml_backend_reg_get_proc_address(reg, "accel_stats");
    CHECK(stats != NULL);
    ggml_backend_t best = ggml_backend_init_best();
    CHECK(best != NULL && ggml_backend_get_device(best) == dev);
    ggml_backend_free(best);
    CHECK(ggml_backend_dev_init(dev, "refuse") == NULL);
    CHECK_EQ(stats->live_backends, 0);
}

static void buffers(void) {
    ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(dev);
    CHECK_STR(ggml_backend_buft_name(type), "Accel0");
    CHECK(!ggml_backend_buft_is_host(type));
    CHECK_EQ(ggml_backend_buft_get_alignment(type), 64);
    CHECK(ggml_backend_buft_get_device(type) == dev);
    CHECK(ggml_backend_buft_get_max_size(type) == SIZE_MAX);
    CHECK(ggml_backend_buft_alloc_buffer(type, (size_t) 1 << 40) == NULL);
    const struct ggml_init_params params = { .mem_size = 1u << 16, .mem_buffer = NULL, .no_alloc = true };
    struct ggml_context * c = ggml_init(params), *h = ggml_init(params);
    struct ggml_tensor *a = ggml_new_tensor_2d(c, GGML_TYPE_F32, 5, 4), *v = ggml_view_1d(c, a, 5, 20), *b = ggml_dup_tensor(c, a), *on_host = ggml_dup_tensor(h, a);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(c, type);
    ggml_backend_buffer_t host   = ggml_backend_alloc_ctx_tensors_from_buft(h, ggml_backend_cpu_buffer_type());
    CHECK(buffer != NULL && host != NULL);
    CHECK_EQ((uintptr_t) ggml_backend_buffer_get_base(buffer), 0x10000);
    CHECK(!ggml_backend_buffer_is_host(buffer));
    CHECK_EQ((uintptr_t) v->data - (uintptr_t) a->data, 20);
    CHECK_EQ((uintptr_t) b->data % 64, 0);
    CHECK(stats->inits >= 2);
    float in[20], out[20];
    for (int i = 0; i < 20; i++) { in[i] = (float) i + 0.5f; }
    ggml_backend_tensor_set(a, in, 0, sizeof in);
    ggml_backend_tensor_get(v, out, 0, 20);
    CHECK(memcmp(out, in + 5, 20) == 0);
    ggml_backend_tensor_copy(a, b); /* inside the device */
    CHECK_EQ(stats->copies, 1);
    ggml_backend_tensor_copy(b, on_host); /* and out of it */
    CHECK(memcmp(on_host->data, in, sizeof in) == 0);
    ggml_backend_tensor_memset(a, 0, 20, 20);
    ggml_backend_tensor_copy(a, on_host);
    CHECK(((float *) on_host->data)[4] == 4.5f && ((float *) on_host->data)[5] == 0.0f && ((float *) on_host->data)[10] == 10.5f);
    /* two dimensional transfers fall back to rows: 3 pieces of 8 bytes, every 20 bytes in the tensor, every 12
     * outside */
    float rows[9];
    for (int i = 0; i < 9; i++) { rows[i] = -(float) i; }
    ggml_backend_tensor_set_2d(b, rows, 4, 8, 3, 20, 12);
    memset(out, 0, sizeof out);
    ggml_backend_tensor_get_2d(b, out, 4, 8, 3, 20, 8);
    CHECK(out[0] == 0 && out[1] == -1 && out[2] == -3 && out[3] == -4 && out[4] == -6 && out[5] == -7);
    ggml_backend_tensor_get(b, out, 0, sizeof out);
    CHECK(out[0] == 0.5f && out[1] == -0.0f && out[2] == -1 && out[3] == 3.5f && out[6] == -3);
    ggml_backend_buffer_clear(buffer, 0);
    ggml_backend_tensor_get(b, out, 0, sizeof out);
    CHECK(out[3] == 0);
    ggml_backend_buffer_free(buffer);
    ggml_backend_buffer_free(host);
    CHECK_EQ(stats->live_buffers, 0);
    ggml_free(c);
    ggml_free(h);
}

enum { INPUTS = 24, HIDDEN = 16, OUTPUTS = 8 };

struct net {
    struct ggml_context * weights;
    struct ggml_tensor *  w1, *b1, *w2, *b2;
    ggml_backend_buffer_t buffer;
    float                 h1[INPUTS * HIDDEN], hb1[HIDDEN], h2[HIDDEN * OUTPUTS], hb2[OUTPUTS];
};

static void net_init(struct net * n, ggml_backend_buffer_type_t type) {
    const struct ggml_init_params params = { .mem_size = 1u << 16, .mem_buffer = NULL, .no_alloc = true };
    n->weights = ggml_init(params);
    n->w1 = ggml_set_name(ggml_new_tensor_2d(n->weights, GGML_TYPE_F32, INPUTS, HIDDEN), "w1");
    n->b1 = ggml_set_name(ggml_new_tensor_1d(n->weights, GGML_TYPE_F32, HIDDEN), "b1");
    n->w2 = ggml_set_name(ggml_new_tensor_2d(n->weights, GGML_TYPE_F32, HIDDEN, OUTPUTS), "w2");
    n->b2 = ggml_set_name(ggml_new_tensor_1d(n->weights, GGML_TYPE_F32, OUTPUTS), "b2");
    n->buffer = ggml_backend_alloc_ctx_tensors_from_buft(n->weights, type);
    ggml_backend_buffer_set_usage(n->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    for (int i = 0; i < INPUTS * HIDDEN; i++) { n->h1[i] = (float) (i * 7 % 23 - 11) / 16.0f; }
    for (int i = 0; i < HIDDEN; i++) { n->hb1[i] = (float) (i % 5 - 2) / 4.0f; }
    for (int i = 0; i < HIDDEN * OUTPUTS; i++) { n->h2[i] = (float) (i * 5 % 19 - 9) / 16.0f; }
    for (int i = 0; i < OUTPUTS; i++) { n->hb2[i] = (float) i / 8.0f; }
    ggml_backend_tensor_set(n->w1, n->h1, 0, sizeof n->h1);
    ggml_backend_tensor_set(n->b1, n->hb1, 0, sizeof n->hb1);
    ggml_backend_tensor_set(n->w2, n->h2, 0, sizeof n->h2);
    ggml_backend_tensor_set(n->b2, n->hb2, 0, sizeof n->hb2);
}

static void net_free(struct net * n) {
    ggml_backend_buffer_free(n->buffer);
    ggml_free(n->weights);
}

static struct ggml_cgraph * net_graph(struct ggml_context * c, const struct net * n, int batch) {
    struct ggml_tensor * x = ggml_set_name(ggml_new_tensor_2d(c, GGML_TYPE_F32, INPUTS, batch), "x");
    ggml_set_input(x);
    struct ggml_tensor * hidden = ggml_set_name(ggml_mul_mat(c, n->w1, x), "product1");
    hidden = ggml_relu(c, ggml_set_name(ggml_add(c, hidden, n->b1), "sum1"));
    ggml_set_name(hidden, "relu");
    struct ggml_tensor * y = ggml_set_name(ggml_mul_mat(c, n->w2, hidden), "product2");
    y = ggml_set_name(ggml_add(c, y, n->b2), "sum2");
    y = ggml_set_name(ggml_soft_max(c, y), "result");
    ggml_set_output(y);
    struct ggml_cgraph * graph = ggml_new_graph(c);
    ggml_build_forward_expand(graph, y);
    return graph;
}

static void net_by_hand(const struct net * n, const float * x, int batch, float * out) {
    for (int t = 0; t < batch; t++) {
        double hidden[HIDDEN], y[OUTPUTS], total = 0;
        for (int i = 0; i < HIDDEN; i++) {
            hidden[i] = (double) n->hb1[i];
            for (int k = 0; k < INPUTS; k++) { hidden[i] += (double) n->h1[i * INPUTS + k] * x[t * INPUTS + k]; }
            hidden[i] = hidden[i] > 0 ? hidden[i] : 0;
        }
        for (int i = 0; i < OUTPUTS; i++) {
            y[i] = (double) n->hb2[i];
            for (int k = 0; k < HIDDEN; k++) { y[i] += (double) n->h2[i * HIDDEN + k] * hidden[k]; }
            y[i] = exp(y[i]);
            total += y[i];
        }
        for (int i = 0; i < OUTPUTS; i++) { out[t * OUTPUTS + i] = (float) (y[i] / total); }
    }
}

static bool where(ggml_backend_sched_t sched, struct ggml_cgraph * graph, const char * name, ggml_backend_t backend) {
    return ggml_backend_sched_get_tensor_backend(sched, ggml_graph_get_tensor(graph, name)) == backend;
}

static int  seen;
static bool eval(struct ggml_tensor * t, bool ask, void * user) {
    (void) user;
    if (ask) { return strcmp(t->name, "sum1") == 0 || strcmp(t->name, "relu") == 0; }
    seen++;
    return true;
}

static bool stop(struct ggml_tensor * t, bool ask, void * user) {
    (void) t; (void) user;
    return ask;
}

/* `batch` tokens through the net whose weights are in `type`, with and without offloading. Checks the result, and which
 * device computed it. */
static void shared_work(ggml_backend_buffer_type_t type, bool offload, int batch, bool on_accel, int user) {
    ggml_backend_t accel = ggml_backend_dev_init(dev, NULL), cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ggml_backend_t both[2] = { accel, cpu };
    struct net * n = calloc(1, sizeof *n);
    net_init(n, type);
    ggml_backend_sched_t sched = ggml_backend_sched_new(both, NULL, 2, 256, false, offload);
    CHECK(sched != NULL);
    CHECK_EQ(ggml_backend_sched_get_n_backends(sched), 2);
    CHECK(ggml_backend_sched_get_backend(sched, 0) == accel);
    CHECK_EQ(ggml_backend_sched_get_n_copies(sched), 1);
    CHECK(ggml_backend_sched_get_buffer_type(sched, accel) == ggml_backend_dev_buffer_type(dev));
    const struct ggml_init_params params = { .mem_size = 1u << 20, .mem_buffer = NULL, .no_alloc = true };
    struct ggml_context * measure = ggml_init(params);
    CHECK(ggml_backend_sched_reserve(sched, net_graph(measure, n, batch)));
    ggml_free(measure);
    for (int round = 0; round < 3; round++) {
        struct ggml_context * c = ggml_init(params);
        struct ggml_cgraph *  graph = net_graph(c, n, batch);
        const struct accel_stats before = *stats;
        ggml_backend_sched_reset(sched);
        if (user >= 0) { ggml_backend_sched_set_tensor_backend(sched, ggml_graph_get_tensor(graph, "sum2"), both[user]); }
        CHECK(ggml_backend_sched_alloc_graph(sched, graph));
        float * x = malloc(sizeof(float) * INPUTS * (size_t) batch), *y = malloc(sizeof(float) * OUTPUTS * (size_t) batch), *want = malloc(sizeof(float) * OUTPUTS * (size_t) batch);
        for (int i = 0; i < INPUTS * batch; i++) { x[i] = (float) ((i + round) * 11 % 29 - 14) / 16.0f; }
        ggml_backend_tensor_set(ggml_graph_get_tensor(graph, "x"), x, 0, sizeof(float) * INPUTS * (size_t) batch);
        CHECK_EQ(ggml_backend_sched_graph_compute(sched, graph), GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get(ggml_graph_get_tensor(graph, "result"), y, 0, sizeof(float) * OUTPUTS * (size_t) batch);
        net_by_hand(n, x, batch, want);
        for (int i = 0; i < OUTPUTS * batch; i++) { CHECK_NEAR(y[i], want[i], 1e-5); }
        CHECK(where(sched, graph, "product1", on_accel ? accel : cpu));
        CHECK(where(sched, graph, "relu", cpu));
        CHECK(where(sched, graph, "result", cpu));
        CHECK_EQ(stats->mul_mats - before.mul_mats, on_accel ? 2 : 0);
        CHECK(on_accel ? ggml_backend_sched_get_n_splits(sched) >= 3 : ggml_backend_sched_get_n_splits(sched) == 1);
        if (user >= 0) { CHECK(where(sched, graph, "sum2", both[user])); }
        if (on_accel) { CHECK(ggml_backend_sched_get_buffer_size(sched, accel) > 0); }
        free(x);
        free(y);
        free(want);
        ggml_free(c);
    }
    ggml_backend_sched_free(sched);
    net_free(n);
    free(n);
    ggml_backend_free(accel);
    ggml_backend_free(cpu);
    CHECK_EQ(stats->live_buffers, 0);
    CHECK_EQ(stats->live_backends, 0);
}

static void weights_on_the_accelerator(void) { shared_work(ggml_backend_dev_buffer_type(dev), false, 3, true, -1); }
static void offloaded_from_the_host(void)    { shared_work(ggml_backend_cpu_buffer_type(), true, 5, true, -1); }
static void too_small_to_offload(void)       { shared_work(ggml_backend_cpu_buffer_type(), true, 2, false, -1); }
static void offloading_switched_off(void)    { shared_work(ggml_backend_cpu_buffer_type(), false, 5, false, -1); }
static void assigned_by_the_user(void)       { shared_work(ggml_backend_dev_buffer_type(dev), false, 3, true, 1); }

static void callbacks(void) {
    ggml_backend_t both[2] = { ggml_backend_dev_init(dev, NULL), ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL) };
    struct net * n = calloc(1, sizeof *n);
    net_init(n, ggml_backend_dev_buffer_type(dev));
    ggml_backend_sched_t sched = ggml_backend_sched_new(both, NULL, 2, 256, false, true);
    const struct ggml_init_params params = { .mem_size = 1u << 20, .mem_buffer = NULL, .no_alloc = true };
    struct ggml_context * c = ggml_init(params);
    struct ggml_cgraph *  graph = net_graph(c, n, 2);
    size_t sizes[2] = { 0, 0 };
    ggml_backend_sched_reserve_size(sched, graph, sizes);
    CHECK(sizes[0] > 0 && sizes[1] > 0);
    ggml_backend_sched_reset(sched);
    ggml_backend_sched_set_eval_callback(sched, eval, NULL);
    CHECK(ggml_backend_sched_alloc_graph(sched, graph));
    static const float zeros[2 * INPUTS];
    ggml_backend_tensor_set(ggml_graph_get_tensor(graph, "x"), zeros, 0, sizeof zeros);
    seen = 0;
    CHECK_EQ(ggml_backend_sched_graph_compute(sched, graph), GGML_STATUS_SUCCESS);
    CHECK_EQ(seen, 2);
    ggml_backend_sched_set_eval_callback(sched, stop, NULL); /* cancels after the first node */
    const int before = stats->mul_mats;
    CHECK_EQ(ggml_backend_sched_graph_compute(sched, graph), GGML_STATUS_SUCCESS);
    CHECK(stats->mul_mats - before <= 2);
    ggml_free(c);
    ggml_backend_sched_free(sched);
    net_free(n);
    free(n);
    ggml_backend_free(both[0]);
    ggml_backend_free(both[1]);
}

static int  compared;
static bool compare(int index, struct ggml_tensor * t1, struct ggml_tensor * t2, void * user) {
    (void) index; (void) user;
    float a[HIDDEN * 3], b[HIDDEN * 3];
    ggml_backend_tensor_get(t1, a, 0, ggml_nbytes(t1));
    ggml_backend_tensor_get(t2, b, 0, ggml_nbytes(t2));
    for (int64_t i = 0; i < ggml_nelements(t1); i++) { CHECK_NEAR(a[i], b[i], 1e-5); }
    compared++;
    return true;
}

static void compared_with_the_cpu(void) {
    ggml_backend_t accel = ggml_backend_dev_init(dev, NULL), cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    struct net * n = calloc(1, sizeof *n);
    net_init(n, ggml_backend_cpu_buffer_type());
    const struct ggml_init_params params = { .mem_size = 1u << 20, .mem_buffer = NULL, .no_alloc = true };
    struct ggml_context * c = ggml_init(params);
    struct ggml_tensor *  x = ggml_new_tensor_2d(c, GGML_TYPE_F32, INPUTS, 3);
    struct ggml_tensor *  y = ggml_add(c, ggml_mul_mat(c, n->w1, x), n->b1);
    struct ggml_cgraph *  graph = ggml_new_graph(c);
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(c, cpu);
    for (int i = 0; i < INPUTS * 3; i++) { ggml_set_f32_1d(x, i, (float) (i % 7) - 3.0f); }
    CHECK(ggml_backend_supports_op(accel, y));
    CHECK(ggml_backend_compare_graph_backend(cpu, accel, graph, compare, NULL, NULL, 0));
    CHECK_EQ(compared, 2);
    struct ggml_backend_graph_copy copy = ggml_backend_graph_copy(accel, graph);
    CHECK(copy.graph != NULL && ggml_graph_n_nodes(copy.graph) == 2);
    CHECK_EQ(ggml_backend_graph_compute(accel, copy.graph), GGML_STATUS_SUCCESS);
    ggml_backend_graph_copy_free(copy);
    CHECK_EQ(stats->live_buffers, 0);
    ggml_backend_buffer_free(buffer);
    ggml_free(c);
    net_free(n);
    free(n);
    ggml_backend_free(accel);
    ggml_backend_free(cpu);
}

/* A device whose buffers are small: tensors that do not fit into one buffer are spread over several, which look like
 * one. */
static void small_buffers(void) {
    ggml_backend_reg_t small = load("small.so");
    CHECK(small != NULL);
    if (small == NULL) { return; }
    const struct accel_stats *     counts = ggml_backend_reg_get_proc_address(small, "accel_stats");
    ggml_backend_buffer_type_t     type   = ggml_backend_dev_buffer_type(ggml_backend_reg_dev_get(small, 0));
    const struct ggml_init_params  params = { .mem_size = 1u << 16, .mem_buffer = NULL, .no_alloc = true };
    struct ggml_context *          c      = ggml_init(params);
    struct ggml_tensor *           t[5];
    CHECK_EQ(ggml_backend_buft_get_max_size(type), 4096);
    for (int i = 0; i < 5; i++) { t[i] = ggml_new_tensor_1d(c, GGML_TYPE_F32, 500); }
    struct ggml_tensor * view = ggml_view_1d(c, t[4], 10, 40);
    const size_t size = ggml_backend_alloc_ctx_tensors_from_buft_size(c, type);
    ggml_backend_buffer_t all = ggml_backend_alloc_ctx_tensors_from_buft(c, type);
    CHECK(all != NULL);
    CHECK_EQ(counts->live_buffers, 3);
    CHECK(ggml_backend_buffer_get_size(all) >= 5 * 2000 && ggml_backend_buffer_get_size(all) == size);
    CHECK(ggml_backend_buffer_get_base(all) == NULL || t[0]->buffer != all);
    CHECK(t[0]->buffer == t[1]->buffer && t[1]->buffer != t[2]->buffer && t[4]->buffer == view->buffer);
    ggml_backend_buffer_set_usage(all, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    CHECK_EQ(ggml_backend_buffer_get_usage(t[4]->buffer), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    float x[500], y[10];
    for (int i = 0; i < 500; i++) { x[i] = (float) i; }
    ggml_backend_tensor_set(t[4], x, 0, sizeof x);
    ggml_backend_tensor_get(view, y, 0, sizeof y);
    CHECK(y[0] == 10 && y[9] == 19);
    ggml_backend_buffer_clear(all, 0);
    ggml_backend_tensor_get(view, y, 0, sizeof y);
    CHECK(y[9] == 0);
    ggml_backend_buffer_free(all);
    CHECK_EQ(counts->live_buffers, 0);
    ggml_free(c);
    /* the graph allocator works in chunks there */
    struct ggml_context * g = ggml_init(params);
    struct ggml_tensor *  a = ggml_new_tensor_1d(g, GGML_TYPE_F32, 900), *b = ggml_new_tensor_1d(g, GGML_TYPE_F32, 900);
    ggml_set_input(a);
    ggml_set_input(b);
    struct ggml_tensor * r = ggml_add(g, ggml_add(g, a, b), b);
    ggml_set_output(r);
    struct ggml_cgraph * graph = ggml_new_graph_custom(g, 32, false);
    ggml_build_forward_expand(graph, r);
    ggml_gallocr_t alloc = ggml_gallocr_new(type);
    CHECK(ggml_gallocr_alloc_graph(alloc, graph));
    CHECK(a->buffer != b->buffer);
    float ones[900];
    for (int i = 0; i < 900; i++) { ones[i] = 1.0f; }
    ggml_backend_tensor_set(a, ones, 0, sizeof ones);
    ggml_backend_tensor_set(b, ones, 0, sizeof ones);
    ggml_backend_t backend = ggml_backend_dev_init(ggml_backend_reg_dev_get(small, 0), NULL);
    CHECK_EQ(ggml_backend_graph_compute(backend, graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(r, ones, 0, sizeof ones);
    CHECK(ones[0] == 3.0f && ones[899] == 3.0f);
    ggml_backend_free(backend);
    ggml_gallocr_free(alloc);
    CHECK_EQ(counts->live_buffers, 0);
    ggml_free(g);
    ggml_backend_unload(small);
}

static void unloads(void) {
    const size_t regs = ggml_backend_reg_count(), devs = ggml_backend_dev_count();
    ggml_backend_unload(reg);
    CHECK_EQ(ggml_backend_reg_count(), regs - 1);
    CHECK_EQ(ggml_backend_dev_count(), devs - 1);
    CHECK(ggml_backend_dev_by_name("Accel0") == NULL);
    CHECK(ggml_backend_dev_by_name("CPU") != NULL);
    reg = load("accel.so");
    CHECK(reg != NULL);
    CHECK_EQ(ggml_backend_reg_count(), regs);
}

static void refused(const char * name, bool speaks) {
    const size_t regs = ggml_backend_reg_count();
    CHECK(load(name) == NULL);
    CHECK(!speaks || strlen(logged) > 10);
    CHECK_EQ(ggml_backend_reg_count(), regs);
    CHECK(ggml_backend_dev_by_name("CPU") != NULL);
}

static void an_old_interface(void)   { refused("old.so", true); }
static void a_newer_interface(void)  { refused("newer.so", true); }
static void no_init_symbol(void)     { refused("noinit.so", true); }
static void no_registry_entry(void)  { refused("noreg.so", true); }
static void score_of_zero(void)      { refused("score0.so", false); } /* no error: it is not for this machine */
static void not_a_library(void)      { refused("text.so", true); }
static void no_such_file(void)       { refused("nobody.so", true); }

static void a_directory_without_modules(void) {
    const size_t regs = ggml_backend_reg_count();
    ggml_backend_load_all_from_path("/nonexistent/folder");
    CHECK_EQ(ggml_backend_reg_count(), regs);
}

int main(int argc, char ** argv) {
    dir = argc > 1 ? argv[1] : ".";
    ggml_log_set(keep_log, NULL);
    RUN(loads);
    if (dev == NULL) { return test_summary(); }
    RUN(buffers);
    RUN(weights_on_the_accelerator);
    RUN(offloaded_from_the_host);
    RUN(too_small_to_offload);
    RUN(offloading_switched_off);
    RUN(assigned_by_the_user);
    RUN(callbacks);
    RUN(compared_with_the_cpu);
    RUN(small_buffers);
    RUN(unloads);
    RUN(an_old_interface);
    RUN(a_newer_interface);
    RUN(no_init_symbol);
    RUN(no_registry_entry);
    RUN(score_of_zero);
    RUN(not_a_library);
    RUN(no_such_file);
    RUN(a_directory_without_modules);
    return test_summary();
}
