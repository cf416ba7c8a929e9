/* The cost of the library's threads: how many are woken, when they end, and what happens while other programs use the
 * processors. */
#include "../common/check.h"
#include "../common/child.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <dirent.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static int tasks(void) {
    DIR * list = opendir("/proc/self/task");
    int   n    = -2;
    while (list != NULL && readdir(list) != NULL) { n++; }
    if (list != NULL) { closedir(list); }
    return n;
}

/* a chain of products with one column */
struct chain {
    ggml_backend_t        backend;
    struct ggml_context * ctx;
    ggml_backend_buffer_t buffer;
    struct ggml_cgraph *  graph;
};

static struct chain chain_new(int rows, int length) {
    struct chain it = { .backend = ggml_backend_cpu_init() };
    it.ctx = ggml_init((struct ggml_init_params) { .mem_size = 4u << 20, .mem_buffer = NULL, .no_alloc = true });
    struct ggml_tensor * w = ggml_new_tensor_2d(it.ctx, GGML_TYPE_F32, rows, rows);
    struct ggml_tensor * y = ggml_new_tensor_2d(it.ctx, GGML_TYPE_F32, rows, 1);
    for (int i = 0; i < length; i++) { y = ggml_rms_norm(it.ctx, ggml_mul_mat(it.ctx, w, y), 1e-5f); }
    it.graph = ggml_new_graph(it.ctx);
    ggml_build_forward_expand(it.graph, y);
    it.buffer = ggml_backend_alloc_ctx_tensors(it.ctx, it.backend);
    ggml_backend_buffer_clear(it.buffer, 0);
    return it;
}

static void chain_free(struct chain * it) {
    ggml_backend_buffer_free(it->buffer);
    ggml_free(it->ctx);
    ggml_backend_free(it->backend);
}

static double compute(struct chain * it, int threads) {
    ggml_backend_cpu_set_n_threads(it->backend, threads);
    const double begun = now();
    CHECK_EQ(ggml_backend_graph_compute(it->backend, it->graph), GGML_STATUS_SUCCESS);
    return now() - begun;
}

static int ascending(const void * a, const void * b) {
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* Voluntary context switches of the process, for each of 300 graphs with two threads, which sleep between graphs. */
static double switches(struct chain * it) {
    struct rusage before, after;
    double        most[3];
    for (int k = 0; k < 3; k++) {
        getrusage(RUSAGE_SELF, &before);
        for (int i = 0; i < 100; i++) {
            compute(it, 2);
            usleep(2000);
        }
        getrusage(RUSAGE_SELF, &after);
        most[k] = (double) (after.ru_nvcsw - before.ru_nvcsw) / 100;
    }
    qsort(most, 3, sizeof *most, ascending);
    return most[1];
}

/* In a process without pools, after a graph with so many threads. */
static void switch_after(void * threads) {
    struct chain it = chain_new(256, 1);
    if (*(int *) threads > 0) { compute(&it, *(int *) threads); }
    const double n = switches(&it);
    _exit(n < 200 ? (int) n : 200);
}

static void a_graph_wakes_the_threads_that_it_has(void) {
    const int alone = child_run(switch_after, &(int) { 0 }), beside = child_run(switch_after, &(int) { 64 });
    CHECK(alone >= 0 && beside >= 0);
    if (beside > alone + 4) { test_fails(__FILE__, __LINE__, "%d context switches a graph, %d without the other threads", beside, alone); }
}

static void threads_of_spare_pools_end(void) {
    static const int counts[] = { 2, 4, 8, 16, 32, 64, 128, 256, 512, 100, 2 };
    struct chain it = chain_new(4096, 1);
    int most = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        compute(&it, counts[i]);
        most = tasks() > most ? tasks() : most;
    }
    if (most <= 500) { test_fails(__FILE__, __LINE__, "%d threads at most", most); }
    /* Threads that are used stay. */
    const double begun = now();
    while (now() - begun < 5) {
        compute(&it, 2);
        usleep(20000);
    }
    CHECK(tasks() <= 8);
    for (int i = 0; i < 20; i++) { compute(&it, i % 2 ? 40 : 3); }
    CHECK(tasks() >= 40);
    chain_free(&it);
    for (int i = 0; i < 100 && tasks() > 1; i++) { usleep(50000); }
    CHECK_EQ(tasks(), 1);
    /* After all have ended, new ones start. */
    it = chain_new(4096, 1);
    compute(&it, 5);
    CHECK_EQ(tasks(), 5);
    chain_free(&it);
}

/* The threads of a host's pool stay as long as the pool. */
static void threads_of_a_pool_stay(void) {
    for (int i = 0; i < 100 && tasks() > 1; i++) { usleep(50000); }
    struct ggml_threadpool_params params = ggml_threadpool_params_default(6);
    ggml_threadpool_t             pool   = ggml_threadpool_new(&params);
    struct chain it = chain_new(256, 1);
    ggml_backend_cpu_set_threadpool(it.backend, pool);
    compute(&it, 6);
    sleep(3);
    CHECK_EQ(tasks(), 6);
    compute(&it, 6);
    chain_free(&it);
    ggml_threadpool_free(pool);
    CHECK_EQ(tasks(), 1);
}

enum { GRAPHS = 200 };

static double median(struct chain * it, int threads) {
    double times[GRAPHS];
    for (int i = 0; i < GRAPHS; i++) { times[i] = compute(it, threads); }
    qsort(times, GRAPHS, sizeof *times, ascending);
    return times[GRAPHS / 2];
}

/* Beside n busy processes, n threads may take at most 1.5 times as long as one. Takes the best of several rounds,
 * because the machine may have other work, too. */
static void threads_beside_busy_processes(void) {
    const int n = sysconf(_SC_NPROCESSORS_ONLN) < 4 ? 2 : 4;
    pid_t     busy[8];
    const int n_busy = (int) sysconf(_SC_NPROCESSORS_ONLN) < 8 ? (int) sysconf(_SC_NPROCESSORS_ONLN) : 8;
    for (int i = 0; i < n_busy; i++) {
        busy[i] = fork();
        if (busy[i] == 0) {
            alarm(120);
            for (volatile unsigned k = 0;; k++) {}
        }
    }
    for (int rows = 256; rows <= 1024; rows *= 4) {
        struct chain it = chain_new(rows, 8);
        double best = 1e9;
        for (int round = 0; round < 6 && best > 1.5; round++) {
            const double one = median(&it, 1), several = median(&it, n);
            if (several / one < best) { best = several / one; }
        }
        printf("note: %d rows, %d threads beside %d busy processes: %.2f times as long as one thread\n", rows, n, n_busy, best);
        if (best > 1.5) { test_fails(__FILE__, __LINE__, "%d rows: %.2f times as long as with one thread", rows, best); }
        chain_free(&it);
    }
    for (int i = 0; i < n_busy; i++) {
        kill(busy[i], SIGKILL);
        waitpid(busy[i], NULL, 0);
    }
}

/* In a process of its own, because the variable is read once. The other tests count threads, which a busy machine would
 * change. */
static void beside_busy_processes(void) {
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        unsetenv("GGML_RS_DEBUG");
        threads_beside_busy_processes();
        fflush(stdout);
        _exit(test_why[0] != '\0');
    }
    int status = 1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void) {
    setenv("GGML_RS_DEBUG", "threads=all", 1);
    RUN(beside_busy_processes); /* first: no thread but this one */
    RUN(threads_of_spare_pools_end); /* first: the process has one thread */
    RUN(threads_of_a_pool_stay);
    RUN(a_graph_wakes_the_threads_that_it_has);
    return test_summary();
}
