/* Custom operations with deep stacks: every thread has as large a stack as a thread that the host starts. */
#include "../common/check.h"
#include "../common/child.h"

#include "ggml-cpu.h"

#include <pthread.h>

static size_t depth;

static __attribute__((noinline)) int use(size_t bytes) {
    volatile char * stack = __builtin_alloca(bytes);
    int sum = 0;
    for (size_t i = 0; i < bytes; i += 4096) {
        stack[i] = 1;
        sum += stack[i];
    }
    return sum;
}

static void deep(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * user) {
    (void) a; (void) user;
    const int pages = use(depth);
    for (int64_t i = ith; i < ggml_nelements(dst); i += nth) { ((float *) dst->data)[i] = (float) pages; }
}

static void compute(void * unused) {
    (void) unused;
    struct ggml_context * c = ggml_init((struct ggml_init_params) { .mem_size = 1u << 20, .mem_buffer = NULL, .no_alloc = false });
    struct ggml_tensor *  x = ggml_set_zero(ggml_new_tensor_1d(c, GGML_TYPE_F32, 64));
    struct ggml_tensor *  y = ggml_map_custom1(c, x, deep, GGML_N_TASKS_MAX, NULL);
    struct ggml_cgraph *  g = ggml_new_graph(c);
    ggml_build_forward_expand(g, y);
    if (ggml_graph_compute_with_ctx(c, g, 4) != GGML_STATUS_SUCCESS) { _exit(2); }
    for (int i = 0; i < 64; i++) {
        if (((float *) y->data)[i] != (float) (depth / 4096)) { _exit(3); }
    }
    ggml_free(c);
}

/* On a thread of the host, this depth is possible. */
static void * own(void * unused) {
    use(depth);
    return unused;
}

static void on_a_thread_of_the_host(void * unused) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, own, unused) != 0 || pthread_join(thread, NULL) != 0) { _exit(2); }
}

static void stacks(void) {
    CHECK_EQ(child_run(on_a_thread_of_the_host, NULL), 0);
    CHECK_EQ(child_run(compute, NULL), 0);
}

static void six_mebibytes(void) {
    depth = 6u << 20;
    stacks();
}

static void what_the_limit_allows(void) {
    depth = 40u << 20;
    stacks();
}

int main(int argc, char ** argv) {
    (void) argc;
    /* Threads get the limit that the process has had at its start. */
    const struct rlimit stack = { 64u << 20, 64u << 20 };
    struct rlimit       now;
    if (getenv("STACKS_LIMITED") == NULL && getrlimit(RLIMIT_STACK, &now) == 0 && (now.rlim_max == RLIM_INFINITY || now.rlim_max >= stack.rlim_max)) {
        setenv("STACKS_LIMITED", "1", 1);
        setrlimit(RLIMIT_STACK, &stack);
        execv("/proc/self/exe", argv);
    }
    RUN(six_mebibytes);
    if (getrlimit(RLIMIT_STACK, &now) == 0 && now.rlim_cur == stack.rlim_cur) { RUN(what_the_limit_allows); }
    return test_summary();
}
