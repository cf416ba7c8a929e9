/* A host that forks while its threads use the library. The child has one thread, and no call in it may wait for ever:
 * each child has an alarm. */
#include "../common/check.h"
#include "../common/child.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "gguf.h"

#include <pthread.h>
#include <stdatomic.h>

/* ggml-impl.h, which modules of the original use */
void ggml_critical_section_start(void);
void ggml_critical_section_end(void);

enum { THREADS = 4 };

static atomic_bool stop;

/* a product, a sum of rows and a norm on a backend */
struct work {
    struct ggml_context * ctx;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *  w, *x, *y;
    struct ggml_cgraph *  graph;
};

/* so large that a graph gets several threads */
enum { N = 64, COLUMNS = 16 };

static struct work work_new(ggml_backend_t backend) {
    struct work it = { 0 };
    it.ctx = ggml_init((struct ggml_init_params) { .mem_size = 1u << 20, .mem_buffer = NULL, .no_alloc = true });
    it.w   = ggml_new_tensor_2d(it.ctx, GGML_TYPE_F32, N, N);
    it.x   = ggml_new_tensor_2d(it.ctx, GGML_TYPE_F32, N, COLUMNS);
    it.y   = ggml_sum(it.ctx, ggml_mul_mat(it.ctx, it.w, ggml_mul_mat(it.ctx, it.w, it.x)));
    it.graph = ggml_new_graph(it.ctx);
    ggml_build_forward_expand(it.graph, it.y);
    it.buffer = ggml_backend_alloc_ctx_tensors(it.ctx, backend);
    float ones[N * N];
    for (int i = 0; i < N * N; i++) { ones[i] = 1; }
    ggml_backend_tensor_set(it.w, ones, 0, sizeof ones);
    ggml_backend_tensor_set(it.x, ones, 0, sizeof ones / N * COLUMNS);
    return it;
}

static void work_free(struct work * it) {
    ggml_backend_buffer_free(it->buffer);
    ggml_free(it->ctx);
}

/* whether the sum is right */
static bool work_done(struct work * it, ggml_backend_t backend) {
    float sum = 0;
    if (ggml_backend_graph_compute(backend, it->graph) != GGML_STATUS_SUCCESS) { return false; }
    ggml_backend_tensor_get(it->y, &sum, 0, sizeof sum);
    return sum == (float) N * N * N * COLUMNS;
}

/* Whether the library has logged that a fork did not wait for its threads. */
static atomic_bool hurried;

static void log_quietly(enum ggml_log_level level, const char * text, void * user) {
    (void) level; (void) user;
    if (strstr(text, "a fork did not wait") != NULL) { hurried = true; }
}

/* the objects that the children inherit; the locks of both backends are held most of the time */
static ggml_backend_t    backend, pooled;
static struct work       work, pooled_work;
static ggml_threadpool_t pool, paused;

static void * computes(void * user) {
    const bool with_pool = user != NULL;
    while (!stop) {
        if (!work_done(with_pool ? &pooled_work : &work, with_pool ? pooled : backend)) { abort(); }
    }
    return NULL;
}

/* makes and frees all kinds of objects, with messages in the log */
static void * makes(void * user) {
    (void) user;
    for (unsigned i = 0; !stop; i++) {
        ggml_backend_t own = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
        ggml_backend_cpu_set_n_threads(own, 2 + (int) (i % 3));
        struct work it = work_new(own);
        if (!work_done(&it, own)) { abort(); }
        ggml_backend_sched_t sched = ggml_backend_sched_new(&own, NULL, 1, 64, false, true);
        ggml_backend_sched_free(sched);
        work_free(&it);
        ggml_backend_free(own);
        gguf_free(gguf_init_from_buffer("GGUF", 4, (struct gguf_init_params) { true, NULL }));
        for (size_t d = 0; d < ggml_backend_dev_count(); d++) { ggml_backend_dev_name(ggml_backend_dev_get(d)); }
        struct ggml_threadpool_params params = ggml_threadpool_params_default(3);
        ggml_threadpool_free(ggml_threadpool_new(&params));
        ggml_log_set(log_quietly, NULL);
        if (i % 20 == 0) {
            ggml_quantize_free();
            ggml_quantize_init(GGML_TYPE_IQ3_XXS);
        }
    }
    return NULL;
}

static void * enters(void * user) {
    (void) user;
    while (!stop) {
        ggml_critical_section_start();
        ggml_critical_section_end();
    }
    return NULL;
}

static void objects_free(void) {
    work_free(&work);
    work_free(&pooled_work);
    ggml_backend_free(backend);
    ggml_backend_free(pooled);
    ggml_threadpool_free(pool);
    ggml_threadpool_free(paused);
}

/* everything once, on one thread and with threads of its own */
static void use_all(void) {
    gguf_free(gguf_init_from_buffer("GGUF", 4, (struct gguf_init_params) { true, NULL }));
    ggml_backend_t own = ggml_backend_cpu_init();
    for (int n = 1; n < 5; n++) {
        ggml_backend_cpu_set_n_threads(own, n);
        struct work it = work_new(own);
        if (!work_done(&it, own)) { _exit(2); }
        work_free(&it);
    }
    ggml_backend_free(own);
    if (!work_done(&work, backend)) { _exit(3); }
    if (!work_done(&pooled_work, pooled)) { _exit(4); }
    ggml_backend_cpu_set_threadpool(backend, paused);
    if (!work_done(&work, backend)) { _exit(5); }
    ggml_threadpool_resume(paused);
    ggml_threadpool_pause(pool);
    if (!work_done(&work, backend) || !work_done(&pooled_work, pooled)) { _exit(6); }
    if (ggml_backend_dev_count() == 0 || ggml_backend_reg_by_name("CPU") == NULL) { _exit(7); }
    ggml_quantize_init(GGML_TYPE_IQ2_XXS);
    ggml_critical_section_start();
    ggml_critical_section_end();
    ggml_log_set(log_quietly, NULL);
    ggml_backend_cpu_set_threadpool(backend, NULL);
    objects_free();
    ggml_quantize_free();
}

/* FORK_ROUNDS, or FORK_SECONDS that a child has: larger for slow or instrumented builds. */
static int setting(const char * name, int otherwise) {
    const char * set = getenv(name);
    return set != NULL ? atoi(set) : otherwise;
}

static unsigned seconds(void) { return (unsigned) setting("FORK_SECONDS", 20); }

static int forked(void (*in_child)(void)) {
    const pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit no_core = { 0, 0 };
        setrlimit(RLIMIT_CORE, &no_core);
        alarm(seconds());
        in_child();
        exit(0); /* with its handlers */
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) { return -1; }
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void objects_new(void) {
    struct ggml_threadpool_params params = ggml_threadpool_params_default(THREADS);
    pool = ggml_threadpool_new(&params);
    params.paused = true;
    paused  = ggml_threadpool_new(&params);
    backend = ggml_backend_cpu_init();
    pooled  = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, THREADS);
    ggml_backend_cpu_set_n_threads(pooled, THREADS);
    ggml_backend_cpu_set_threadpool(pooled, pool);
    work        = work_new(backend);
    pooled_work = work_new(pooled);
}

static void no_call_in_a_child_waits_for_ever(void) {
    const int rounds = setting("FORK_ROUNDS", 300);
    objects_new();
    ggml_log_set(log_quietly, NULL);
    stop = false;
    pthread_t threads[5];
    CHECK_EQ(pthread_create(&threads[0], NULL, computes, NULL), 0);
    CHECK_EQ(pthread_create(&threads[1], NULL, computes, (void *) 1), 0);
    CHECK_EQ(pthread_create(&threads[2], NULL, makes, NULL), 0);
    CHECK_EQ(pthread_create(&threads[3], NULL, makes, NULL), 0);
    CHECK_EQ(pthread_create(&threads[4], NULL, enters, NULL), 0);
    for (int i = 0; i < rounds && test_why[0] == '\0'; i++) { CHECK_EQ(forked(use_all), 0); }
    stop = true;
    for (int i = 0; i < 5; i++) { pthread_join(threads[i], NULL); }
    CHECK(!hurried);
    ggml_log_set(NULL, NULL);
    objects_free();
}

/* The child may fork, too, while its own threads compute. */
static void child_with_threads(void) {
    stop = false;
    pthread_t thread;
    if (pthread_create(&thread, NULL, computes, NULL) != 0) { _exit(8); }
    for (int i = 0; i < 10; i++) {
        const int status = forked(use_all);
        if (status != 0) { _exit(10 + (status < 0 ? -status : status)); }
    }
    stop = true;
    pthread_join(thread, NULL);
    use_all();
}

static void children_of_children(void) {
    objects_new();
    stop = false;
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, computes, NULL), 0);
    for (int i = 0; i < 5; i++) { CHECK_EQ(forked(child_with_threads), 0); }
    stop = true;
    pthread_join(thread, NULL);
    objects_free();
}

/* A custom operation that forks. Its computation cannot go on in the child, which does not have the other threads: it
 * fails there. */
static atomic_int is_child;

static void custom_forks(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * user) {
    (void) a; (void) nth; (void) user;
    if (ith != 0) { return; }
    const pid_t pid = fork();
    if (pid == 0) {
        is_child = 1;
        alarm(seconds());
        return;
    }
    int status = -1;
    waitpid(pid, &status, 0);
    *(float *) dst->data = (float) status;
}

static void forks_in_an_operation(void) {
    for (int last = 0; last < 2; last++) {
        struct ggml_context * c = ggml_init((struct ggml_init_params) { 1u << 22, NULL, false });
        struct ggml_tensor *  x = ggml_set_zero(ggml_new_tensor_2d(c, GGML_TYPE_F32, 256, 256));
        struct ggml_tensor *  y = ggml_map_custom1(c, x, custom_forks, 4, NULL);
        struct ggml_tensor *  z = last ? y : ggml_mul_mat(c, x, y);
        struct ggml_cgraph *  g = ggml_new_graph(c);
        ggml_build_forward_expand(g, z);
        const enum ggml_status status = ggml_graph_compute_with_ctx(c, g, 4);
        if (is_child) {
            if (status == GGML_STATUS_SUCCESS) { _exit(3); }
            ggml_set_zero(y);
            struct ggml_cgraph * again = ggml_new_graph(c);
            ggml_build_forward_expand(again, ggml_mul_mat(c, x, x));
            _exit(ggml_graph_compute_with_ctx(c, again, 4) == GGML_STATUS_SUCCESS ? 0 : 4);
        }
        CHECK_EQ(status, GGML_STATUS_SUCCESS);
        CHECK_EQ(*(float *) y->data, 0);
        ggml_free(c);
    }
}

/* A lock that the program has around its own forks, and around calls of the library. */
static pthread_mutex_t of_the_host = PTHREAD_MUTEX_INITIALIZER;

static void before(void) {
    pthread_mutex_lock(&of_the_host);
    ggml_backend_dev_count();
}

static void after(void) {
    pthread_mutex_unlock(&of_the_host);
}

static void * holds(void * user) {
    (void) user;
    while (!stop) {
        pthread_mutex_lock(&of_the_host);
        ggml_backend_dev_name(ggml_backend_dev_get(0));
        gguf_free(gguf_init_from_buffer("GGUF", 4, (struct gguf_init_params) { true, NULL }));
        pthread_mutex_unlock(&of_the_host);
    }
    return NULL;
}

static void locks_of_the_host_around_forks(void) {
    CHECK_EQ(pthread_atfork(before, after, after), 0);
    objects_new();
    ggml_log_set(log_quietly, NULL);
    stop = false;
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, holds, NULL), 0);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < 50 && test_why[0] == '\0'; i++) { CHECK_EQ(forked(use_all), 0); }
    clock_gettime(CLOCK_MONOTONIC, &end);
    CHECK(end.tv_sec - begin.tv_sec < 60);
    stop = true;
    pthread_join(thread, NULL);
    ggml_log_set(NULL, NULL);
    objects_free();
}

int main(void) {
    setenv("GGML_RS_DEBUG", "threads=all", 1); /* as in test_threads.c */
    RUN(no_call_in_a_child_waits_for_ever);
    RUN(children_of_children);
    RUN(forks_in_an_operation);
    RUN(locks_of_the_host_around_forks); /* last: its handlers stay */
    return test_summary();
}
