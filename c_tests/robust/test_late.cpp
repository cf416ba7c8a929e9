/* Graphs that are built, allocated and computed by destructors: of thread-local and of static objects, and by functions
 * of atexit. Also the state of a graph or a scheduler after a void function has failed. */
#include "../common/check.h"
#include "../common/child.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-rs.h"

#include <thread>
#include <vector>

namespace {

ggml_context * context(bool no_alloc) {
    return ggml_init({ /*.mem_size =*/ 1u << 20, /*.mem_buffer =*/ nullptr, /*.no_alloc =*/ no_alloc });
}

/* x * x + x for x = 3, with nodes of its own */
ggml_tensor * formula(ggml_context * c, ggml_tensor * x) {
    return ggml_add(c, ggml_sqr(c, x), x);
}

float without_a_backend() {
    ggml_context * c = context(false);
    ggml_tensor *  x = ggml_new_tensor_1d(c, GGML_TYPE_F32, 1000);
    for (int i = 0; i < 1000; i++) { ((float *) x->data)[i] = 3.0f; }
    ggml_tensor * y = formula(c, x);
    memset(y->data, 0, ggml_nbytes(y));
    ggml_cgraph * g = ggml_new_graph(c);
    ggml_build_forward_expand(g, y);
    const bool  done   = ggml_graph_compute_with_ctx(c, g, 2) == GGML_STATUS_SUCCESS;
    const float result = ((float *) y->data)[999];
    ggml_free(c);
    return done ? result : -1.0f;
}

float with_a_scheduler() {
    ggml_backend_t       backend = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr);
    ggml_backend_sched_t sched   = ggml_backend_sched_new(&backend, nullptr, 1, 64, false, false);
    ggml_context *       c       = context(true);
    ggml_tensor *        x       = ggml_new_tensor_1d(c, GGML_TYPE_F32, 1000);
    ggml_set_input(x);
    ggml_tensor * y = formula(c, x);
    ggml_set_output(y);
    ggml_cgraph * g = ggml_new_graph(c);
    ggml_build_forward_expand(g, y);
    float result = -1.0f;
    if (ggml_backend_sched_alloc_graph(sched, g)) {
        const std::vector<float> threes(1000, 3.0f);
        ggml_backend_tensor_set(x, threes.data(), 0, ggml_nbytes(x));
        if (ggml_backend_sched_graph_compute(sched, g) == GGML_STATUS_SUCCESS) { ggml_backend_tensor_get(y, &result, 999 * sizeof(float), sizeof result); }
    }
    ggml_backend_sched_free(sched);
    ggml_backend_free(backend);
    ggml_free(c);
    return result;
}

float quantized() {
    std::vector<float>   x(256 * 64, 3.0f), y(256 * 64);
    std::vector<uint8_t> q(ggml_row_size(GGML_TYPE_Q8_0, (int64_t) x.size()));
    if (ggml_quantize_chunk(GGML_TYPE_Q8_0, x.data(), q.data(), 0, 64, 256, nullptr) != q.size()) { return -1.0f; }
    ggml_get_type_traits(GGML_TYPE_Q8_0)->to_float(q.data(), y.data(), (int64_t) y.size());
    return y[1234];
}

/* Returns 0, or the number of the step that went wrong. */
int all_of_it() {
    if (without_a_backend() != 12.0f) { return 1; }
    if (with_a_scheduler() != 12.0f) { return 2; }
    if (quantized() < 2.9f || quantized() > 3.1f) { return 3; }
    return 0;
}

int seen = 99;

struct at_the_end {
    bool leaves = false;
    ~at_the_end() {
        seen = all_of_it();
        if (leaves) { _exit(seen); }
    }
};

/* An object is made before the library is used on its thread, so that it is destroyed after the library's
 * thread-locals. */
void in_a_thread_local(void *) {
    std::thread([] {
        thread_local at_the_end object;
        (void) &object;
        if (all_of_it() != 0) { _exit(50); }
    }).join();
    _exit(seen);
}

#ifndef _WIN32 // there the process has its status before such an object is destroyed
void in_the_main_thread_local(void *) {
    thread_local at_the_end object;
    object.leaves = true;
    if (all_of_it() != 0) { _exit(50); }
    exit(98);
}
#endif

void in_a_static(void *) {
    static at_the_end object;
    object.leaves = true;
    if (all_of_it() != 0) { _exit(50); }
    exit(98);
}

void handler() {
    _exit(all_of_it());
}

void in_atexit(void *) {
    atexit(handler);
    if (all_of_it() != 0) { _exit(50); }
    exit(98);
}

void in_atexit_for_the_first_time(void *) {
    atexit(handler);
    exit(98);
}

void destructors_compute() {
    CHECK_EQ(child_run(in_a_thread_local, nullptr), 0);
#ifndef _WIN32
    CHECK_EQ(child_run(in_the_main_thread_local, nullptr), 0);
#endif
    CHECK_EQ(child_run(in_a_static, nullptr), 0);
    CHECK_EQ(child_run(in_atexit, nullptr), 0);
    CHECK_EQ(child_run(in_atexit_for_the_first_time, nullptr), 0);
}

/* A graph for fewer nodes than the result needs: ggml_build_forward_expand fails, and cannot say so. */
struct incomplete {
    ggml_context * c;
    ggml_tensor *  x, *y;
    ggml_cgraph *  g;
};

incomplete begin() {
    incomplete it;
    it.c = context(false);
    it.x = ggml_new_tensor_1d(it.c, GGML_TYPE_F32, 4);
    it.y = it.x;
    for (int i = 0; i < 5; i++) { it.y = ggml_scale(it.c, it.y, 2.0f); }
    for (int i = 0; i < 4; i++) { ((float *) it.x->data)[i] = 1.0f; }
    it.g = ggml_new_graph_custom(it.c, 5, false);
    ggml_build_forward_expand(it.g, it.y);
    ggml_tensor * more = ggml_scale(it.c, it.y, 2.0f);
    ggml_build_forward_expand(it.g, more);
    return it;
}

void a_graph_that_lacks_nodes_is_not_computed() {
    ggml_log_set(child_quiet, nullptr);
    ggml_rs_set_policy(GGML_RS_POLICY_ERROR);
    incomplete it = begin();
    CHECK(ggml_graph_n_nodes(it.g) == 5);
    CHECK_EQ(ggml_graph_compute_with_ctx(it.c, it.g, 1), GGML_STATUS_FAILED);
    CHECK(strstr(ggml_rs_last_error(), "incomplete") != nullptr);
    ggml_backend_t backend = ggml_backend_cpu_init();
    CHECK_EQ(ggml_backend_graph_compute(backend, it.g), GGML_STATUS_FAILED);
    CHECK_EQ(ggml_backend_graph_compute_async(backend, it.g), GGML_STATUS_FAILED);
    CHECK(ggml_backend_graph_plan_create(backend, it.g) == nullptr);
    ggml_cgraph * copy = ggml_graph_dup(it.c, it.g, false);
    CHECK_EQ(ggml_graph_compute_with_ctx(it.c, copy, 1), GGML_STATUS_FAILED);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(!ggml_gallocr_reserve(galloc, it.g) && !ggml_gallocr_alloc_graph(galloc, it.g));
    ggml_gallocr_free(galloc);
    ggml_backend_sched_t sched = ggml_backend_sched_new(&backend, nullptr, 1, 64, false, false);
    CHECK(!ggml_backend_sched_reserve(sched, it.g) && !ggml_backend_sched_alloc_graph(sched, it.g));
    CHECK_EQ(ggml_backend_sched_graph_compute(sched, it.g), GGML_STATUS_FAILED);
    ggml_backend_sched_free(sched);
    ggml_backend_free(backend);
    /* More nodes do not make it complete. An empty graph lacks nothing. */
    ggml_build_forward_expand(it.g, it.x);
    CHECK_EQ(ggml_graph_compute_with_ctx(it.c, it.g, 1), GGML_STATUS_FAILED);
    ggml_graph_clear(it.g);
    ggml_build_forward_expand(it.g, it.y);
    CHECK_EQ(ggml_graph_compute_with_ctx(it.c, it.g, 1), GGML_STATUS_SUCCESS);
    CHECK_EQ(((float *) it.y->data)[3], 32);
    ggml_graph_add_node(it.g, it.y);
    CHECK_EQ(ggml_graph_compute_with_ctx(it.c, it.g, 1), GGML_STATUS_FAILED);
    ggml_free(it.c);
    ggml_rs_set_policy(GGML_RS_POLICY_ABORT);
    ggml_log_set(nullptr, nullptr);
}

/* Without its sinks, a softmax would be wrong, and no call would report it. */
void a_node_that_lacks_a_change_is_not_computed() {
    ggml_log_set(child_quiet, nullptr);
    ggml_rs_set_policy(GGML_RS_POLICY_ERROR);
    ggml_context * c = context(false);
    ggml_tensor *  x = ggml_set_zero(ggml_new_tensor_2d(c, GGML_TYPE_F32, 8, 4));
    ggml_tensor *  y = ggml_soft_max_ext(c, x, nullptr, 1.0f, 0.0f);
    ggml_cgraph *  g = ggml_new_graph(c);
    ggml_build_forward_expand(g, y);
    CHECK_EQ(ggml_graph_compute_with_ctx(c, g, 1), GGML_STATUS_SUCCESS);
    ggml_soft_max_add_sinks(y, ggml_new_tensor_1d(c, GGML_TYPE_I32, 3)); /* neither the type nor the number of heads */
    CHECK_EQ(ggml_graph_compute_with_ctx(c, g, 1), GGML_STATUS_FAILED);
    ggml_free(c);
    ggml_rs_set_policy(GGML_RS_POLICY_ABORT);
    ggml_log_set(nullptr, nullptr);
}

} // namespace

int main() {
    RUN(a_node_that_lacks_a_change_is_not_computed);
    RUN(destructors_compute);
    RUN(a_graph_that_lacks_nodes_is_not_computed);
    return test_summary();
}
