/* Every request that the system may refuse is refused once: the n-th request for memory, for a thread, or for a file
 * fails, for n = 1, 2, 3 ... until a step succeeds without reaching n. Each n has a process of its own, which has done
 * all steps once before. The call must report its failure, or do without. Afterwards all steps must work, and nothing
 * may have leaked.
 *
 * Requests for memory that Rust's containers make end the process, with a message: docs/RELIABILITY.md. The table
 * counts them. The allocator of the process is replaced, so this program is not for AddressSanitizer or valgrind. */
#include "../common/check.h"
#include "../common/child.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "gguf.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

/* ---- what fails ---- */

enum kind { MEMORY, THREAD, A_FILE };
static const char * const kind_names[] = { "memory", "threads", "files" };

static int    armed = -1; /* the kind that fails; -1 for none */
static long   countdown;  /* requests until one fails */
static bool   hit;        /* one has failed */
static long   live; /* blocks that are not freed */

static bool refuse(enum kind kind) {
    if (__atomic_load_n(&armed, __ATOMIC_RELAXED) != (int) kind || __atomic_sub_fetch(&countdown, 1, __ATOMIC_RELAXED) != 0) { return false; }
    hit   = true;
    errno = kind == THREAD ? EAGAIN : kind == A_FILE ? EIO : ENOMEM;
    return true;
}

void * __libc_malloc(size_t n);
void * __libc_calloc(size_t n, size_t size);
void * __libc_realloc(void * p, size_t n);
void * __libc_memalign(size_t alignment, size_t n);
void   __libc_free(void * p);

static void * counted(void * p) {
    if (p != NULL) { __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED); }
    return p;
}
void * malloc(size_t n) { return refuse(MEMORY) ? NULL : counted(__libc_malloc(n)); }
void * calloc(size_t n, size_t size) { return refuse(MEMORY) ? NULL : counted(__libc_calloc(n, size)); }
void * realloc(void * p, size_t n) {
    if (refuse(MEMORY)) { return NULL; }
    void * q = __libc_realloc(p, n);
    if (p == NULL) {
        counted(q);
    } else if (n == 0 && q == NULL) {
        __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    }
    return q;
}
void * memalign(size_t alignment, size_t n) { return refuse(MEMORY) ? NULL : counted(__libc_memalign(alignment, n)); }
void * aligned_alloc(size_t alignment, size_t n) { return memalign(alignment, n); }
int    posix_memalign(void ** p, size_t alignment, size_t n) {
    void * q = memalign(alignment, n);
    if (q == NULL) { return ENOMEM; }
    *p = q;
    return 0;
}
void free(void * p) {
    if (p != NULL) { __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED); }
    __libc_free(p);
}

/* Defines FUNCTION, which fails with `failure` or does what the C library does. */
#define FAILS(kind, failure, result, name, parameters, arguments)                      \
    result name parameters;                                                            \
    result name parameters {                                                           \
        static union { void * object; result(*function) parameters; } next;            \
        if (next.object == NULL) { next.object = dlsym(RTLD_NEXT, #name); }            \
        return refuse(kind) ? failure : next.function arguments;                    \
    }
FAILS(THREAD, EAGAIN, int, pthread_create, (pthread_t * id, const pthread_attr_t * attributes, void * (*start)(void *), void * argument), (id, attributes, start, argument))
FAILS(A_FILE, -1, ssize_t, read, (int fd, void * to, size_t n), (fd, to, n))
FAILS(A_FILE, -1, ssize_t, write, (int fd, const void * from, size_t n), (fd, from, n))
FAILS(A_FILE, -1, off64_t, lseek64, (int fd, off64_t at, int whence), (fd, at, whence))
FAILS(A_FILE, -1, int, statx, (int fd, const char * path, int flags, unsigned mask, struct statx * out), (fd, path, flags, mask, out))
FAILS(A_FILE, -1, int, fseeko, (FILE * f, off_t at, int whence), (f, at, whence))
FAILS(A_FILE, 0, size_t, fread, (void * to, size_t size, size_t n, FILE * f), (to, size, n, f))
FAILS(A_FILE, 0, size_t, fwrite, (const void * from, size_t size, size_t n, FILE * f), (from, size, n, f))
static int opened(const char * name, const char * path, int flags, mode_t mode) {
    union { void * object; int (*function)(const char *, int, ...); } next = { .object = dlsym(RTLD_NEXT, name) };
    return refuse(A_FILE) ? -1 : next.function(path, flags, mode);
}
#define OPENS(name)                                    \
    int name(const char * path, int flags, ...) {      \
        va_list list;                                  \
        va_start(list, flags);                         \
        const mode_t mode = (mode_t) va_arg(list, int); \
        va_end(list);                                  \
        return opened(#name, path, flags, mode);       \
    }
OPENS(open)
OPENS(open64)

/* ---- the steps ---- */

enum step { CREATE, LOAD, LOAD_STREAM, RESERVE, ALLOC, COMPUTE, SAVE, SAVE_STREAM, FREE, STEPS };
static const char * const step_names[] = { "create all", "load", "load (FILE)", "reserve", "alloc", "compute", "save", "save (FILE)", "free all" };

enum { WIDTH = 64, LAYERS = 8, PATH = 64 };
static char model[PATH], copy[PATH]; /* paths */

struct host {
    ggml_backend_t        backend;
    ggml_threadpool_t     pool;
    ggml_backend_sched_t  sched;
    struct ggml_context * ctx, *weights, *weights2;
    struct gguf_context * gguf, *gguf2;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  x, *y;
    FILE *                in, *out;
};

static int  failing_step;
static bool ready; /* between two steps of the one that fails */

static void arm(enum step step, int kind) {
    __atomic_store_n(&armed, ready && failing_step == (int) step ? kind : -1, __ATOMIC_RELAXED);
}

static bool do_step(struct host * h, enum step step) {
    switch (step) {
        case CREATE: {
            struct ggml_threadpool_params params = ggml_threadpool_params_default(2);
            h->backend = ggml_backend_cpu_init();
            if (h->backend == NULL) { return false; }
            h->pool = ggml_threadpool_new(&params);
            if (h->pool == NULL) { return false; }
            ggml_backend_cpu_set_n_threads(h->backend, 2);
            ggml_backend_cpu_set_threadpool(h->backend, h->pool);
            h->sched = ggml_backend_sched_new(&h->backend, NULL, 1, 256, false, false);
            if (h->sched == NULL) { return false; }
            h->ctx = ggml_init((struct ggml_init_params) { 1u << 18, NULL, true });
            return h->ctx != NULL;
        }
        case LOAD: h->gguf = gguf_init_from_file(model, (struct gguf_init_params) { false, &h->weights }); return h->gguf != NULL && h->weights != NULL;
        case LOAD_STREAM:
            rewind(h->in);
            h->gguf2 = gguf_init_from_file_ptr(h->in, (struct gguf_init_params) { false, &h->weights2 });
            return h->gguf2 != NULL && h->weights2 != NULL;
        case RESERVE: return ggml_backend_sched_reserve(h->sched, h->graph);
        case ALLOC: return ggml_backend_sched_alloc_graph(h->sched, h->graph);
        case COMPUTE: return ggml_backend_sched_graph_compute(h->sched, h->graph) == GGML_STATUS_SUCCESS;
        case SAVE: return gguf_write_to_file(h->gguf, copy, false);
        case SAVE_STREAM: return gguf_write_to_file_ptr(h->gguf, h->out, false);
        case FREE:
            ggml_backend_sched_free(h->sched);
            ggml_backend_free(h->backend);
            ggml_threadpool_free(h->pool);
            gguf_free(h->gguf);
            gguf_free(h->gguf2);
            ggml_free(h->weights);
            ggml_free(h->weights2);
            ggml_free(h->ctx);
            return true;
        default: return false;
    }
}

/* what the host does itself between two steps, with nothing that fails */
static void build(struct host * h) {
    h->x = ggml_new_tensor_2d(h->ctx, GGML_TYPE_F32, WIDTH, 4);
    ggml_set_input(h->x);
    h->y = h->x;
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        h->y = ggml_add(h->ctx, ggml_mul_mat(h->ctx, ggml_get_tensor(h->weights, name), h->y), h->x);
    }
    ggml_set_output(h->y);
    h->graph = ggml_new_graph_custom(h->ctx, 256, false);
    ggml_build_forward_expand(h->graph, h->y);
}

static void host_before(struct host * h, enum step step) {
    if (step == RESERVE) { build(h); }
    if (step == LOAD_STREAM) { h->in = fopen(model, "rb"); }
    if (step == SAVE_STREAM) { h->out = fopen(copy, "wb"); }
    if (step == SAVE) {
        for (int64_t i = 0; i < gguf_get_n_tensors(h->gguf); i++) {
            const char * name = gguf_get_tensor_name(h->gguf, i);
            gguf_set_tensor_data(h->gguf, name, ggml_get_tensor(h->weights, name)->data);
        }
    }
    if (step == COMPUTE) {
        float ones[WIDTH * 4];
        for (int i = 0; i < WIDTH * 4; i++) { ones[i] = 1.0f; }
        ggml_backend_tensor_set(h->x, ones, 0, sizeof ones);
    }
}

static void host_after(struct host * h, enum step step) {
    if (step == LOAD_STREAM) { fclose(h->in); }
    if (step == SAVE_STREAM) { fclose(h->out); }
}

/* All steps; `kind` fails in one of them. After a step that has failed, the host frees its objects. Returns 0 if all is
 * right, otherwise a number. */
static int all_steps(int kind, bool * failed) {
    struct host h = { 0 };
    *failed       = false;
    for (int step = 0; step < STEPS; step++) {
        if (*failed && step != FREE) { continue; }
        host_before(&h, step);
        arm(step, kind);
        const bool good = do_step(&h, step);
        arm(STEPS, -1);
        host_after(&h, step);
        *failed |= !good;
        if (good && step == COMPUTE) {
            float y[WIDTH * 4];
            ggml_backend_tensor_get(h.y, y, 0, sizeof y);
            if (y[0] != LAYERS + 1 || y[WIDTH * 4 - 1] != LAYERS + 1) { return 21; }
        }
        if (good && (step == SAVE || step == SAVE_STREAM)) {
            struct stat a, b;
            if (stat(model, &a) != 0 || stat(copy, &b) != 0 || a.st_size != b.st_size) { return 22; }
        }
    }
    return 0;
}

/* ---- one process for each n ---- */

enum { REPORTED = 0, DONE = 10, WITHOUT = 11 };

struct order {
    int  step, kind;
    long n;
};

static void child_fails(void * user) {
    const struct order * o = user;
    bool                 failed;
    if (freopen("/dev/null", "w", stderr) == NULL) { _exit(26); } /* the message of Rust if there is no memory */
    if (all_steps(-1, &failed) != 0 || failed) { _exit(20); }
    /* An error, because its text is kept for the thread. */
    gguf_init_from_buffer("GGUF", 4, (struct gguf_init_params) { true, NULL });
    const long before = live;
    failing_step = o->step;
    countdown    = o->n;
    ready        = true;
    const int wrong = all_steps(o->kind, &failed);
    ready           = false;
    if (wrong != 0) { _exit(wrong); }
    if (!hit) { _exit(failed ? 23 : DONE); }
    bool again;
    if (all_steps(-1, &again) != 0 || again) { _exit(24); } /* something is broken afterwards */
    if (live > before) { _exit(25); } /* a leak */
    _exit(failed ? REPORTED : WITHOUT);
}

static void write_model(void) {
    struct ggml_context * c = ggml_init((struct ggml_init_params) { 1u << 20, NULL, false });
    struct gguf_context * g = gguf_init_empty();
    gguf_set_val_str(g, "general.architecture", "none");
    gguf_set_val_u32(g, "layers", LAYERS);
    const char * words[] = { "a", "few", "words" };
    gguf_set_arr_str(g, "words", words, 3);
    for (int i = 0; i < LAYERS; i++) {
        struct ggml_tensor * w = ggml_new_tensor_2d(c, GGML_TYPE_F32, WIDTH, WIDTH);
        for (int k = 0; k < WIDTH * WIDTH; k++) { ((float *) w->data)[k] = k % (WIDTH + 1) == 0; }
        ggml_format_name(w, "w%d", i);
        gguf_add_tensor(g, w);
    }
    CHECK(gguf_write_to_file(g, model, false));
    gguf_free(g);
    ggml_free(c);
}

/* glibc 2.31 itself uses NULL if there is no memory for the list of what a thread destroys (2.36 does not). */
#define OLD_LIBC (!__GLIBC_PREREQ(2, 36))

static int requests; /* of the kind, in all steps */

static void step_fails(int step, int kind) {
    int reported = 0, without = 0, ended = 0;
    for (long n = 1; n < 5000; n++) {
        struct order o      = { step, kind, n };
        const int    status = child_run(child_fails, &o);
        if (status == DONE) { break; }
        if (status == REPORTED) {
            reported++;
        } else if (status == WITHOUT) {
            without++;
        } else if (kind == MEMORY && (status == -SIGABRT || (status == -SIGSEGV && OLD_LIBC))) {
            ended++;
        } else {
            test_fails(__FILE__, __LINE__, "%s, %s, request %ld: %s", step_names[step], kind_names[kind], n, child_verdict(status));
            return;
        }
    }
    requests += reported + without + ended;
    if (reported + without + ended > 0) {
        printf("note | %s | %s | %d | %d | %d | %d |\n", step_names[step], kind_names[kind], reported + without + ended, reported, without, ended);
    }
}

static void kind_fails(int kind) {
    requests = 0;
    for (int step = 0; step < STEPS; step++) { step_fails(step, kind); }
    CHECK(requests > 0);
}

static void requests_for_memory_fail(void) { kind_fails(MEMORY); }
static void threads_fail(void) { kind_fails(THREAD); }
static void files_fail(void) { kind_fails(A_FILE); }

int main(void) {
    setenv("GGML_DISABLE_VULKAN", "1", 1);
    snprintf(model, sizeof model, "/tmp/robust-faults-%d.gguf", (int) getpid());
    snprintf(copy, sizeof copy, "/tmp/robust-faults-%d-copy.gguf", (int) getpid());
    write_model();
    printf("note | step | what fails | requests | reported | done without | ends the process |\n");
    RUN(requests_for_memory_fail);
    RUN(threads_fail);
    RUN(files_fail);
    remove(model);
    remove(copy);
    return test_summary();
}
