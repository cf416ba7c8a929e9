/* The process runs out of memory: the k-th allocation of at least LEAST bytes fails, for every k, while a scheduler is
 * made, reserves, allocates and computes. The call reports the failure or does without the memory, nothing leaks, and
 * the next call works.
 *
 *   test_heap [LEAST]
 *
 * Replaces the allocator of the process, so this program is not for AddressSanitizer or valgrind. */
#include "common.h"
#include "ggml-rs.h"

#include <errno.h>
#include <stddef.h>
#include <sys/wait.h>

void * __libc_malloc(size_t n);
void * __libc_calloc(size_t n, size_t size);
void * __libc_realloc(void * p, size_t n);
void * __libc_memalign(size_t alignment, size_t n);
void   __libc_free(void * p);

static size_t least = 256 * 1024; /* above what the bookkeeping of this graph takes: see docs/TESTS.md */
static long   countdown;          /* allocations until one fails; 0: none does */
static long   live;               /* blocks that are not freed */
static size_t failed_bytes;

static bool refuse(size_t n) {
    if (n < least || __atomic_load_n(&countdown, __ATOMIC_RELAXED) == 0 || __atomic_sub_fetch(&countdown, 1, __ATOMIC_RELAXED) != 0) return false;
    failed_bytes = n;
    errno = ENOMEM;
    return true;
}
static void * counted(void * p) {
    if (p != NULL) __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
    return p;
}
void * malloc(size_t n) { return refuse(n) ? NULL : counted(__libc_malloc(n)); }
void * calloc(size_t n, size_t size) { return refuse(n * size) ? NULL : counted(__libc_calloc(n, size)); }
void * realloc(void * p, size_t n) {
    if (refuse(n)) return NULL;
    void * q = __libc_realloc(p, n);
    if (p == NULL) counted(q);
    else if (n == 0 && q == NULL) __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    return q;
}
void * memalign(size_t alignment, size_t n) { return refuse(n) ? NULL : counted(__libc_memalign(alignment, n)); }
void * aligned_alloc(size_t alignment, size_t n) { return memalign(alignment, n); }
int posix_memalign(void ** p, size_t alignment, size_t n) {
    void * q = memalign(alignment, n);
    if (q == NULL) return ENOMEM;
    *p = q;
    return 0;
}
void free(void * p) {
    if (p != NULL) __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    __libc_free(p);
}

enum stage { NEW, RESERVE, ALLOC, ALLOC_AND_COMPUTE, COMPUTE, STAGES };
static const char * const stage_names[] = { "new", "reserve", "alloc", "alloc and compute", "compute" };

enum { NODES = 60, WIDTH = 2048, ROWS = 256 };

static struct ggml_cgraph * large(struct ggml_context * ctx, struct ggml_tensor ** x, struct ggml_tensor ** y) {
    struct ggml_cgraph * g = ggml_new_graph_custom(ctx, 2 * NODES, false);
    *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, ROWS);
    ggml_set_input(*x);
    *y = *x;
    for (int i = 0; i < NODES / 2; i++) *y = ggml_scale(ctx, ggml_add(ctx, *y, *x), 0.5f);
    *y = ggml_mul_mat(ctx, ggml_cast(ctx, *x, GGML_TYPE_Q8_0), *y); /* needs scratch memory */
    ggml_set_output(*y);
    ggml_build_forward_expand(g, *y);
    return g;
}

static void place(ggml_backend_sched_t s, struct ggml_cgraph * g) {
    for (int i = 0; i < ggml_graph_n_nodes(g); i++) ggml_backend_sched_set_tensor_backend(s, ggml_graph_node(g, i), backends[i / 16 % 2]);
}

static bool arm(enum stage now, enum stage stage, long k) {
    __atomic_store_n(&countdown, now == stage ? k : 0, __ATOMIC_RELAXED);
    return now == stage;
}

/* The work once, the k-th allocation of the stage failing (k 0: none) -> whether every call succeeded. */
static bool work(enum stage stage, long k) {
    static float data[WIDTH * ROWS];
    struct ggml_context * ctx = new_ctx(ggml_tensor_overhead() * 4 * NODES + 2 * ggml_graph_overhead_custom(2 * NODES, false));
    arm(NEW, stage, k);
    ggml_backend_sched_t s = ggml_backend_sched_new(backends, NULL, 2, NODES, true, false);
    arm(NEW, stage, 0);
    if (s == NULL) { ggml_free(ctx); return false; }
    bool ok = true;
    struct ggml_tensor * x, * y;
    for (int attempt = 0; attempt < 2; attempt++) {
        const long count = attempt == 0 ? k : 0;
        ggml_backend_sched_reset(s);
        ggml_reset(ctx);
        struct ggml_cgraph * g = large(ctx, &x, &y);
        place(s, g);
        arm(RESERVE, stage, count);
        bool good = stage != RESERVE || ggml_backend_sched_reserve(s, g);
        arm(RESERVE, stage, 0);
        ggml_reset(ctx);
        g = large(ctx, &x, &y);
        place(s, g);
        arm(ALLOC, stage, count);
        /* Computing allocates the graph. */
        good = (stage == ALLOC_AND_COMPUTE || ggml_backend_sched_alloc_graph(s, g)) && good;
        arm(ALLOC, stage, 0);
        if (stage == ALLOC_AND_COMPUTE || y->data != NULL) {
            if (x->data != NULL) ggml_backend_tensor_set(x, data, 0, sizeof(data));
            arm(stage == COMPUTE ? COMPUTE : ALLOC_AND_COMPUTE, stage, count);
            good = ggml_backend_sched_graph_compute(s, g) == GGML_STATUS_SUCCESS && good;
            arm(stage, stage, 0);
        }
        if (attempt == 1 && !good) _exit(5); /* it does not recover */
        ok = ok && good;
    }
    ggml_backend_sched_free(s);
    ggml_free(ctx);
    return ok;
}

static void world(void) {
    struct device * d = plain(0, "GPU");
    d->slow = 0;
    d->host_copies = true;
    start(1);
}

/* 0: did without, 1: an error, 3: a leak, 4: beyond the last allocation, 5: no recovery */
static int child(enum stage stage, long k) {
    world();
    work(stage, 0); /* what is made once and kept */
    stop();
    errors = 0;
    ggml_rs_clear_error();
    const long before = live;
    world();
    bool ok = work(stage, k);
    stop();
    ggml_rs_clear_error(); /* the text is memory too */
    if (failed_bytes == 0) return 4;
    if (live != before) { fprintf(stderr, "%s, allocation %ld (%zu bytes): %ld blocks are left\n", stage_names[stage], k, failed_bytes, live - before); return 3; }
    return ok ? 0 : errors > 0 ? 1 : 2;
}

static void every_allocation_fails_once(void) {
    int did_without = 0, failed = 0;
    for (int stage = 0; stage < STAGES; stage++) {
        int of[8] = { 0 }, died = 0;
        for (long k = 1; k < 100000; k++) {
            fflush(stdout);
            pid_t pid = fork();
            if (pid == 0) _exit(child((enum stage) stage, k));
            int status = 0;
            if (pid < 0 || waitpid(pid, &status, 0) < 0) exit(2);
            if (!WIFEXITED(status)) { died++; fprintf(stderr, "%s, allocation %ld: died, signal %d\n", stage_names[stage], k, WTERMSIG(status)); continue; }
            if (WEXITSTATUS(status) == 4) break;
            of[WEXITSTATUS(status) & 7]++;
        }
        printf("note %s: %d errors, %d did without, %d silent failures, %d leaks, %d did not recover, %d ended the process\n", stage_names[stage], of[1], of[0], of[2],
               of[3], of[5], died);
        did_without += of[0];
        failed += of[1];
        CHECK_EQ(of[2] + of[3] + of[5] + died, 0);
    }
    CHECK(failed + did_without > 0);
}

int main(int argc, char ** argv) {
    begin();
    if (argc > 1) least = strtoul(argv[1], NULL, 10);
    RUN(every_allocation_fails_once);
    return test_summary();
}
