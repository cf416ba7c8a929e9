/* A host that is not linked to the library opens it, computes, forks, and closes it, again and again: test_unload
 * FOLDER [TIMES]
 *
 * libggml-base stays in the process: it is linked with `nodelete`, because its threads and thread-locals may outlive a
 * handle. The small libraries are unloaded. The process must not grow: descriptors, threads, mappings. */
#include "../common/check.h"

#include "ggml-backend.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

static const char * folder;

static void * open_one(const char * name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    void * handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) { test_fails(__FILE__, __LINE__, "%s", dlerror()); }
    return handle;
}

/* The function `name` of the library, with the type of its declaration. */
#define FIND(handle, name) __typeof__(&name) name##_ = (__typeof__(&name)) (size_t) dlsym(handle, #name)

static bool computes(void * ggml, void * cpu, void * base) {
    FIND(base, ggml_init);
    FIND(base, ggml_free);
    FIND(base, ggml_new_tensor_1d);
    FIND(base, ggml_set_input);
    FIND(base, ggml_sqr);
    FIND(base, ggml_new_graph);
    FIND(base, ggml_build_forward_expand);
    FIND(base, ggml_backend_sched_new);
    FIND(base, ggml_backend_sched_alloc_graph);
    FIND(base, ggml_backend_sched_graph_compute);
    FIND(base, ggml_backend_sched_free);
    FIND(base, ggml_backend_tensor_set);
    FIND(base, ggml_backend_tensor_get);
    FIND(base, ggml_backend_free);
    FIND(ggml, ggml_backend_dev_count);
    ggml_backend_t (*cpu_init)(void) = (ggml_backend_t(*)(void)) (size_t) dlsym(cpu, "ggml_backend_cpu_init");
    if (ggml_init_ == NULL || ggml_backend_sched_new_ == NULL || ggml_backend_dev_count_ == NULL || cpu_init == NULL || ggml_backend_dev_count_() == 0) { return false; }
    ggml_backend_t        backend = cpu_init();
    ggml_backend_sched_t  sched   = ggml_backend_sched_new_(&backend, NULL, 1, 64, false, false);
    struct ggml_context * c       = ggml_init_((struct ggml_init_params) { 1u << 18, NULL, true });
    struct ggml_tensor *  x       = ggml_new_tensor_1d_(c, GGML_TYPE_F32, 100);
    ggml_set_input_(x);
    struct ggml_tensor * y = ggml_sqr_(c, x);
    struct ggml_cgraph * g = ggml_new_graph_(c);
    ggml_build_forward_expand_(g, y);
    float numbers[100];
    for (int i = 0; i < 100; i++) { numbers[i] = 3.0f; }
    bool good = ggml_backend_sched_alloc_graph_(sched, g);
    ggml_backend_tensor_set_(x, numbers, 0, sizeof numbers);
    good = good && ggml_backend_sched_graph_compute_(sched, g) == GGML_STATUS_SUCCESS;
    ggml_backend_tensor_get_(y, numbers, 0, sizeof numbers);
    ggml_backend_sched_free_(sched);
    ggml_backend_free_(backend);
    ggml_free_(c);
    return good && numbers[0] == 9.0f && numbers[99] == 9.0f;
}

static bool opens_and_closes(bool in_child) {
    void *     base = open_one("libggml-base.so"), *cpu = open_one("libggml-cpu.so"), *ggml = open_one("libggml.so");
    const bool good = base != NULL && cpu != NULL && ggml != NULL && computes(ggml, cpu, base);
    if (good && in_child) {
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(1800); /* as in soak.c, which runs this program */
            dlclose(ggml);
            dlclose(cpu);
            dlclose(base);
            _exit(opens_and_closes(false) ? 0 : 1);
        }
        int status = 1;
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    }
    if (ggml != NULL) { dlclose(ggml); }
    if (cpu != NULL) { dlclose(cpu); }
    if (base != NULL) { dlclose(base); }
    return good;
}

static long entries(const char * path) {
    long  n = 0;
    DIR * d = opendir(path);
    while (d != NULL && readdir(d) != NULL) { n++; }
    if (d != NULL) { closedir(d); }
    return n;
}

static long mappings(void) {
    long   n = 0;
    FILE * f = fopen("/proc/self/maps", "r");
    for (int c; f != NULL && (c = fgetc(f)) != EOF;) { n += c == '\n'; }
    if (f != NULL) { fclose(f); }
    return n;
}

/* A fork of a program that has closed the library: its fork handlers are still there, or are not called. */
static void forks_afterwards(void) {
    const pid_t pid = fork();
    if (pid == 0) { _exit(0); }
    int status = 1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

static int times = 30;

static void the_library_comes_and_goes(void) {
    long before[3] = { 0 };
    for (int i = 0; i < times && test_why[0] == '\0'; i++) {
        CHECK(opens_and_closes(i % 5 == 2));
        forks_afterwards();
        const long now[3] = { entries("/proc/self/fd"), entries("/proc/self/task"), mappings() };
        if (i == times / 2) { memcpy(before, now, sizeof now); }
        if (i == times - 1) {
            CHECK(now[0] <= before[0]);
            CHECK(now[1] <= before[1] + 1);
            CHECK(now[2] <= before[2] + 8);
        }
    }
}

int main(int argc, char ** argv) {
    folder = argc > 1 ? argv[1] : ".";
    if (argc > 2) { times = atoi(argv[2]); }
    setenv("GGML_DISABLE_VULKAN", "1", 1);
    RUN(the_library_comes_and_goes);
    return test_summary();
}
