/* Each call of Vulkan fails once, in a process of its own: c_tests/vulkan/fault_layer.c, whose file is `layer`. */
#ifndef C_TESTS_FAULTS_H
#define C_TESTS_FAULTS_H

#include "check.h"
#include "child.h"

#include <dlfcn.h>

enum { OUT_OF_HOST_MEMORY = -1, OUT_OF_DEVICE_MEMORY = -2, DEVICE_LOST = -4 };

/* How a process ends in which a call was to fail: it was reported, all went on without it, or there are fewer calls. */
enum { REPORTED = 10, WITHOUT = 11, DONE = 12 };

static const char * layer;
static long         stride = 1; /* from one call to the next */
static void (*arm)(long n, int result); /* the n-th call from now on returns `result`; 0: none */
static const char * (*failed_call)(void);

struct fault {
    long n;
    int  result;
};

/* In the process of a fault, before anything else. */
static inline void faults_open(void) {
    void * handle = dlopen(layer, RTLD_NOW);
    if (handle == NULL) { _exit(90); }
    arm         = (void (*)(long, int)) (size_t) dlsym(handle, "fault_layer_arm");
    failed_call = (const char * (*) (void)) (size_t) dlsym(handle, "fault_layer_failed");
    if (arm == NULL || failed_call == NULL) { _exit(91); }
}

struct faults {
    int reported, without;
};

/* `work` gets a fault, and ends its process. */
static inline struct faults faults_run(void (*work)(void *), int result, const char * what) {
    struct faults of = { 0, 0 };
    for (long n = 1; n < 5000; n += stride) {
        struct fault f      = { n, result };
        const int    status = child_run(work, &f);
        if (status == DONE) { break; }
        of.reported += status == REPORTED;
        of.without += status == WITHOUT;
        if (status != REPORTED && status != WITHOUT) { test_fails(__FILE__, __LINE__, "call %ld fails with %d: %s", n, result, child_verdict(status)); }
    }
    printf("note | %s | %d | %d | %d | %d |\n", what, result, of.reported + of.without, of.reported, of.without);
    return of;
}

static inline void faults_table(void) { printf("note | what | result | calls | reported | done without |\n"); }

#endif
