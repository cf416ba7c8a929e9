/* Names of GGML_MAX_NAME - 1 bytes through tensors, graphs, the scheduler with two devices, and GGUF files. Compiled
 * with the same GGML_MAX_NAME as the library, whatever it is: scripts/test_max_name.sh.
 *   long_names FILE     writes FILE and reads it */
#define ACCEL_STATIC
#include "../common/check.h"
#include "../plugin/accel.c"

#include "ggml-alloc.h"
#include "ggml-cpu.h"
#include "gguf.h"

static const char *file;

/* A name of `n` bytes that begins with `start` and ends with `end`: no two differ in the middle alone. */
static const char *name_of(size_t n, const char *start, char end) {
    static char names[8][4 * GGML_MAX_NAME];
    static int  next;
    char *      name = names[next++ % 8];
    memset(name, 'n', n);
    memcpy(name, start, strlen(start));
    name[n - 1] = end;
    name[n]     = '\0';
    return name;
}
#define LONGEST (GGML_MAX_NAME - 1)

static struct ggml_context *context(void) {
    const struct ggml_init_params params = { .mem_size = 1u << 20, .mem_buffer = NULL, .no_alloc = true };
    return ggml_init(params);
}

static void layout(void) {
    CHECK_EQ(sizeof(((struct ggml_tensor *) 0)->name), GGML_MAX_NAME);
    CHECK_EQ(sizeof(struct ggml_tensor), 272 + GGML_MAX_NAME);
    /* The size of the struct in the library. */
    struct ggml_context *c = context();
    CHECK_EQ(ggml_used_mem(c), 0);
    ggml_new_tensor_1d(c, GGML_TYPE_F32, 1);
    CHECK_EQ(ggml_used_mem(c), ggml_tensor_overhead());
    CHECK_EQ(ggml_tensor_overhead(), sizeof(struct ggml_tensor) + 32);
    ggml_free(c);
}

static void tensors(void) {
    struct ggml_context *c = context();
    struct ggml_tensor * a = ggml_new_tensor_2d(c, GGML_TYPE_F32, 4, 3), *b = ggml_new_tensor_1d(c, GGML_TYPE_I32, 5);
    a->extra         = (void *) file;
    const char *name = name_of(LONGEST, "a", 'z');
    CHECK(ggml_set_name(a, name) == a);
    CHECK_STR(ggml_get_name(a), name);
    CHECK_STR(a->name, name);
    CHECK(ggml_get_tensor(c, name) == a && ggml_get_tensor(c, name_of(LONGEST, "a", 'y')) == NULL);
    CHECK(a->extra == (void *) file && b->type == GGML_TYPE_I32 && b->ne[0] == 5);
    /* All functions that set a name cut longer ones. */
    ggml_set_name(b, name_of(3 * GGML_MAX_NAME, "b", 'z'));
    CHECK_EQ(strlen(b->name), LONGEST);
    CHECK(a->extra == (void *) file);
    ggml_format_name(b, "%d %s", 7, name_of(2 * GGML_MAX_NAME, "b", 'z'));
    CHECK(strncmp(b->name, "7 bnnn", 6) == 0 && strlen(b->name) == LONGEST && b->extra == NULL);
    /* Names that are made from names. */
    struct ggml_tensor *view = ggml_view_1d(c, a, 2, 0);
    CHECK(strncmp(view->name, name, LONGEST) == 0 && strlen(view->name) == LONGEST);
    ggml_set_name(a, name_of(LONGEST - 7, "a", 'z'));
    view = ggml_view_1d(c, a, 2, 0);
    CHECK_EQ(strlen(view->name), LONGEST);
    CHECK_STR(view->name + LONGEST - 7, " (view)");
    ggml_free(c);
}

static void graphs_and_the_scheduler(void) {
    ggml_backend_t backends[2] = { ggml_backend_dev_init(the_device(), NULL), ggml_backend_cpu_init() };
    CHECK(backends[0] != NULL && backends[1] != NULL);
    struct ggml_context *weights = context(), *c = context();
    struct ggml_tensor * w = ggml_new_tensor_2d(weights, GGML_TYPE_F32, 4, 4);
    ggml_set_name(w, name_of(LONGEST, "w", '0'));
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(weights, backends[0]);
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    float values[16];
    for (int i = 0; i < 16; i++) { values[i] = i % 5 == 0 ? 2.0f : 0.0f; } /* twice the unit matrix */
    ggml_backend_tensor_set(w, values, 0, sizeof values);

    struct ggml_cgraph *graph = ggml_new_graph(c);
    struct ggml_tensor *x     = ggml_new_tensor_1d(c, GGML_TYPE_F32, 4), *y = x;
    ggml_set_name(x, name_of(LONGEST, "x", '0'));
    ggml_set_input(x);
    for (int i = 0; i < 6; i++) { /* the device multiplies, the CPU does what the device cannot */
        y = ggml_mul_mat(c, w, y);
        ggml_set_name(y, name_of(LONGEST, "product", (char) ('0' + i)));
        y = ggml_sqrt(c, ggml_sqr(c, y));
        ggml_set_name(y, name_of(LONGEST, "root", (char) ('0' + i)));
    }
    ggml_set_output(y);
    ggml_build_forward_expand(graph, y);
    CHECK(ggml_graph_get_tensor(graph, name_of(LONGEST, "root", '5')) == y);
    CHECK(ggml_graph_get_tensor(graph, name_of(LONGEST, "root", '6')) == NULL);
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 2, 256, false, true);
    CHECK(ggml_backend_sched_alloc_graph(sched, graph));
    CHECK_EQ(ggml_backend_sched_get_n_splits(sched), 12);
    const float in[4] = { 1, 2, 3, 4 };
    float       out[4];
    for (int run = 0; run < 2; run++) {
        ggml_backend_tensor_set(x, in, 0, sizeof in);
        CHECK_EQ(ggml_backend_sched_graph_compute(sched, graph), GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get(y, out, 0, sizeof out);
        for (int i = 0; i < 4; i++) { CHECK(out[i] == 64 * in[i]); }
    }
    CHECK_STR(x->name, name_of(LONGEST, "x", '0'));
    CHECK_STR(y->name, name_of(LONGEST, "root", '5'));
    /* A copy of the graph keeps the names. */
    struct ggml_backend_graph_copy copy = ggml_backend_graph_copy(backends[1], graph);
    CHECK(copy.graph != NULL && ggml_graph_get_tensor(copy.graph, name_of(LONGEST, "product", '3')) != NULL);
    ggml_backend_graph_copy_free(copy);
    ggml_backend_sched_free(sched);
    ggml_backend_buffer_free(buffer);
    ggml_free(weights);
    ggml_free(c);
    ggml_backend_free(backends[0]);
    ggml_backend_free(backends[1]);
}

static void files(void) {
    const struct ggml_init_params params = { .mem_size = 1u << 20, .mem_buffer = NULL, .no_alloc = false };
    struct ggml_context *         c      = ggml_init(params);
    struct gguf_context *         g      = gguf_init_empty();
    for (int i = 0; i < 3; i++) {
        struct ggml_tensor *t = ggml_new_tensor_1d(c, GGML_TYPE_F32, 3 + i);
        ggml_set_name(t, name_of(LONGEST, "tensor", (char) ('0' + i)));
        for (int j = 0; j < 3 + i; j++) { ((float *) t->data)[j] = (float) (10 * i + j); }
        gguf_add_tensor(g, t);
    }
    CHECK(gguf_write_to_file(g, file, false));
    gguf_free(g);
    ggml_free(c);
    struct gguf_init_params all = { .no_alloc = false, .ctx = &c };
    g                           = gguf_init_from_file(file, all);
    CHECK(g != NULL);
    if (g == NULL) { return; }
    CHECK_EQ(gguf_get_n_tensors(g), 3);
    for (int i = 0; i < 3; i++) {
        const char *name = name_of(LONGEST, "tensor", (char) ('0' + i));
        CHECK_STR(gguf_get_tensor_name(g, i), name);
        CHECK_EQ(gguf_find_tensor(g, name), i);
        const struct ggml_tensor *t = ggml_get_tensor(c, name);
        CHECK(t != NULL && t->ne[0] == 3 + i && ((const float *) t->data)[2 + i] == (float) (11 * i + 2));
    }
    gguf_free(g);
    ggml_free(c);
}

int main(int argc, char **argv) {
    if (argc != 2) { return 2; }
    file = argv[1];
    RUN(layout);
    RUN(tensors);
    RUN(graphs_and_the_scheduler);
    RUN(files);
    return test_summary();
}
