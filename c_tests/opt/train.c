/* Trains a small regression and a small classifier in every way of ggml-opt.h, and prints the results: one value, or
 * one array, a line. compare.py compares the lines of two libraries. With an argument, only one short run (for
 * valgrind). */
#include "../common/data.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-opt.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 48, BATCH = 8, INPUTS = 5, HIDDEN = 9, CLASSES = 3, GRAPH = 256 };

static ggml_backend_t       backend;
static ggml_backend_sched_t sched;
static char                 scenario[128];

static void print_floats(const char * what, const float * x, int64_t n) {
    printf("%s %s:", scenario, what);
    for (int64_t i = 0; i < n; i++) { printf(" %.9g", (double) x[i]); }
    printf("\n");
}

static void print_tensor(const char * what, const struct ggml_tensor * t) {
    float x[256];
    if (t == NULL) { printf("%s %s: none\n", scenario, what); return; }
    if (ggml_nbytes(t) > sizeof x) { abort(); }
    ggml_backend_tensor_get(t, x, 0, ggml_nbytes(t));
    print_floats(what, x, ggml_nelements(t));
}

/* Parameters of a model; a classifier has two layers, a regression one. */
struct model {
    struct ggml_context * ctx;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *  inputs;
    struct ggml_tensor *  p[4];
    int                   n;
    bool                  classifier;
};

static void init_model(struct model * m, bool classifier) {
    const struct ggml_init_params params = { 8 * ggml_tensor_overhead(), NULL, true };
    memset(m, 0, sizeof *m);
    m->ctx        = ggml_init(params);
    m->classifier = classifier;
    m->inputs     = ggml_new_tensor_2d(m->ctx, GGML_TYPE_F32, INPUTS, BATCH);
    ggml_set_name(m->inputs, "inputs");
    const int64_t rows[2] = { classifier ? HIDDEN : 1, CLASSES };
    for (int layer = 0; layer <= (int) classifier; layer++) {
        m->p[m->n++] = ggml_new_tensor_2d(m->ctx, GGML_TYPE_F32, layer == 0 ? INPUTS : HIDDEN, rows[layer]);
        m->p[m->n++] = ggml_new_tensor_1d(m->ctx, GGML_TYPE_F32, rows[layer]);
    }
    for (int i = 0; i < m->n; i++) {
        ggml_set_param(m->p[i]);
        ggml_format_name(m->p[i], "%s %d", i % 2 == 0 ? "weight" : "bias", i / 2);
    }
    m->buffer      = ggml_backend_alloc_ctx_tensors(m->ctx, backend);
    uint64_t state = 11;
    for (int i = 0; i < m->n; i++) {
        float x[256];
        for (int64_t k = 0; k < ggml_nelements(m->p[i]); k++) { x[k] = data_float(&state, -0.7f, 0.7f); }
        ggml_backend_tensor_set(m->p[i], x, 0, ggml_nbytes(m->p[i]));
    }
}

static void free_model(struct model * m) {
    ggml_backend_buffer_free(m->buffer);
    ggml_free(m->ctx);
}

static struct ggml_tensor * outputs_of(struct ggml_context * ctx, const struct model * m, struct ggml_tensor * inputs) {
    struct ggml_tensor * x = ggml_add(ctx, ggml_mul_mat(ctx, m->p[0], inputs), m->p[1]);
    if (m->classifier) { x = ggml_add(ctx, ggml_mul_mat(ctx, m->p[2], ggml_relu(ctx, x)), m->p[3]); }
    ggml_set_name(x, "outputs");
    return x;
}

static struct ggml_context * compute_context(void) {
    const struct ggml_init_params params = { GRAPH * ggml_tensor_overhead() + 3 * ggml_graph_overhead_custom(GGML_DEFAULT_GRAPH_SIZE, true), NULL, true };
    return ggml_init(params);
}

/* Points around a plane, or of three classes that overlap. */
static ggml_opt_dataset_t make_dataset(bool classifier, int64_t shard) {
    const int64_t      n_label = classifier ? CLASSES : 1;
    ggml_opt_dataset_t set     = ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, INPUTS, n_label, POINTS, shard);
    float *            data    = ggml_get_data_f32(ggml_opt_dataset_data(set));
    float *            labels  = ggml_get_data_f32(ggml_opt_dataset_labels(set));
    uint64_t           state   = 5;
    for (int i = 0; i < POINTS; i++) {
        float sum = 0.3f;
        for (int k = 0; k < INPUTS; k++) {
            data[i * INPUTS + k] = data_float(&state, -1.0f, 1.0f);
            sum += (float) (k - 2) * data[i * INPUTS + k];
        }
        sum += data_float(&state, -0.2f, 0.2f);
        if (!classifier) { labels[i] = sum; continue; }
        for (int k = 0; k < CLASSES; k++) { labels[i * CLASSES + k] = k == (sum < -0.5f ? 0 : sum < 0.8f ? 1 : 2) ? 1.0f : 0.0f; }
    }
    return set;
}

static void print_result(const char * what, ggml_opt_result_t result) {
    char    name[64];
    double  v[4];
    int64_t n;
    int32_t pred[POINTS * 2];
    ggml_opt_result_ndata(result, &n);
    ggml_opt_result_loss(result, &v[0], &v[1]);
    ggml_opt_result_accuracy(result, &v[2], &v[3]);
    printf("%s %s points: %d\n", scenario, what, (int) n);
    const char * names[4] = { "loss", "loss uncertainty", "accuracy", "accuracy uncertainty" };
    for (int i = 0; i < 4; i++) {
        const float x = (float) v[i];
        snprintf(name, sizeof name, "%s %s", what, names[i]);
        print_floats(name, &x, 1);
    }
    if (v[2] == v[2] && n <= POINTS * 2) {
        ggml_opt_result_pred(result, pred);
        printf("%s %s predictions:", scenario, what);
        for (int64_t i = 0; i < n; i++) { printf(" %d", (int) pred[i]); }
        printf("\n");
    }
}

static struct ggml_opt_optimizer_params rates(void * userdata) {
    struct ggml_opt_optimizer_params p = ggml_opt_get_default_optimizer_params(NULL);
    const int64_t                    n = userdata != NULL ? *(const int64_t *) userdata : 1;
    p.adamw.alpha = 0.02f / (float) n;
    p.adamw.wd    = 0.01f;
    p.sgd.alpha   = 0.1f / (float) n;
    p.sgd.wd      = 0.01f;
    return p;
}

static int n_callbacks;

static void count_batches(bool train, ggml_opt_context_t ctx, ggml_opt_dataset_t set, ggml_opt_result_t result, int64_t done, int64_t all, int64_t start) {
    int64_t n = 0;
    (void) start;
    if (result != NULL) { ggml_opt_result_ndata(result, &n); } /* a query while the loop runs */
    printf("%s callback: %d %d %d %d %d %d\n", scenario, train, (int) done, (int) all, (int) n, (int) ggml_opt_static_graphs(ctx), (int) ggml_opt_dataset_ndata(set));
    n_callbacks++;
}

static enum ggml_opt_loss_type loss_of(const struct model * m) {
    return m->classifier ? GGML_OPT_LOSS_TYPE_CROSS_ENTROPY : GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR;
}

static void print_model(const char * when, const struct model * m) {
    for (int i = 0; i < m->n; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s %s", when, ggml_get_name(m->p[i]));
        print_tensor(name, m->p[i]);
    }
}

static void static_graphs(bool classifier, enum ggml_opt_optimizer_type optimizer, int period, int epochs) {
    struct model m;
    snprintf(scenario, sizeof scenario, "static %s %s period %d", classifier ? "classifier" : "regression", ggml_opt_optimizer_name(optimizer), period);
    init_model(&m, classifier);
    struct ggml_context *  ctx    = compute_context();
    struct ggml_opt_params params = ggml_opt_default_params(sched, loss_of(&m));
    params.ctx_compute  = ctx;
    params.inputs       = m.inputs;
    params.outputs      = outputs_of(ctx, &m, m.inputs);
    params.opt_period   = period;
    params.optimizer    = optimizer;
    params.get_opt_pars = rates;
    ggml_opt_context_t run   = ggml_opt_init(params);
    ggml_opt_dataset_t set   = make_dataset(classifier, 2);
    ggml_opt_result_t  train = ggml_opt_result_init(), val = ggml_opt_result_init();
    print_result("empty", train);
    ggml_opt_dataset_shuffle(run, set, -1);
    for (int e = 0; e < epochs; e++) {
        ggml_opt_result_reset(train);
        ggml_opt_result_reset(val);
        if (e > 0) { ggml_opt_dataset_shuffle(run, set, 4 * BATCH); }
        ggml_opt_epoch(run, set, train, val, 4 * BATCH, e == 0 ? count_batches : NULL, e == 0 ? count_batches : NULL);
        print_result("train", train);
        print_result("validation", val);
        if (e < 2) { print_model("early", &m); }
    }
    print_model("end", &m);
    if (period > 1) { /* part of a step: sums of gradients can be seen */
        for (int i = 0; i < 2; i++) {
            ggml_opt_alloc(run, true);
            ggml_opt_dataset_get_batch(set, ggml_opt_inputs(run), ggml_opt_labels(run), i);
            if (i == 0) {
                ggml_opt_eval(run, NULL);
                for (int k = 0; k < m.n; k++) { print_tensor("gradient", ggml_opt_grad_acc(run, m.p[k])); }
                print_tensor("loss tensor", ggml_opt_loss(run));
            } else {
                ggml_opt_eval(run, NULL);
            }
        }
    }
    print_tensor("no sum for inputs", ggml_opt_grad_acc(run, m.inputs));
    print_tensor("outputs' shape", NULL);
    ggml_opt_reset(run, true);
    ggml_opt_alloc(run, true);
    ggml_opt_dataset_get_batch(set, ggml_opt_inputs(run), ggml_opt_labels(run), 0);
    ggml_opt_eval(run, NULL);
    print_model("after a reset", &m);
    ggml_opt_result_free(train);
    ggml_opt_result_free(val);
    ggml_opt_free(run);
    ggml_opt_dataset_free(set);
    ggml_free(ctx);
    free_model(&m);
}

static void dynamic_graphs(bool classifier, enum ggml_opt_optimizer_type optimizer, int period, int n) {
    struct model m;
    snprintf(scenario, sizeof scenario, "dynamic %s %s period %d", classifier ? "classifier" : "regression", ggml_opt_optimizer_name(optimizer), period);
    init_model(&m, classifier);
    struct ggml_opt_params params = ggml_opt_default_params(sched, loss_of(&m));
    int64_t                rate   = 1;
    params.opt_period      = period;
    params.optimizer       = optimizer;
    params.get_opt_pars    = rates;
    params.get_opt_pars_ud = &rate;
    ggml_opt_context_t run    = ggml_opt_init(params);
    ggml_opt_dataset_t set    = make_dataset(classifier, 1);
    ggml_opt_result_t  result = ggml_opt_result_init();
    for (int i = 0; i < n; i++) {
        struct ggml_context * ctx     = compute_context();
        struct ggml_cgraph *  forward = ggml_new_graph_custom(ctx, GGML_DEFAULT_GRAPH_SIZE, true);
        struct ggml_tensor *  inputs  = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, INPUTS, BATCH);
        struct ggml_tensor *  outputs = outputs_of(ctx, &m, inputs);
        ggml_build_forward_expand(forward, outputs);
        ggml_opt_prepare_alloc(run, ctx, forward, inputs, outputs);
        const bool train = i % 4 != 3;
        ggml_opt_alloc(run, train);
        ggml_opt_dataset_get_batch(set, ggml_opt_inputs(run), ggml_opt_labels(run), i % (POINTS / BATCH));
        ggml_opt_eval(run, result);
        rate = 1 + i / 4;
        ggml_free(ctx);
    }
    print_result("all", result);
    print_model("end", &m);
    ggml_opt_result_free(result);
    ggml_opt_free(run);
    ggml_opt_dataset_free(set);
    free_model(&m);
}

/* Losses that the model computes itself; forward only, too. */
static void own_losses(enum ggml_opt_loss_type loss, enum ggml_opt_build_type build) {
    struct model m;
    snprintf(scenario, sizeof scenario, "loss %d build %d", (int) loss, (int) build);
    init_model(&m, false);
    struct ggml_context *  ctx    = compute_context();
    struct ggml_opt_params params = ggml_opt_default_params(sched, loss);
    params.ctx_compute  = ctx;
    params.inputs       = m.inputs;
    params.outputs      = ggml_sqr(ctx, outputs_of(ctx, &m, m.inputs));
    params.build_type   = build;
    params.get_opt_pars = rates;
    ggml_opt_context_t run    = ggml_opt_init(params);
    ggml_opt_dataset_t set    = ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, INPUTS, 0, POINTS, BATCH);
    ggml_opt_result_t  result = ggml_opt_result_init();
    float *            data   = ggml_get_data_f32(ggml_opt_dataset_data(set));
    uint64_t           state  = 3;
    for (int i = 0; i < POINTS * INPUTS; i++) { data[i] = data_float(&state, -1.0f, 1.0f); }
    ggml_opt_epoch(run, set, result, result, build == GGML_OPT_BUILD_TYPE_FORWARD ? 0 : -1, NULL, NULL);
    print_result("all", result);
    print_model("end", &m);
    printf("%s labels %d pred %d ncorrect %d\n", scenario, ggml_opt_labels(run) != NULL, ggml_opt_pred(run) != NULL, ggml_opt_ncorrect(run) != NULL);
    ggml_opt_result_free(result);
    ggml_opt_free(run);
    ggml_opt_dataset_free(set);
    ggml_free(ctx);
    free_model(&m);
}

static void fit(bool classifier, enum ggml_opt_optimizer_type optimizer, int64_t logical, float split, bool silent) {
    struct model m;
    snprintf(scenario, sizeof scenario, "fit %s %s step %d split %g", classifier ? "classifier" : "regression", ggml_opt_optimizer_name(optimizer), (int) logical, (double) split);
    init_model(&m, classifier);
    struct ggml_context * ctx = compute_context();
    ggml_opt_dataset_t    set = make_dataset(classifier, BATCH);
    fprintf(stderr, "%s\n", scenario);
    ggml_opt_fit(sched, ctx, m.inputs, outputs_of(ctx, &m, m.inputs), set, loss_of(&m), optimizer, rates, 3, logical, split, silent);
    print_model("end", &m);
    ggml_opt_dataset_free(set);
    ggml_free(ctx);
    free_model(&m);
}

/* The order of batches: the numbers of points in each, after several shuffles. */
static void orders(void) {
    struct ggml_opt_params params = ggml_opt_default_params(sched, GGML_OPT_LOSS_TYPE_SUM);
    ggml_opt_context_t     run    = ggml_opt_init(params);
    const int64_t          sizes[4] = { 1, 7, 1000, 140000 };
    for (int s = 0; s < 4; s++) {
        for (int64_t shard = 1; shard <= 3; shard += 2) {
            const int64_t n = sizes[s];
            if (n < shard) { continue; }
            snprintf(scenario, sizeof scenario, "order of %d in shards of %d", (int) n, (int) shard);
            ggml_opt_dataset_t set  = ggml_opt_dataset_init(GGML_TYPE_I32, GGML_TYPE_F32, 1, 0, n, shard);
            int32_t *          data = ggml_get_data(ggml_opt_dataset_data(set));
            for (int64_t i = 0; i < n; i++) { data[i] = (int32_t) i; }
            for (int round = 0; round < 3; round++) {
                ggml_opt_dataset_shuffle(run, set, round == 1 ? n / shard / 2 * shard : -1);
                uint64_t hash = DATA_HASH0;
                printf("%s round %d:", scenario, round);
                for (int64_t i = 0; i < n / shard; i++) {
                    int32_t batch[3];
                    ggml_opt_dataset_get_batch_host(set, batch, (size_t) shard * 4, NULL, i);
                    hash = data_hash(batch, (size_t) shard * 4, hash);
                    if (i < 12) { printf(" %d", batch[0]); }
                }
                printf(" hash %016llx\n", (unsigned long long) hash);
            }
            ggml_opt_dataset_free(set);
        }
    }
    ggml_opt_free(run);
}

int main(int argc, char ** argv) {
    (void) argv;
    backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, 1);
    sched = ggml_backend_sched_new(&backend, NULL, 1, GGML_DEFAULT_GRAPH_SIZE, false, true);
    if (argc > 1) {
        static_graphs(true, GGML_OPT_OPTIMIZER_TYPE_ADAMW, 2, 1);
        dynamic_graphs(false, GGML_OPT_OPTIMIZER_TYPE_SGD, 2, 5);
        fit(true, GGML_OPT_OPTIMIZER_TYPE_SGD, BATCH, 0.25f, false);
    } else {
        orders();
        for (int optimizer = 0; optimizer < GGML_OPT_OPTIMIZER_TYPE_COUNT; optimizer++) {
            for (int classifier = 0; classifier < 2; classifier++) {
                for (int period = 1; period <= 2; period++) {
                    static_graphs(classifier, (enum ggml_opt_optimizer_type) optimizer, period, 6);
                    dynamic_graphs(classifier, (enum ggml_opt_optimizer_type) optimizer, period, 16);
                }
                fit(classifier, (enum ggml_opt_optimizer_type) optimizer, BATCH, 0.25f, false);
                fit(classifier, (enum ggml_opt_optimizer_type) optimizer, 2 * BATCH, 0.0f, true);
                fit(classifier, (enum ggml_opt_optimizer_type) optimizer, POINTS, 0.0f, false);
            }
        }
        own_losses(GGML_OPT_LOSS_TYPE_MEAN, GGML_OPT_BUILD_TYPE_OPT);
        own_losses(GGML_OPT_LOSS_TYPE_SUM, GGML_OPT_BUILD_TYPE_OPT);
        own_losses(GGML_OPT_LOSS_TYPE_MEAN, GGML_OPT_BUILD_TYPE_FORWARD);
        own_losses(GGML_OPT_LOSS_TYPE_SUM, GGML_OPT_BUILD_TYPE_FORWARD);
    }
    printf("callbacks: %d\n", n_callbacks);
    ggml_backend_sched_free(sched);
    ggml_backend_free(backend);
    return 0;
}
