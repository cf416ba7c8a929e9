/* Nodes that write into the memory of another node, over devices with memory of their own: results are those of the
 * CPU alone, no backend is given memory of another, and no process ends.
 *
 *   test_writers [FIRST_SEED COUNT]
 *
 * WRITERS_WITH="rpc vulkan": also with a server in a process of its own, and with the first Vulkan device.
 *
 * First some small graphs by name, then COUNT random ones (default: 300). */
#include "../common/check.h"
#include "../common/child.h"
#include "remote.h"

#include "ggml-alloc.h"
#include "ggml-rpc.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { W = 32, T = 8, MOST_OUTPUTS = 64 };

static ggml_backend_t vulkan_backend, rpc_backend;

static uint64_t seed_state;
static uint32_t draw(uint32_t n) {
    uint64_t z = (seed_state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return (uint32_t) ((z ^ (z >> 31)) % n);
}
static bool odds(uint32_t percent) { return draw(100) < percent; }

static void doubled(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * user) {
    (void) nth; (void) user;
    for (int64_t i = 0; ith == 0 && i < ggml_nelements(dst); i++) { ((float *) dst->data)[i] = 2 * ((const float *) a->data)[i]; }
}

static void lowered(struct ggml_tensor * dst, int ith, int nth, void * user) {
    (void) nth; (void) user;
    for (int64_t i = 0; ith == 0 && i < ggml_nelements(dst); i++) { ((float *) dst->data)[i] -= 1; }
}

static struct ggml_context * new_context(void) {
    const struct ggml_init_params params = { 4u << 20, NULL, true };
    return ggml_init(params);
}

/* Values of a tensor that depend on `salt` alone. */
static void fill(struct ggml_tensor * t, uint32_t salt) {
    if (t->buffer == NULL) { return; } /* no node reads it */
    const int64_t n = ggml_nelements(t);
    char * bytes = calloc((size_t) n, 8);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t h = ((uint32_t) i + 1) * 2654435761u ^ salt * 40503u;
        const float    v = (float) (h % 2001) / 1000 - 1;
        switch (t->type) {
            case GGML_TYPE_F32: ((float *) bytes)[i] = v; break;
            case GGML_TYPE_F16: ((ggml_fp16_t *) bytes)[i] = ggml_fp32_to_fp16(v); break;
            /* All different: T and 5 have no common factor. */
            case GGML_TYPE_I64: ((int64_t *) bytes)[i] = (i * 5 + 3 + salt) % T; break;
            default: ((int32_t *) bytes)[i] = (int32_t) ((i * 3 + 1 + salt) % T); break;
        }
    }
    ggml_backend_tensor_set(t, bytes, 0, ggml_nbytes(t));
    free(bytes);
}

/* ---- a graph, its inputs, and what is compared ---- */
typedef struct {
    struct ggml_context * c;
    struct ggml_cgraph *  g;
    struct ggml_tensor *  w[3], * cache;              /* they have memory */
    struct ggml_tensor *  x[2], * mask, * rows, * few; /* inputs */
    struct ggml_tensor *  out[MOST_OUTPUTS];
    int                   n_out;
} graph_t;

static void output(graph_t * h, struct ggml_tensor * t) {
    ggml_set_output(t);
    ggml_build_forward_expand(h->g, t);
    if (h->n_out < MOST_OUTPUTS) { h->out[h->n_out++] = t; }
}

static struct ggml_tensor * expanded(graph_t * h, struct ggml_tensor * t) {
    ggml_build_forward_expand(h->g, t);
    return t;
}

static struct ggml_tensor * some_rows(graph_t * h, struct ggml_tensor * t, int n, int first) {
    return ggml_view_2d(h->c, t, t->ne[0], n, t->nb[1], (size_t) first * t->nb[1]);
}

static void new_inputs(graph_t * h) {
    h->c = new_context();
    h->g = ggml_new_graph_custom(h->c, 1024, false);
    h->n_out = 0;
    for (int i = 0; i < 2; i++) { h->x[i] = ggml_new_tensor_2d(h->c, GGML_TYPE_F32, W, T); }
    h->mask = ggml_new_tensor_2d(h->c, GGML_TYPE_F16, W, T);
    h->rows = ggml_new_tensor_1d(h->c, GGML_TYPE_I64, T / 2);
    h->few  = ggml_new_tensor_1d(h->c, GGML_TYPE_I32, T);
    struct ggml_tensor * all[] = { h->x[0], h->x[1], h->mask, h->rows, h->few };
    for (int i = 0; i < 5; i++) {
        ggml_set_input(all[i]);
        ggml_format_name(all[i], "in%d", i);
    }
}

static void set_inputs(graph_t * h, uint32_t salt) {
    struct ggml_tensor * all[] = { h->x[0], h->x[1], h->mask, h->rows, h->few };
    for (int i = 0; i < 5; i++) { fill(all[i], salt + (uint32_t) i); }
    fill(h->cache, 99);
}

/* The weights and the cache, each on one of the backends. */
typedef struct { struct ggml_context * c[4]; ggml_backend_buffer_t b[4]; struct ggml_tensor * t[4]; } memory_t;

static void new_memory(memory_t * m, ggml_backend_t * homes) {
    for (int i = 0; i < 4; i++) {
        m->c[i] = new_context();
        m->t[i] = ggml_new_tensor_2d(m->c[i], GGML_TYPE_F32, W, W);
        ggml_format_name(m->t[i], i < 3 ? "w%d" : "cache", i);
        m->b[i] = ggml_backend_alloc_ctx_tensors(m->c[i], homes[i]);
        if (i < 3) { ggml_backend_buffer_set_usage(m->b[i], GGML_BACKEND_BUFFER_USAGE_WEIGHTS); }
        fill(m->t[i], 7u + (uint32_t) i);
    }
}

static void free_memory(memory_t * m) {
    for (int i = 0; i < 4; i++) {
        ggml_backend_buffer_free(m->b[i]);
        ggml_free(m->c[i]);
    }
}

static void use_memory(graph_t * h, memory_t * m) {
    memcpy(h->w, m->t, sizeof h->w);
    h->cache = m->t[3];
}

/* ---- small graphs by name ---- */
#define SQR(t) ggml_sqr(h->c, t)

static void in_place_of_sqr(graph_t * h, struct ggml_tensor * p) { output(h, ggml_add(h->c, ggml_scale_inplace(h->c, SQR(p), 0.5f), p)); }
static void rows_of_a_filled(graph_t * h, struct ggml_tensor * p) {
    output(h, ggml_add(h->c, ggml_set_rows(h->c, ggml_fill(h->c, p, -3), ggml_scale(h->c, some_rows(h, p, T / 2, 0), 2), h->rows), p));
}
static void repeated(graph_t * h, struct ggml_tensor * p) {
    output(h, ggml_mul(h->c, ggml_add_inplace(h->c, ggml_repeat_4d(h->c, some_rows(h, p, 1, 1), W, T, 1, 1), p), p));
}
static void copied_into_a_view(graph_t * h, struct ggml_tensor * p) {
    struct ggml_tensor * a = SQR(p), * half = ggml_view_2d(h->c, a, W / 2, T, a->nb[1], 16);
    output(h, ggml_add(h->c, ggml_cpy(h->c, ggml_view_2d(h->c, p, W / 2, T, p->nb[1], 0), half), ggml_cont(h->c, ggml_view_2d(h->c, p, W / 2, T, p->nb[1], 0))));
    output(h, ggml_scale(h->c, a, 1));
}
static void soft_max_in_place(graph_t * h, struct ggml_tensor * p) { output(h, ggml_add(h->c, ggml_soft_max_inplace(h->c, SQR(p)), p)); }
static void set_in_place(graph_t * h, struct ggml_tensor * p) {
    struct ggml_tensor * a = SQR(p);
    output(h, ggml_add(h->c, ggml_set_2d_inplace(h->c, a, ggml_cont(h->c, ggml_view_2d(h->c, p, 8, 4, p->nb[1], 0)), a->nb[1], 8), p));
}
static void acc_in_place(graph_t * h, struct ggml_tensor * p) {
    struct ggml_tensor * a = SQR(p);
    output(h, ggml_add(h->c, ggml_acc_inplace(h->c, a, ggml_cont(h->c, ggml_view_2d(h->c, p, 8, 4, p->nb[1], 0)), a->nb[1], a->nb[2], a->nb[3], 8), p));
}
static void part_in_place(graph_t * h, struct ggml_tensor * p) {
    struct ggml_tensor * a = SQR(p), * b = ggml_scale_inplace(h->c, some_rows(h, a, 4, 2), 0.25f);
    output(h, ggml_add(h->c, ggml_sum_rows(h->c, b), ggml_sum_rows(h->c, some_rows(h, p, 4, 0))));
    output(h, ggml_scale(h->c, a, 2));
}
static void chain_in_place(graph_t * h, struct ggml_tensor * p) {
    struct ggml_tensor * b = ggml_scale_inplace(h->c, SQR(p), 0.25f), * d = ggml_add_inplace(h->c, b, p);
    output(h, ggml_mul(h->c, ggml_scale_inplace(h->c, d, 3), p));
}
static void after_a_custom_node(graph_t * h, struct ggml_tensor * p) {
    output(h, ggml_add(h->c, ggml_scale_inplace(h->c, ggml_map_custom1(h->c, p, doubled, 1, NULL), 0.5f), p));
}
static void custom_in_place(graph_t * h, struct ggml_tensor * p) { output(h, ggml_add(h->c, ggml_map_custom1_inplace(h->c, SQR(p), doubled, 1, NULL), p)); }
static void custom_on_a_product(graph_t * h, struct ggml_tensor * p) { output(h, ggml_add(h->c, ggml_map_custom1_inplace(h->c, p, doubled, 1, NULL), h->x[0])); }
static void a_filled_mask(graph_t * h, struct ggml_tensor * p) {
    struct ggml_tensor * m = ggml_set_rows(h->c, ggml_fill_inplace(h->c, h->mask, -1), some_rows(h, p, T / 2, 0), h->rows);
    output(h, ggml_soft_max_ext(h->c, p, m, 0.5f, 0));
}
static void a_mask_filled_by_copy(graph_t * h, struct ggml_tensor * p) {
    struct ggml_tensor * m = ggml_set_rows(h->c, ggml_fill(h->c, h->mask, -1), some_rows(h, p, T / 2, 0), h->rows);
    output(h, ggml_soft_max_ext(h->c, p, m, 0.5f, 0));
}
static void rows_of_the_cache(graph_t * h, struct ggml_tensor * p) {
    struct ggml_tensor * s = expanded(h, ggml_set_rows(h->c, h->cache, some_rows(h, p, T / 2, 0), h->rows));
    output(h, ggml_mul_mat(h->c, s, p));
    output(h, ggml_mul_mat(h->c, h->cache, p));
}
static void old_copies(graph_t * h, struct ggml_tensor * p) {
    struct ggml_tensor * a = SQR(p);
    output(h, ggml_add(h->c, a, p));
    expanded(h, ggml_map_custom1_inplace(h->c, a, doubled, 1, NULL));
    output(h, ggml_sub(h->c, a, p));
}

static const struct { const char * name; void (*build)(graph_t *, struct ggml_tensor *); enum ggml_op refused; } cases[] = {
    { "in place of what the device refuses", in_place_of_sqr, GGML_OP_SQR },
    { "in place, refused by the device", in_place_of_sqr, GGML_OP_SCALE },
    { "set_rows into a filled tensor", rows_of_a_filled, GGML_OP_FILL },
    { "set_rows, refused by the device", rows_of_a_filled, GGML_OP_SET_ROWS },
    { "a sum in a repeated row", repeated, GGML_OP_REPEAT },
    { "cpy into a view", copied_into_a_view, GGML_OP_SQR },
    { "cpy, refused by the device", copied_into_a_view, GGML_OP_CPY },
    { "soft_max in place", soft_max_in_place, GGML_OP_SQR },
    { "set in place", set_in_place, GGML_OP_SQR },
    { "set, refused by the device", set_in_place, GGML_OP_SET },
    { "acc in place", acc_in_place, GGML_OP_SQR },
    { "acc, refused by the device", acc_in_place, GGML_OP_ACC },
    { "in place through a view", part_in_place, GGML_OP_SQR },
    { "through a view, refused by the device", part_in_place, GGML_OP_SCALE },
    { "a chain in place", chain_in_place, GGML_OP_SCALE },
    { "in place of a custom node", after_a_custom_node, GGML_OP_COUNT },
    { "a custom node in place", custom_in_place, GGML_OP_COUNT },
    { "a custom node in place of a product", custom_on_a_product, GGML_OP_COUNT },
    { "a mask filled in place", a_filled_mask, GGML_OP_COUNT },
    { "a mask filled in place, fill refused", a_filled_mask, GGML_OP_FILL },
    { "a mask filled, set_rows refused", a_mask_filled_by_copy, GGML_OP_SET_ROWS },
    { "a mask filled, fill refused", a_mask_filled_by_copy, GGML_OP_FILL },
    { "rows of a cache", rows_of_the_cache, GGML_OP_COUNT },
    { "copies from before a write", old_copies, GGML_OP_SQR },
};

/* ---- one graph on two schedulers ---- */
typedef struct { float * data[MOST_OUTPUTS]; int64_t n[MOST_OUTPUTS]; int n_out; } results_t;

static void read_results(graph_t * h, results_t * r) {
    r->n_out = h->n_out;
    for (int i = 0; i < h->n_out; i++) {
        r->n[i] = ggml_nelements(h->out[i]);
        r->data[i] = realloc(r->data[i], ggml_nbytes(h->out[i]));
        ggml_backend_tensor_get(h->out[i], r->data[i], 0, ggml_nbytes(h->out[i]));
    }
}

/* NULL, or why the two are not equal. `exact`: bit for bit. */
static const char * compare(const results_t * a, const results_t * b, bool exact) {
    static char why[200];
    for (int i = 0; i < a->n_out; i++) {
        if (exact) {
            if (memcmp(a->data[i], b->data[i], (size_t) a->n[i] * sizeof(float)) != 0) {
                snprintf(why, sizeof why, "result %d of %d has other bits", i, a->n_out);
                return why;
            }
            continue;
        }
        double error = 0, sum = 0;
        for (int64_t k = 0; k < a->n[i]; k++) {
            const double x = a->data[i][k], y = b->data[i][k];
            error += (x - y) * (x - y);
            sum += x * x;
        }
        if (!(error <= 1e-6 * sum + 1e-12)) {
            snprintf(why, sizeof why, "result %d of %d has an error of %g", i, a->n_out, error / sum);
            return why;
        }
    }
    return NULL;
}

/* Allocates and computes a graph that is built twice; each is computed twice. NULL, or what failed. */
static const char * run(ggml_backend_sched_t s, memory_t * m, void (*build)(graph_t *, void *), void * arg, void (*place)(ggml_backend_sched_t, graph_t *),
    results_t * r) {
    for (int again = 0; again < 2; again++) {
        graph_t h = { 0 };
        new_inputs(&h);
        use_memory(&h, m);
        build(&h, arg);
        ggml_backend_sched_reset(s);
        if (place != NULL) { place(s, &h); }
        if (!ggml_backend_sched_alloc_graph(s, h.g)) { ggml_free(h.c); return "the allocation failed"; }
        for (uint32_t k = 0; k < 2; k++) {
            set_inputs(&h, k);
            const enum ggml_status status = ggml_backend_sched_graph_compute(s, h.g);
            if (status != GGML_STATUS_SUCCESS) { ggml_free(h.c); return "computing failed"; }
        }
        read_results(&h, r);
        ggml_backend_sched_reset(s);
        ggml_free(h.c);
    }
    return NULL;
}

/* NULL, or what is wrong with a graph on these backends, the last of them a CPU. */
static const char * on_both(ggml_backend_t * bs, int n, ggml_backend_t * homes, bool parallel, bool exact, void (*build)(graph_t *, void *), void * arg,
    void (*place)(ggml_backend_sched_t, graph_t *)) {
    static char why[400];
    static results_t alone, together;
    ggml_backend_t   cpu = bs[n - 1], on_cpu[4] = { cpu, cpu, cpu, cpu };
    for (int i = 0; i < REMOTES; i++) { remotes[i].foreign = remotes[i].computed = 0; }
    memory_t m;
    new_memory(&m, on_cpu);
    ggml_backend_sched_t s = ggml_backend_sched_new(&cpu, NULL, 1, 1024, false, false);
    const char * failed = run(s, &m, build, arg, NULL, &alone);
    ggml_backend_sched_free(s);
    free_memory(&m);
    if (failed != NULL) { snprintf(why, sizeof why, "on the CPU alone %s", failed); return why; }
    new_memory(&m, homes);
    s = ggml_backend_sched_new(bs, NULL, n, 1024, parallel, false);
    failed = run(s, &m, build, arg, place, &together);
    ggml_backend_sched_free(s);
    free_memory(&m);
    for (int i = 0; i < REMOTES; i++) {
        if (remotes[i].foreign > 0) { return remotes[i].what; }
    }
    return failed != NULL ? failed : compare(&alone, &together, exact);
}

static void build_case(graph_t * h, void * arg) {
    const int i = *(int *) arg;
    cases[i].build(h, ggml_mul_mat(h->c, h->w[0], ggml_mul_mat(h->c, h->w[1], h->x[0])));
}

static bool all_but_one(const remote * r, const struct ggml_tensor * t) {
    return t->op != r->refused && t->op != GGML_OP_MAP_CUSTOM1 && t->op != GGML_OP_CUSTOM;
}

static void one_case(int i, ggml_backend_t device, const char * suffix, bool exact) {
    char name[100];
    snprintf(name, sizeof name, "%s%s", cases[i].name, suffix);
    test_begin();
    ggml_backend_t cpu = ggml_backend_cpu_init(), bs[2] = { device, cpu }, homes[4] = { device, cpu, device, device };
    remotes[0].refused = cases[i].refused;
    for (int parallel = 0; parallel < 2; parallel++) {
        const char * why = on_both(bs, 2, homes, parallel, exact, build_case, &i, NULL);
        if (why != NULL) { test_fails(__FILE__, __LINE__, "%s", why); }
    }
    ggml_backend_free(cpu);
    test_end(name);
}

/* ---- random graphs ---- */
static struct ggml_tensor * root(struct ggml_tensor * t) { return t->view_src != NULL ? t->view_src : t; }

static void build_random(graph_t * h, void * arg) {
    seed_state = *(uint64_t *) arg;
    struct ggml_context * c = h->c;
    struct ggml_tensor * pool[128];
    int n = 0;
    pool[n++] = h->x[0];
    pool[n++] = h->x[1];
    pool[n++] = expanded(h, ggml_mul_mat(c, h->w[0], h->x[0]));
    const int steps = 4 + (int) draw(30);
    for (int i = 0; i < steps; i++) {
        struct ggml_tensor * a = pool[n > 6 && odds(70) ? n - 1 - (int) draw(6) : (int) draw((uint32_t) n)];
        struct ggml_tensor * b = pool[draw((uint32_t) n)];
        struct ggml_tensor * t = NULL;
        const bool apart = root(a) != root(b);
        const int  first = (int) draw(T / 2);
        switch (draw(32)) {
            case 0: case 1: t = ggml_add(c, a, b); break;
            case 2: t = ggml_mul(c, a, ggml_view_1d(c, h->w[draw(3)], W, 0)); break;
            case 3: t = ggml_scale(c, a, 0.75f); break;
            case 4: t = ggml_tanh(c, a); break;
            case 5: t = ggml_neg(c, a); break;
            case 6: case 7: case 8: t = ggml_rms_norm(c, ggml_mul_mat(c, h->w[draw(3)], a), 1e-5f); break;
            case 9: t = ggml_soft_max(c, a); break;
            case 10: t = ggml_get_rows(c, a, h->few); break;
            case 11: t = ggml_map_custom1(c, a, doubled, 1, NULL); break;
            case 12: t = ggml_scale_inplace(c, a, 0.5f); break;
            case 13: if (apart) { t = ggml_add_inplace(c, a, b); } break;
            case 14: t = ggml_mul_inplace(c, a, ggml_view_1d(c, h->w[draw(3)], W, 0)); break;
            case 15: t = ggml_soft_max_inplace(c, a); break;
            case 16: t = ggml_rms_norm_inplace(c, a, 1e-5f); break;
            case 17: case 18: if (apart) { t = ggml_set_rows(c, a, some_rows(h, b, T / 2, first), h->rows); } break;
            case 19: case 20: if (apart) {
                expanded(h, ggml_cpy(c, some_rows(h, b, T / 2, first), some_rows(h, a, T / 2, (int) draw(T / 2))));
                t = ggml_scale(c, a, 0.5f);
            } break;
            case 21: if (apart) { t = ggml_set_2d_inplace(c, a, ggml_cont(c, some_rows(h, b, T / 2, first)), a->nb[1], (size_t) draw(T / 2) * a->nb[1]); } break;
            case 22: if (apart) { t = ggml_acc_inplace(c, a, ggml_cont(c, some_rows(h, b, T / 2, first)), a->nb[1], a->nb[2], a->nb[3], (size_t) draw(T / 2) * a->nb[1]); } break;
            case 23: t = ggml_map_custom1_inplace(c, a, doubled, 1, NULL); break;
            case 24: { struct ggml_tensor * args[] = { a }; t = ggml_custom_inplace(c, a, args, 0, lowered, 1, NULL); break; }
            case 25: expanded(h, ggml_scale_inplace(c, some_rows(h, a, T / 2, first), 0.25f)); t = ggml_add(c, a, b); break;
            case 26: expanded(h, ggml_fill_inplace(c, some_rows(h, a, 1, first), 0.5f)); t = ggml_scale(c, a, 0.5f); break;
            case 27: {
                struct ggml_tensor * place = some_rows(h, h->cache, T, (int) draw(W - T));
                expanded(h, ggml_cpy(c, a, place));
                t = ggml_add(c, a, some_rows(h, h->cache, T, (int) draw(W - T)));
                break;
            }
            case 28: {
                struct ggml_tensor * m = ggml_set_rows(c, odds(50) ? ggml_fill(c, h->mask, -1) : h->mask, ggml_tanh(c, some_rows(h, a, T / 2, first)), h->rows);
                t = ggml_soft_max_ext(c, a, m, 1, 0);
                break;
            }
            case 29: t = ggml_clamp(c, a, -2, 2); break;
            case 30: if (apart) { t = ggml_scale_inplace(c, ggml_add_inplace(c, ggml_tanh(c, a), b), 0.5f); } break;
            default: t = ggml_reshape_2d(c, ggml_cont(c, ggml_permute(c, ggml_reshape_3d(c, a, W / 4, 4, T), 0, 2, 1, 3)), W, T); break;
        }
        if (t == NULL) { continue; }
        expanded(h, t);
        if (odds(10)) { output(h, t); }
        pool[n++] = t;
    }
    output(h, pool[n - 1]);
}

static bool by_chance(const remote * r, const struct ggml_tensor * t) {
    if (t->op == GGML_OP_MAP_CUSTOM1 || t->op == GGML_OP_CUSTOM) { return false; }
    uint32_t x = r->seed ^ ((uint32_t) t->op * 64 + (t->op == GGML_OP_UNARY ? (uint32_t) ggml_get_unary_op(t) : 0)) * 2654435761u;
    x ^= x >> 15; x *= 0x85EBCA6Bu; x ^= x >> 13;
    return (int) (x % 100) < r->percent;
}

static uint64_t place_seed;
static bool     was_placed;

/* Places some nodes as a host would, if the backend computes them. No views: if no node writes into their memory, they
 * are read where the host has placed them, as with the original, although their memory is that of their base. */
static void place_some(ggml_backend_sched_t s, graph_t * h) {
    seed_state = place_seed;
    was_placed = odds(25);
    for (int k = 0; was_placed && k < 3; k++) {
        struct ggml_tensor * t = ggml_graph_node(h->g, (int) draw((uint32_t) ggml_graph_n_nodes(h->g)));
        ggml_backend_t b = ggml_backend_sched_get_backend(s, (int) draw((uint32_t) ggml_backend_sched_get_n_backends(s)));
        const bool is_view = t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_PERMUTE || t->op == GGML_OP_TRANSPOSE;
        if (!is_view && ggml_backend_supports_op(b, t)) { ggml_backend_sched_set_tensor_backend(s, t, b); }
    }
}

/* Returns 0: equal; 1: a placement of the host's that is impossible was refused; 2: wrong. */
static int one_seed(uint64_t seed) {
    seed_state = seed * 7919;
    ggml_backend_t bs[5], homes[4], cpu = ggml_backend_cpu_init();
    int  n = 0;
    bool exact = true;
    ggml_backend_cpu_set_n_threads(cpu, 1);
    for (int i = 0; i < REMOTES; i++) {
        remotes[i].seed = draw(1u << 30);
        remotes[i].percent = odds(30) ? 100 : 20 + (int) draw(80);
        if (i == 0 || odds(50)) { bs[n++] = &remotes[i].backend; }
    }
    if (rpc_backend != NULL && odds(50)) { bs[n++] = rpc_backend; }
    if (vulkan_backend != NULL && odds(40)) { bs[n++] = vulkan_backend; exact = false; }
    for (int i = n - 1; i > 0; i--) { /* in any order */
        const int k = (int) draw((uint32_t) i + 1);
        ggml_backend_t b = bs[i]; bs[i] = bs[k]; bs[k] = b;
    }
    bs[n++] = cpu;
    for (int i = 0; i < 4; i++) { homes[i] = bs[draw((uint32_t) n)]; }
    const struct ggml_tensor copies = { .op = GGML_OP_CPY }; /* a cache is where it can be written */
    while (!ggml_backend_supports_op(homes[3], &copies) && homes[3]->iface.get_name == remote_backend_name) { homes[3] = bs[draw((uint32_t) n)]; }
    const bool parallel = odds(30);
    place_seed = seed * 104729;
    was_placed = false;
    uint64_t graph_seed = seed * 15485863;
    const char * why = on_both(bs, n, homes, parallel, exact, build_random, &graph_seed, place_some);
    ggml_backend_free(cpu);
    if (why != NULL && was_placed && strcmp(why, "the allocation failed") == 0) { return 1; }
    if (why != NULL) { printf("seed %llu: %s\n", (unsigned long long) seed, why); }
    return why != NULL ? 2 : 0;
}

typedef struct { uint64_t first, end; int fd; } range_t;

/* Runs in a child, so that a signal ends only this range. The result of each seed goes through the pipe. */
static void some_seeds(void * arg);

/* ---- the server ---- */
static int free_port(void) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const bool good = bind(fd, (struct sockaddr *) &at, sizeof at) == 0 && getsockname(fd, (struct sockaddr *) &at, &size) == 0;
    close(fd);
    return good ? ntohs(at.sin_port) : 0;
}

static char endpoint[64];

static pid_t start_server(void) {
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", free_port());
    fflush(stdout);
    const pid_t server = fork();
    if (server == 0) {
        ggml_backend_dev_t dev = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
        if (freopen("/dev/null", "w", stdout) == NULL) { _exit(1); }
        ggml_backend_rpc_start_server(endpoint, NULL, 1, 1, &dev);
        _exit(1);
    }
    return server;
}

static bool wants(const char * what) {
    const char * with = getenv("WRITERS_WITH");
    return with != NULL && strstr(with, what) != NULL;
}

/* Opens the backends of a child. */
static void open_backends(void) {
    if (wants("rpc")) {
        for (int i = 0; i < 100 && rpc_backend == NULL; i++) {
            rpc_backend = ggml_backend_rpc_init(endpoint, 0);
            if (rpc_backend == NULL) { usleep(50000); }
        }
        if (rpc_backend == NULL) { printf("no server\n"); exit(3); }
    }
    if (wants("vulkan")) {
        ggml_backend_dev_t dev = ggml_backend_dev_by_name("Vulkan0");
        vulkan_backend = dev != NULL ? ggml_backend_dev_init(dev, NULL) : NULL;
        if (vulkan_backend == NULL) { printf("no Vulkan0\n"); exit(3); }
    }
}

static void some_seeds(void * arg) {
    const range_t * r = arg;
    alarm(0);
    open_backends();
    for (uint64_t seed = r->first; seed < r->end; seed++) {
        alarm(300);
        const char byte = (char) ('0' + one_seed(seed));
        fflush(stdout);
        if (write(r->fd, &byte, 1) != 1) { _exit(1); }
    }
}

static void cases_on(void * arg) {
    const char * on = arg;
    open_backends();
    ggml_backend_t device = strcmp(on, "rpc") == 0 ? rpc_backend : strcmp(on, "vulkan") == 0 ? vulkan_backend : remote_make(0, all_but_one);
    char suffix[40];
    snprintf(suffix, sizeof suffix, ", on %s", ggml_backend_name(device));
    for (int i = 0; i < (int) (sizeof cases / sizeof cases[0]); i++) { one_case(i, device, suffix, strcmp(on, "vulkan") != 0); }
    printf("in the child: %d failed\n", tests_failed);
    fflush(stdout);
    _exit(tests_failed > 0);
}

static void random_graphs(uint64_t first, int count) {
    int counts[3] = { 0 }, ended = 0;
    test_begin();
    for (uint64_t at = first; at < first + (uint64_t) count;) {
        int ends[2];
        if (pipe(ends) != 0) { test_fails(__FILE__, __LINE__, "no pipe"); break; }
        range_t range = { at, first + (uint64_t) count, ends[1] };
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            const struct rlimit no_core = { 0, 0 };
            setrlimit(RLIMIT_CORE, &no_core);
            close(ends[0]);
            if (getenv("WRITERS_LOG") == NULL) { ggml_log_set(child_quiet, NULL); }
            for (int i = 0; i < REMOTES; i++) { remote_make(i, by_chance); }
            some_seeds(&range);
            _exit(0);
        }
        close(ends[1]);
        char byte;
        while (read(ends[0], &byte, 1) == 1) {
            counts[byte - '0']++;
            at++;
        }
        close(ends[0]);
        int status = 0;
        waitpid(child, &status, 0);
        if (status != 0) {
            printf("seed %llu ended its process (status %d)\n", (unsigned long long) at, status);
            if (++ended > 20) { break; }
            at++;
        }
    }
    printf("%d equal, %d placements refused, %d wrong, %d processes ended\n", counts[0], counts[1], counts[2], ended);
    if (counts[2] > 0 || ended > 0) { test_fails(__FILE__, __LINE__, "%d wrong, %d processes ended", counts[2], ended); }
    if (counts[1] > count / 10 || counts[0] == 0) { test_fails(__FILE__, __LINE__, "%d equal, %d refused", counts[0], counts[1]); }
    test_end("random graphs are equal to the CPU alone");
}

int main(int argc, char ** argv) {
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    const int      count = argc > 2 ? atoi(argv[2]) : 300;
    const pid_t    server = wants("rpc") ? start_server() : 0;
    static char    own[] = "own", rpc[] = "rpc", vulkan[] = "vulkan";
    char *         kinds[] = { own, wants("rpc") ? rpc : NULL, wants("vulkan") ? vulkan : NULL };
    for (int i = 0; i < 3; i++) {
        if (kinds[i] == NULL) { continue; }
        char name[60];
        snprintf(name, sizeof name, "small graphs, device: %s", kinds[i]);
        test_begin();
        const int status = child_run(cases_on, kinds[i]);
        if (status != 0) { test_fails(__FILE__, __LINE__, "the child %s", child_verdict(status)); }
        test_end(name);
    }
    random_graphs(first, count);
    if (server > 0) { kill(server, SIGKILL); }
    return test_summary();
}
