/* Devices with memory of their own, for tests of the scheduler. Their addresses are valid only while the device works
 * or its buffer is accessed through the interface: an access at another time ends with a signal. They compute with the
 * CPU's kernels, so results are the CPU's bit for bit. */
#ifndef REMOTE_H
#define REMOTE_H

#include "ggml.h"
#include "ggml-backend.h"
#include "ggml-backend-impl.h"
#include "ggml-cpu.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { REMOTES = 2, REMOTE_BUFFERS = 64 };

typedef struct { char * start; size_t size; } remote_block;

typedef struct remote {
    char   name[8];
    bool (*supports)(const struct remote * r, const struct ggml_tensor * t);
    uint32_t seed;           /* for `supports` */
    int      percent;        /* for `supports` */
    enum ggml_op refused;    /* for `supports` */
    int      foreign;        /* nodes that it was given with memory of others */
    char     what[200];      /* the last of them */
    int      computed;       /* nodes */
    remote_block blocks[REMOTE_BUFFERS];
    struct ggml_backend_buffer_type buft;
    struct ggml_backend_device      dev;
    struct ggml_backend             backend;
} remote;

static remote remotes[REMOTES];

static bool is_view(const struct ggml_tensor * t) {
    return t->op == GGML_OP_NONE || t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_PERMUTE || t->op == GGML_OP_TRANSPOSE;
}

static ggml_backend_buffer_t buffer_of(const struct ggml_tensor * t) {
    return t->view_src != NULL ? t->view_src->buffer : t->buffer;
}

/* Opens or closes the memory of a device. */
static void remote_open(remote * r, bool open) {
    for (int i = 0; i < REMOTE_BUFFERS; i++) {
        if (r->blocks[i].start != NULL) {
            mprotect(r->blocks[i].start, r->blocks[i].size, open ? PROT_READ | PROT_WRITE : PROT_NONE);
        }
    }
}

static remote * buft_remote(ggml_backend_buffer_type_t t) { return t->context; }
static remote * buffer_remote(ggml_backend_buffer_t b) { return buft_remote(b->buft); }
static const char * remote_buft_name(ggml_backend_buffer_type_t t) { return buft_remote(t)->name; }

static void remote_free(ggml_backend_buffer_t b) {
    remote_block * block = b->context;
    munmap(block->start, block->size);
    block->start = NULL;
}
static void * remote_base(ggml_backend_buffer_t b) { return ((remote_block *) b->context)->start; }
static void remote_memset(ggml_backend_buffer_t b, struct ggml_tensor * t, uint8_t v, size_t offset, size_t n) {
    remote_open(buffer_remote(b), true);
    memset((char *) t->data + offset, v, n);
    remote_open(buffer_remote(b), false);
}
static void remote_set(ggml_backend_buffer_t b, struct ggml_tensor * t, const void * data, size_t offset, size_t n) {
    remote_open(buffer_remote(b), true);
    memcpy((char *) t->data + offset, data, n);
    remote_open(buffer_remote(b), false);
}
static void remote_get(ggml_backend_buffer_t b, const struct ggml_tensor * t, void * data, size_t offset, size_t n) {
    remote_open(buffer_remote(b), true);
    memcpy(data, (const char *) t->data + offset, n);
    remote_open(buffer_remote(b), false);
}
static void remote_clear(ggml_backend_buffer_t b, uint8_t v) {
    remote_open(buffer_remote(b), true);
    memset(remote_base(b), v, b->size);
    remote_open(buffer_remote(b), false);
}

static ggml_backend_buffer_t remote_alloc(ggml_backend_buffer_type_t t, size_t size) {
    remote * r = buft_remote(t);
    const struct ggml_backend_buffer_i iface = {
        .free_buffer = remote_free, .get_base = remote_base, .memset_tensor = remote_memset, .set_tensor = remote_set,
        .get_tensor = remote_get, .clear = remote_clear,
    };
    for (int i = 0; i < REMOTE_BUFFERS; i++) {
        remote_block * block = &r->blocks[i];
        if (block->start == NULL) {
            block->size  = (size + 4095) / 4096 * 4096 + 4096;
            block->start = mmap(NULL, block->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            return ggml_backend_buffer_init(t, iface, block, size);
        }
    }
    return NULL;
}
static size_t remote_alignment(ggml_backend_buffer_type_t t) { (void) t; return 64; }
static bool remote_is_host(ggml_backend_buffer_type_t t) { (void) t; return false; }

static const char * remote_name(ggml_backend_dev_t d) { return ((remote *) d->context)->name; }
static void remote_memory(ggml_backend_dev_t d, size_t * a, size_t * b) { (void) d; *a = *b = (size_t) 8 << 30; }
static enum ggml_backend_dev_type remote_type(ggml_backend_dev_t d) { (void) d; return GGML_BACKEND_DEVICE_TYPE_GPU; }
static void remote_props(ggml_backend_dev_t d, struct ggml_backend_dev_props * p) {
    memset(p, 0, sizeof *p);
    p->name = p->description = remote_name(d);
    p->type = GGML_BACKEND_DEVICE_TYPE_GPU;
}
static ggml_backend_t remote_init(ggml_backend_dev_t d, const char * params) { (void) params; return &((remote *) d->context)->backend; }
static ggml_backend_buffer_type_t remote_buft(ggml_backend_dev_t d) { return &((remote *) d->context)->buft; }
static bool remote_supports_op(ggml_backend_dev_t d, const struct ggml_tensor * t) {
    const remote * r = d->context;
    return is_view(t) || r->supports(r, t);
}
static bool remote_supports_buft(ggml_backend_dev_t d, ggml_backend_buffer_type_t t) { return t == &((remote *) d->context)->buft; }

static const char * remote_backend_name(ggml_backend_t b) { return ((remote *) b->context)->name; }
static void remote_backend_free(ggml_backend_t b) { (void) b; }

static void remote_check(remote * r, const struct ggml_tensor * node, const struct ggml_tensor * t) {
    ggml_backend_buffer_t b = buffer_of(t);
    if (b == NULL || b->buft != &r->buft) {
        r->foreign++;
        snprintf(r->what, sizeof r->what, "%s is given %s of %s, in %s", r->name, node == t ? "the result" : "a source", ggml_op_desc(node),
            b != NULL ? ggml_backend_buffer_name(b) : "no buffer");
    }
}

static enum ggml_status remote_compute(ggml_backend_t b, struct ggml_cgraph * g) {
    remote * r = b->context;
    const int before = r->foreign;
    for (int i = 0; i < ggml_graph_n_nodes(g); i++) {
        struct ggml_tensor * t = ggml_graph_node(g, i);
        if (is_view(t)) { continue; }
        r->computed++;
        remote_check(r, t, t);
        for (int j = 0; j < GGML_MAX_SRC; j++) {
            if (t->src[j] != NULL) { remote_check(r, t, t->src[j]); }
        }
    }
    if (r->foreign > before) { return GGML_STATUS_FAILED; }
    struct ggml_cplan plan = ggml_graph_plan(g, 1, NULL);
    plan.work_data = malloc(plan.work_size + 64);
    remote_open(r, true);
    const enum ggml_status status = ggml_graph_compute(g, &plan);
    remote_open(r, false);
    free(plan.work_data);
    return status;
}

static ggml_guid remote_guid = { 'r', 'e', 'm', 'o', 't', 'e' };

static ggml_backend_t remote_make(int i, bool (*supports)(const remote *, const struct ggml_tensor *)) {
    remote * r = &remotes[i];
    snprintf(r->name, sizeof r->name, "OWN%d", i);
    r->supports = supports;
    r->buft.iface = (struct ggml_backend_buffer_type_i) {
        .get_name = remote_buft_name, .alloc_buffer = remote_alloc, .get_alignment = remote_alignment, .is_host = remote_is_host,
    };
    r->buft.device = &r->dev;
    r->buft.context = r;
    r->dev.iface = (struct ggml_backend_device_i) {
        .get_name = remote_name, .get_description = remote_name, .get_memory = remote_memory, .get_type = remote_type,
        .get_props = remote_props, .init_backend = remote_init, .get_buffer_type = remote_buft, .supports_op = remote_supports_op,
        .supports_buft = remote_supports_buft,
    };
    r->dev.context = r;
    r->backend.guid = &remote_guid;
    r->backend.device = &r->dev;
    r->backend.context = r;
    r->backend.iface = (struct ggml_backend_i) { .get_name = remote_backend_name, .free = remote_backend_free, .graph_compute = remote_compute };
    return &r->backend;
}

#endif
