/* A node that is its own source. Only ggml_cast makes one, whose second source is its result. Any other such node
 * cannot be computed, and the error names it. */
#include "../common/check.h"
#include "../common/child.h"
#include "../common/dump.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-rs.h"

/* All constructors, from the program that prints their results: here each result is computed. */
static int try_result(const struct ggml_tensor * result);
static int no_printf(const char * format, ...) {
    (void) format;
    return 0;
}
#define dump_context(stream, ctx)  (void) 0
#define dump_index(ctx, result)    try_result(result)
#define printf                     no_printf
#define main                       constructors_main
#include "../host/constructors.c"
#undef main
#undef printf
#undef a
#undef b
#undef d
#undef e
#undef f
#undef g
#undef h

static int n_tried, n_defects;

static void tried(struct ggml_tensor * node, int place, enum ggml_status status) {
    const char * said = ggml_rs_last_error();
    n_tried++;
    n_defects += strstr(said, "defect") != NULL;
    if (status != GGML_STATUS_FAILED || strstr(said, "selfish") == NULL || strstr(said, "own source") == NULL) {
        test_fails(__FILE__, __LINE__, "%s with itself as source %d: status %d, \"%s\"", ggml_op_desc(node), place, status, said);
    }
}

static int try_result(const struct ggml_tensor * result) {
    struct ggml_tensor * node = (struct ggml_tensor *) (uintptr_t) result;
    const bool custom = node->op == GGML_OP_CUSTOM || node->op == GGML_OP_MAP_CUSTOM1 || node->op == GGML_OP_MAP_CUSTOM2 || node->op == GGML_OP_MAP_CUSTOM3;
    const bool view   = node->op == GGML_OP_VIEW || node->op == GGML_OP_RESHAPE || node->op == GGML_OP_PERMUTE || node->op == GGML_OP_TRANSPOSE;
    if (view) { return 0; } /* nothing is computed, and so nothing read */
    /* A function of the host would have to check its arguments. */
    if (node->op == GGML_OP_NONE || custom || ggml_get_no_alloc(c)) { return 0; }
    for (struct ggml_tensor * t = ggml_get_first_tensor(c); t != NULL; t = ggml_get_next_tensor(c, t)) {
        if (t->data != NULL && t->view_src == NULL) { memset(t->data, 0, ggml_nbytes(t)); }
    }
    ggml_set_name(node, "selfish");
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        struct ggml_tensor * own = node->src[i];
        if (own == NULL || own == node || (node->op == GGML_OP_CPY && i == 1)) { continue; }
        node->src[i] = node;
        struct ggml_context * apart = ggml_init((struct ggml_init_params) { .mem_size = 1u << 22, .mem_buffer = NULL, .no_alloc = false });
        struct ggml_cgraph *  graph = ggml_new_graph_custom(apart, 64, false);
        ggml_build_forward_expand(graph, node);
        ggml_rs_clear_error();
        tried(node, i, ggml_graph_compute_with_ctx(apart, graph, 2));
        ggml_free(apart);
        node->src[i] = own;
    }
    return 0;
}

static void no_operation_reads_its_result(void) {
    ggml_log_set(child_quiet, NULL);
    CHECK_EQ(constructors_main(), 0);
    CHECK(n_tried > 500);
    if (n_defects != 0) { test_fails(__FILE__, __LINE__, "%d of %d end in a defect of the library", n_defects, n_tried); }
    ggml_log_set(NULL, NULL);
}

struct selfish {
    struct ggml_context * ctx;
    struct ggml_tensor *  x, *node, *result;
    struct ggml_cgraph *  graph;
};

static struct selfish selfish(void) {
    struct selfish s;
    s.ctx = ggml_init((struct ggml_init_params) { .mem_size = 1u << 18, .mem_buffer = NULL, .no_alloc = true });
    s.x   = ggml_new_tensor_1d(s.ctx, GGML_TYPE_F32, 8);
    ggml_set_input(s.x);
    s.node         = ggml_set_name(ggml_add(s.ctx, s.x, s.x), "selfish");
    s.node->src[1] = s.node;
    s.result       = ggml_sqr(s.ctx, s.node);
    s.graph        = ggml_new_graph(s.ctx);
    ggml_build_forward_expand(s.graph, s.result);
    ggml_rs_clear_error();
    return s;
}

static bool named(void) {
    return strstr(ggml_rs_last_error(), "selfish") != NULL && strstr(ggml_rs_last_error(), "own source") != NULL;
}

static void nothing_allocates_it(void) {
    ggml_log_set(child_quiet, NULL);
    ggml_backend_t backend = ggml_backend_cpu_init();
    struct selfish s       = selfish();
    ggml_gallocr_t galloc  = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(!ggml_gallocr_reserve(galloc, s.graph) && named());
    ggml_rs_clear_error();
    CHECK(!ggml_gallocr_alloc_graph(galloc, s.graph) && named());
    ggml_gallocr_free(galloc);
    ggml_free(s.ctx);
    s = selfish();
    ggml_backend_sched_t sched = ggml_backend_sched_new(&backend, NULL, 1, 64, false, false);
    CHECK(!ggml_backend_sched_reserve(sched, s.graph) && named());
    ggml_rs_clear_error();
    CHECK_EQ(ggml_backend_sched_graph_compute(sched, s.graph), GGML_STATUS_FAILED);
    CHECK(named());
    ggml_free(s.ctx);
    /* the scheduler goes on, with a graph in which a result may be its own source */
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) { .mem_size = 1u << 18, .mem_buffer = NULL, .no_alloc = true });
    struct ggml_tensor *  x   = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8);
    ggml_set_input(x);
    struct ggml_tensor * y = ggml_cast(ctx, ggml_cast(ctx, x, GGML_TYPE_F16), GGML_TYPE_F32);
    ggml_set_output(y);
    CHECK(y->src[1] == y);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    ggml_backend_sched_reset(sched);
    CHECK(ggml_backend_sched_alloc_graph(sched, graph));
    const float in_x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    float       out[8]  = { 0 };
    ggml_backend_tensor_set(x, in_x, 0, sizeof in_x);
    CHECK_EQ(ggml_backend_sched_graph_compute(sched, graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(y, out, 0, sizeof out);
    CHECK(memcmp(in_x, out, sizeof out) == 0);
    struct ggml_backend_graph_copy copy = ggml_backend_graph_copy(backend, graph);
    CHECK(copy.graph != NULL);
    ggml_backend_graph_copy_free(copy);
    ggml_backend_sched_free(sched);
    ggml_backend_free(backend);
    ggml_free(ctx);
    ggml_log_set(NULL, NULL);
}

int main(void) {
    RUN(no_operation_reads_its_result);
    RUN(nothing_allocates_it);
    return test_summary();
}
