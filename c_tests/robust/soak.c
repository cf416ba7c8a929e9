/* Many schedulers, graphs of changing sizes and files on several threads for a long time, over the CPU, a fake device
 * that fails at times, and Vulkan0 if there is one. Computations are cancelled at random, children are forked, and a
 * module with a device is loaded and unloaded. Other processes open and close the library (test_unload.c). Results must
 * be right, and the process must not grow: memory, descriptors and threads. On Windows there are no children, and
 * handles are counted.
 *
 *   soak SECONDS [SEED [MODULE [UNLOAD LIBRARIES]]] */
#define ACCEL_STATIC
#include "../plugin/accel.c"

#include "../common/check.h"
#include "../common/child.h"
#include "../common/uses.h"

#include "ggml-alloc.h"
#include "ggml-cpu.h"
#include "gguf.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#ifndef _WIN32
#include <fcntl.h>
#include <spawn.h>

extern char ** environ;
#endif

enum { THREADS = 3 };

static _Atomic long rounds, on_vulkan, computed, cancelled, refused, forks, loads, opened, files;
static atomic_bool  wrong, finished;
static const char * module, *unload, *libraries;

/* ---- random numbers, a sequence for each thread ---- */

static _Thread_local uint64_t state;

static uint32_t below(uint32_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t) (state >> 33) % n;
}

/* ---- invariants ---- */

static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;

#define MUST(condition)                                                   \
    do {                                                                  \
        if (!(condition)) {                                               \
            pthread_mutex_lock(&noting);                                  \
            test_fails(__FILE__, __LINE__, "not true: %s", #condition);   \
            pthread_mutex_unlock(&noting);                                \
            wrong = true;                                                 \
        }                                                                 \
    } while (0)

/* ---- one round ---- */

static _Thread_local bool     may_fail;
static _Thread_local uint32_t patience; /* nodes until the computation is cancelled */

static enum ggml_status sometimes_computes(ggml_backend_t b, struct ggml_cgraph * g) {
    return may_fail && below(8) == 0 ? GGML_STATUS_FAILED : backend_compute(b, g);
}

static bool impatient(void * user) {
    (void) user;
    return patience != 0 && --patience == 0;
}

static void a_graph(ggml_backend_sched_t sched, ggml_backend_t first, ggml_backend_t cpu) {
    const int64_t width  = 8 * (1 + below(12));
    const int64_t rows   = 1 + below(24);
    const int     layers = 1 + (int) below(30);
    struct ggml_context * c = ggml_init((struct ggml_init_params) { 1u << 19, NULL, true });
    struct ggml_tensor *  x = ggml_new_tensor_2d(c, GGML_TYPE_F32, width, rows);
    struct ggml_tensor *  w = ggml_new_tensor_2d(c, GGML_TYPE_F32, width, width);
    ggml_set_input(x);
    ggml_set_input(w);
    struct ggml_tensor * y = x;
    for (int i = 0; i < layers; i++) { y = ggml_add(c, ggml_mul_mat(c, w, y), i % 3 == 0 ? ggml_sqr(c, x) : x); }
    ggml_set_output(y);
    struct ggml_cgraph * g = ggml_new_graph_custom(c, 256, false);
    ggml_build_forward_expand(g, y);
    if (below(3) == 0) { MUST(ggml_backend_sched_reserve(sched, g)); }
    ggml_backend_sched_reset(sched);
    for (int i = 0; i < ggml_graph_n_nodes(g); i++) {
        struct ggml_tensor * node = ggml_graph_node(g, i);
        if (node->op == GGML_OP_MUL_MAT && below(3) == 0) { ggml_backend_sched_set_tensor_backend(sched, node, first); }
    }
    MUST(ggml_backend_sched_alloc_graph(sched, g));
    float * data = malloc(sizeof(float) * (size_t) (width * (width > rows ? width : rows)));
    may_fail = below(10) == 0;
    patience = below(10) == 0 ? 1 + below(20) : 0;
    ggml_backend_cpu_set_abort_callback(cpu, patience != 0 ? impatient : NULL, NULL);
    for (int i = 0; i < 3; i++) {
        memset(data, 0, ggml_nbytes(w));
        for (int64_t k = 0; k < width; k++) { data[k * (width + 1)] = 1.0f; }
        ggml_backend_tensor_set(w, data, 0, ggml_nbytes(w));
        for (int64_t k = 0; k < width * rows; k++) { data[k] = 1.0f; }
        ggml_backend_tensor_set(x, data, 0, ggml_nbytes(x));
        const enum ggml_status status = ggml_backend_sched_graph_compute(sched, g);
        if (status == GGML_STATUS_SUCCESS) {
            memset(data, 0, ggml_nbytes(y));
            ggml_backend_tensor_get(y, data, 0, ggml_nbytes(y));
            MUST(data[0] == (float) (layers + 1) && data[width * rows - 1] == (float) (layers + 1));
            computed++;
        } else if (status == GGML_STATUS_ABORTED) {
            MUST(patience == 0);
            cancelled++;
        } else {
            MUST(may_fail && status == GGML_STATUS_FAILED);
            refused++;
        }
    }
    may_fail = false;
    free(data);
    ggml_backend_sched_reset(sched);
    ggml_free(c);
}

/* The bytes of a file that the library writes. */
static char * written(const struct gguf_context * g, size_t * size) {
    char * text = NULL;
#ifdef _WIN32 /* it has no streams in memory */
    char name[40];
    snprintf(name, sizeof name, "soak.%lu.gguf", (unsigned long) GetCurrentThreadId());
    FILE * f = fopen(name, "w+bTD");
    MUST(f != NULL && gguf_write_to_file_ptr(g, f, false));
    *size = (size_t) ftell(f);
    text  = malloc(*size);
    rewind(f);
    MUST(fread(text, 1, *size, f) == *size);
#else
    FILE * f = open_memstream(&text, size);
    MUST(gguf_write_to_file_ptr(g, f, false));
#endif
    fclose(f);
    return text;
}

static void a_file(void) {
    struct gguf_context * g = gguf_init_empty();
    struct ggml_context * c = ggml_init((struct ggml_init_params) { 1u << 18, NULL, false });
    for (uint32_t i = below(20); i > 0; i--) {
        char key[20];
        snprintf(key, sizeof key, "key%u", i);
        gguf_set_val_str(g, key, "value");
        struct ggml_tensor * t = ggml_new_tensor_1d(c, GGML_TYPE_F32, 1 + below(100));
        ggml_set_name(t, key);
        memset(t->data, 0, ggml_nbytes(t));
        gguf_add_tensor(g, t);
    }
    size_t        size = 0;
    char *        text = written(g, &size);
    const int64_t n    = gguf_get_n_tensors(g);
    gguf_free(g);
    ggml_free(c);
    if (below(2) == 0) { text[below((uint32_t) size)] ^= (char) (1 << below(8)); }
    g = gguf_init_from_buffer(text, size, (struct gguf_init_params) { false, &c });
    if (g != NULL) {
        MUST(gguf_get_n_tensors(g) <= n + 1);
        ggml_free(c);
        gguf_free(g);
    }
    free(text);
    files++;
}

#ifndef _WIN32
static void a_child(void) {
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(1800); /* ends a deadlock; on a busy machine a child may take minutes */
        struct ggml_context * c = ggml_init((struct ggml_init_params) { 1u << 20, NULL, false });
        struct ggml_tensor *  x = ggml_new_tensor_1d(c, GGML_TYPE_F32, 1000);
        for (int i = 0; i < 1000; i++) { ((float *) x->data)[i] = 3.0f; }
        struct ggml_tensor * y = ggml_sqr(c, x);
        struct ggml_cgraph * g = ggml_new_graph(c);
        ggml_build_forward_expand(g, y);
        const bool good = ggml_graph_compute_with_ctx(c, g, 2) == GGML_STATUS_SUCCESS && ((float *) y->data)[999] == 9.0f;
        _exit(good ? 0 : 1);
    }
    int status = 1;
    MUST(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    forks++;
}
#endif

/* One thread at a time: the registry has a module once. */
static void a_module(void) {
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    if (module == NULL) { return; }
    pthread_mutex_lock(&one);
    ggml_backend_reg_t reg = ggml_backend_load(module);
    MUST(reg != NULL && ggml_backend_reg_dev_count(reg) == 1);
    ggml_backend_t b = reg != NULL ? ggml_backend_dev_init(ggml_backend_reg_dev_get(reg, 0), NULL) : NULL;
    MUST(b != NULL);
    if (b != NULL) {
        ggml_backend_t       backends[2] = { b, ggml_backend_cpu_init() };
        ggml_backend_sched_t sched       = ggml_backend_sched_new(backends, NULL, 2, 256, below(2) == 0, below(2) == 0);
        a_graph(sched, backends[0], backends[1]);
        ggml_backend_sched_free(sched);
        ggml_backend_free(backends[1]);
    }
    ggml_backend_free(b);
    if (reg != NULL) { ggml_backend_unload(reg); }
    loads++;
    pthread_mutex_unlock(&one);
}

#ifndef _WIN32
/* A process that is not linked to the library opens and closes it. */
static void a_host_that_opens(void) {
    if (unload == NULL) { return; }
    char * const argv[] = { (char *) unload, (char *) libraries, "5", NULL };
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t pid    = 0;
    int   status = 1;
    MUST(posix_spawn(&pid, unload, &actions, NULL, argv, environ) == 0 && waitpid(pid, &status, 0) == pid && status == 0);
    posix_spawn_file_actions_destroy(&actions);
    opened++;
}
#endif

static void * works(void * seed) {
    state = 0x9E3779B97F4A7C15ull * (1 + *(uint64_t *) seed);
    while (!finished && !wrong) {
        ggml_backend_t backends[3];
        int            n      = 0;
        ggml_backend_dev_t gpu = ggml_backend_dev_by_name("Vulkan0");
        if (gpu != NULL && below(4) == 0) {
            backends[n] = ggml_backend_dev_init(gpu, NULL);
            MUST(backends[n] != NULL);
            if (backends[n] == NULL) { return NULL; }
            n++;
            on_vulkan++;
        }
        if (below(3) != 0) {
            backends[n] = device_init(the_device(), NULL);
            backends[n++]->iface.graph_compute = sometimes_computes;
        }
        backends[n] = ggml_backend_cpu_init();
        ggml_backend_cpu_set_n_threads(backends[n++], 1 + (int) below(4));
        ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, n, 256, below(2) == 0, below(2) == 0);
        for (uint32_t i = 1 + below(10); i > 0; i--) { a_graph(sched, backends[0], backends[n - 1]); }
        ggml_backend_sched_free(sched);
        while (n > 0) { ggml_backend_free(backends[--n]); }
        if (below(4) == 0) { a_file(); }
        if (below(20) == 0) { a_module(); }
#ifndef _WIN32
        if (below(50) == 0) { a_child(); }
        if (below(50) == 0) { a_host_that_opens(); }
#endif
        rounds++;
    }
    return NULL;
}

static void tells(double seconds) {
    printf("note %.0f s: %ld rounds, %ld of them with Vulkan0, %ld computations, %ld cancelled, %ld failed, %ld files, %ld children, %ld modules, %ld processes that open the library\n",
           seconds, rounds, on_vulkan, computed, cancelled, refused, files, forks, loads, opened);
    fflush(stdout);
}

int main(int argc, char ** argv) {
    const double seconds = argc > 1 ? atof(argv[1]) : 10;
    uint64_t     seed    = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    module               = argc > 3 ? argv[3] : NULL;
    unload               = argc > 5 ? argv[4] : NULL;
    libraries            = argc > 5 ? argv[5] : NULL;
    ggml_log_set(child_quiet, NULL);
    test_begin();
    pthread_t threads[THREADS];
    uint64_t  seeds[THREADS];
    for (int i = 0; i < THREADS; i++) {
        seeds[i] = seed + (uint64_t) i;
        pthread_create(&threads[i], NULL, works, &seeds[i]);
    }
    const int64_t begun  = ggml_time_us();
    struct growth growth = { 0 };
    double        told   = 600;
    while (!wrong) {
        nanosleep(&(struct timespec) { 0, 50000000 }, NULL);
        const double passed = (double) (ggml_time_us() - begun) / 1e6;
        growth_note(&growth, passed / seconds);
        if (passed >= seconds) { break; }
        if (passed > told) { /* a long run shows its progress */
            tells(passed);
            printf("note resident %ld KiB, descriptors %ld, threads %ld\n", growth.now[0], growth.now[1], growth.now[2]);
            fflush(stdout);
            told += 600;
        }
    }
    finished = true;
    for (int i = 0; i < THREADS; i++) { pthread_join(threads[i], NULL); }
    tells(seconds);
    CHECK(rounds > 0 && computed > 0);
    growth_check(&growth);
    test_end("soak");
    return test_summary();
}
