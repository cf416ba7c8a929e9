/* Settings of the card, from variables of the environment; card.c describes them. */
#ifndef CARD_SETTINGS_H
#define CARD_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    bool   values;                    /* computes, besides taking time */
    bool   realtime;
    int    threads, processor; /* processor: -1 if streams have threads of their own */
    size_t memory;                    /* bytes */
    double h2d, d2h, pageable, bandwidth; /* bytes per ns: to the card, from it, not pinned, its own memory */
    double flops;                     /* operations per nanosecond */
    double copy_ns, launch_ns, kernel_ns, spin_ns;
    size_t staged, kept; /* bytes of a copy that returns at once from pageable memory; that is done in timing mode */
    long   fail_alloc_after, lose_after, min_batch; /* -1: never */
    long   late_every; /* 0: never */
    bool   host_copies;
    const char * log, * trace;
};

static double setting(const char * name, double usual) {
    const char * text = getenv(name);
    if (text == NULL || *text == '\0') return usual;
    char * end;
    double value = strtod(text, &end);
    if (*end != '\0' || value < 0) {
        fprintf(stderr, "%s=%s: not a number of at least 0; using %g\n", name, text, usual);
        return usual;
    }
    return value;
}

static struct settings read_settings(void) {
    const char * mode = getenv("CARD_MODE");
    struct settings s = {
        .values = mode == NULL || strcmp(mode, "timing") != 0,
        .realtime = setting("CARD_REALTIME", 1) != 0,
        .threads = (int) setting("CARD_THREADS", 1),
        .memory = (size_t) (setting("CARD_MEMORY_MIB", 8192) * (1 << 20)),
        .h2d = setting("CARD_H2D_GBPS", 25),
        .flops = setting("CARD_TFLOPS", 60) * 1e3,
        .bandwidth = setting("CARD_MEM_GBPS", 1000),
        .copy_ns = setting("CARD_COPY_LATENCY_US", 8) * 1e3,
        .launch_ns = setting("CARD_LAUNCH_US", 10) * 1e3,
        .kernel_ns = setting("CARD_KERNEL_US", 1.5) * 1e3,
        .spin_ns = setting("CARD_SPIN_US", 25) * 1e3,
        .staged = (size_t) (setting("CARD_STAGED_KIB", 64) * 1024),
        .kept = (size_t) (setting("CARD_KEPT_KIB", 64) * 1024),
        .fail_alloc_after = getenv("CARD_FAIL_ALLOC_AFTER") != NULL ? (long) setting("CARD_FAIL_ALLOC_AFTER", 0) : -1,
        .lose_after = getenv("CARD_LOSE_AFTER") != NULL ? (long) setting("CARD_LOSE_AFTER", 0) : -1,
        .late_every = (long) setting("CARD_LATE_EVERY", 0),
        .min_batch = (long) setting("GGML_OP_OFFLOAD_MIN_BATCH", 32),
        .host_copies = setting("CARD_HOST_COPIES", 0) != 0,
        .log = getenv("CARD_LOG"),
        .trace = getenv("CARD_TRACE"),
    };
    s.processor = !s.values && getenv("CARD_PROCESSOR") != NULL ? (int) setting("CARD_PROCESSOR", 0) : -1;
    s.d2h = setting("CARD_D2H_GBPS", s.h2d);
    s.pageable = setting("CARD_PAGEABLE_GBPS", s.h2d / 2);
    if (mode != NULL && strcmp(mode, "timing") != 0 && strcmp(mode, "values") != 0) {
        fprintf(stderr, "CARD_MODE=%s: no such mode (values, timing); using values\n", mode);
    }
    return s;
}

#endif
