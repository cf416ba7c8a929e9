// Devices that compute nothing and record every call. Addresses are numbers, not memory: buffer k begins at k * 2^32,
// so that two runs that do the same things in the same order print the same text.
#ifndef FAKE_H
#define FAKE_H

#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-backend-impl.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The compute graph is no public struct. Devices that compute read it through these.
#define GRAPH_N(g) ggml_graph_n_nodes(g)
#define GRAPH_NODE(g, i) ggml_graph_node(g, i)

typedef struct { uint64_t s; } rng_t;

static uint64_t rng_next(rng_t * r) {
    uint64_t z = (r->s += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}
static int  rng_int(rng_t * r, int n) { return n <= 0 ? 0 : (int) (rng_next(r) % (uint64_t) n); }
static bool rng_odds(rng_t * r, int percent) { return rng_int(r, 100) < percent; }

static uint32_t mix(uint32_t a, uint32_t b) {
    uint32_t h = (a ^ 0x9E3779B9u) * 0x85EBCA6Bu + b;
    h ^= h >> 15; h *= 0xC2B2AE35u; h ^= h >> 13;
    return h;
}

#define MAX_FAKES 8

typedef struct fake {
    int    index;
    char   name[32];
    enum ggml_backend_dev_type type;
    uint32_t op_seed;
    int    op_percent;       // of the ops it computes
    int    offload_percent;
    bool   has_host_buft;    // can use other host buffers too
    bool   has_events, has_async_cpy, cpy_async_works, has_sync, has_set_async;
    bool   optimizes;
    bool   is_host;
    size_t alignment, max_size;
    bool   expands;          // needs more bytes for some ops
    int    fail_alloc;       // fails the k-th allocation from now on, 0: never
    struct fake * shares;    // computes in the buffer type of that one
    uint32_t buft_mask;      // bit i: can use buffers of fake i
    struct ggml_backend_buffer_type buft;
    struct ggml_backend_device      dev;
    struct ggml_backend             backend;
    struct ggml_backend_reg         reg;
} fake_t;

static fake_t fakes[MAX_FAKES];
static int    n_fakes;
static int    fake_buffers, fake_events;
static bool   fake_quiet;

static void say(const char * fmt, ...) {
    if (fake_quiet) return;
    va_list ap; va_start(ap, fmt); vprintf(fmt, ap); va_end(ap);
}

// buffer type -------------------------------------------------------------------------------------------------------
typedef struct { uintptr_t base; int number; } fake_buffer_t;

static fake_t * buft_fake(ggml_backend_buffer_type_t t) { return (fake_t *) t->context; }
static const char * buft_name(ggml_backend_buffer_type_t t) { return buft_fake(t)->name; }

static void buf_free(ggml_backend_buffer_t b) {
    say("  free buffer %d\n", ((fake_buffer_t *) b->context)->number);
    free(b->context);
}
static void * buf_base(ggml_backend_buffer_t b) { return (void *) ((fake_buffer_t *) b->context)->base; }
static void buf_memset(ggml_backend_buffer_t b, struct ggml_tensor * t, uint8_t v, size_t off, size_t n) {
    (void) b; say("  memset %s %d %zu %zu\n", t->name, v, off, n);
}
static void buf_set(ggml_backend_buffer_t b, struct ggml_tensor * t, const void * d, size_t off, size_t n) {
    (void) b; say("  set %s @%p from %p off=%zu n=%zu\n", t->name, t->data, d, off, n);
}
static void fill_ids(const struct ggml_tensor * t, void * d, size_t off, size_t n) {
    for (size_t i = 0; i + 4 <= n; i += 4) {
        int32_t v = t->type == GGML_TYPE_I32 ? (int32_t) (mix((uint32_t) ((off + i) / 4), 77) % 8) : 0;
        memcpy((char *) d + i, &v, 4);
    }
}
static void buf_get(ggml_backend_buffer_t b, const struct ggml_tensor * t, void * d, size_t off, size_t n) {
    // The destination may be a number: an address in another host buffer.
    (void) b; say("  get %s @%p off=%zu n=%zu\n", t->name, t->data, off, n);
    if (t->type == GGML_TYPE_I32 && (uintptr_t) d >> 44 != 0) fill_ids(t, d, off, n);
}
static bool buf_cpy(ggml_backend_buffer_t b, const struct ggml_tensor * s, struct ggml_tensor * t) {
    (void) b; say("  cpy %s @%p -> %s @%p\n", s->name, s->data, t->name, t->data); return true;
}
static void buf_clear(ggml_backend_buffer_t b, uint8_t v) { (void) b; (void) v; }

static ggml_backend_buffer_t buft_alloc(ggml_backend_buffer_type_t t, size_t size) {
    fake_t * f = buft_fake(t);
    if (f->fail_alloc > 0 && --f->fail_alloc == 0) { say("  alloc %s %zu fails\n", f->name, size); return NULL; }
    fake_buffer_t * c = malloc(sizeof(*c));
    c->number = ++fake_buffers;
    c->base = (uintptr_t) c->number << 32;
    say("  alloc %s %zu = buffer %d\n", f->name, size, c->number);
    struct ggml_backend_buffer_i i = {
        .free_buffer = buf_free, .get_base = buf_base, .memset_tensor = buf_memset, .set_tensor = buf_set,
        .get_tensor = buf_get, .cpy_tensor = buf_cpy, .clear = buf_clear,
    };
    return ggml_backend_buffer_init(t, i, c, size);
}
static size_t buft_alignment(ggml_backend_buffer_type_t t) { return buft_fake(t)->alignment; }
static size_t buft_max(ggml_backend_buffer_type_t t) { return buft_fake(t)->max_size; }
static size_t buft_size(ggml_backend_buffer_type_t t, const struct ggml_tensor * x) {
    size_t n = ggml_nbytes(x);
    if (buft_fake(t)->expands) {
        if (x->op == GGML_OP_MUL_MAT || x->op == GGML_OP_ARGSORT) n += 4096 + x->ne[0] * 16;
        if (ggml_is_quantized(x->type)) n += 512;
    }
    return n;
}
static bool buft_host(ggml_backend_buffer_type_t t) { return buft_fake(t)->is_host; }

// device ------------------------------------------------------------------------------------------------------------
static fake_t * dev_fake(ggml_backend_dev_t d) { return (fake_t *) d->context; }
static const char * dev_name(ggml_backend_dev_t d) { return dev_fake(d)->name; }
static void dev_memory(ggml_backend_dev_t d, size_t * a, size_t * b) { (void) d; *a = *b = 0; }
static enum ggml_backend_dev_type dev_type(ggml_backend_dev_t d) { return dev_fake(d)->type; }
static void dev_props(ggml_backend_dev_t d, struct ggml_backend_dev_props * p) {
    memset(p, 0, sizeof(*p)); p->name = p->description = dev_name(d); p->type = dev_type(d);
}
static ggml_backend_t dev_init(ggml_backend_dev_t d, const char * p) { (void) p; return &dev_fake(d)->backend; }
static ggml_backend_buffer_type_t dev_buft(ggml_backend_dev_t d) {
    fake_t * f = dev_fake(d); return f->shares ? &f->shares->buft : &f->buft;
}
static bool dev_supports_op(ggml_backend_dev_t d, const struct ggml_tensor * t) {
    fake_t * f = dev_fake(d);
    if (f->op_percent >= 100) return true;
    switch (t->op) {
        case GGML_OP_NONE: case GGML_OP_VIEW: case GGML_OP_RESHAPE: case GGML_OP_PERMUTE: case GGML_OP_TRANSPOSE: return true;
        default: break;
    }
    uint32_t h = mix(f->op_seed, (uint32_t) t->op * 64 + (t->op == GGML_OP_UNARY ? (uint32_t) ggml_get_unary_op(t) : 0));
    h = mix(h, t->op == GGML_OP_MUL_MAT ? (uint32_t) t->src[0]->type : (uint32_t) (t->ne[0] > 64));
    return (int) (h % 100) < f->op_percent;
}
static bool dev_supports_buft(ggml_backend_dev_t d, ggml_backend_buffer_type_t t) {
    fake_t * f = dev_fake(d), * o = buft_fake(t);
    return o == f || o == f->shares || (f->has_host_buft && o->is_host) || (f->buft_mask >> o->index & 1);
}
static bool dev_offload(ggml_backend_dev_t d, const struct ggml_tensor * t) {
    fake_t * f = dev_fake(d);
    return (int) (mix(f->op_seed + 5, (uint32_t) t->op * 8 + (uint32_t) (t->ne[1] >= 8)) % 100) < f->offload_percent;
}
static ggml_backend_event_t event_new(ggml_backend_dev_t d) {
    ggml_backend_event_t e = malloc(sizeof(*e));
    e->device = d; e->context = (void *) (intptr_t) ++fake_events;
    return e;
}
static void event_free(ggml_backend_dev_t d, ggml_backend_event_t e) { (void) d; free(e); }
static void event_sync(ggml_backend_dev_t d, ggml_backend_event_t e) { say("  %s: event sync %d\n", dev_name(d), (int) (intptr_t) e->context); }

// backend -----------------------------------------------------------------------------------------------------------
static fake_t * be_fake(ggml_backend_t b) { return (fake_t *) b->context; }
static const char * be_name(ggml_backend_t b) { return be_fake(b)->name; }
static void be_free(ggml_backend_t b) { (void) b; }
static void be_sync(ggml_backend_t b) { say("  %s: synchronize\n", be_name(b)); }
static void be_set_async(ggml_backend_t b, struct ggml_tensor * t, const void * d, size_t off, size_t n) {
    say("  %s: set_async %s @%p from %p off=%zu n=%zu\n", be_name(b), t->name, t->data, d, off, n);
}
static void be_get_async(ggml_backend_t b, const struct ggml_tensor * t, void * d, size_t off, size_t n) {
    say("  %s: get_async %s @%p off=%zu n=%zu\n", be_name(b), t->name, t->data, off, n);
    fill_ids(t, d, off, n);
}
static bool be_cpy_async(ggml_backend_t s, ggml_backend_t d, const struct ggml_tensor * a, struct ggml_tensor * b) {
    bool ok = be_fake(d)->cpy_async_works;
    say("  %s -> %s: cpy_async %s @%p -> %s @%p %d\n", be_name(s), be_name(d), a->name, a->data, b->name, b->data, ok);
    return ok;
}
static void be_record(ggml_backend_t b, ggml_backend_event_t e) { say("  %s: record %d\n", be_name(b), (int) (intptr_t) e->context); }
static void be_wait(ggml_backend_t b, ggml_backend_event_t e) { say("  %s: wait %d\n", be_name(b), (int) (intptr_t) e->context); }

static void print_tensor(const struct ggml_tensor * t) {
    say("%s@%p/%s", t->name, t->data, t->buffer ? ggml_backend_buffer_name(t->buffer) : "-");
}
static enum ggml_status be_compute(ggml_backend_t b, struct ggml_cgraph * g) {
    say("  %s: compute %d nodes\n", be_name(b), GRAPH_N(g));
    for (int i = 0; i < GRAPH_N(g); i++) {
        const struct ggml_tensor * t = GRAPH_NODE(g, i);
        say("    %s ", ggml_op_desc(t)); print_tensor(t); say(" <=");
        for (int j = 0; j < GGML_MAX_SRC; j++) if (t->src[j]) { say(" %d:", j); print_tensor(t->src[j]); }
        say("\n");
    }
    return GGML_STATUS_SUCCESS;
}

// Whether a reads b or the memory of b.
static bool reads(const struct ggml_tensor * a, const struct ggml_tensor * b) {
    const struct ggml_tensor * br = b->view_src ? b->view_src : b, * ar = a->view_src ? a->view_src : a;
    if (ar == br) return true;
    for (int j = 0; j < GGML_MAX_SRC; j++) {
        const struct ggml_tensor * s = a->src[j];
        if (s && (s == b || (s->view_src ? s->view_src : s) == br)) return true;
    }
    return false;
}

// The leading fields of the graph struct, which are enough to move its nodes.
struct graph_head { int size, n_nodes, n_leafs; struct ggml_tensor ** nodes; };

static void be_optimize(ggml_backend_t b, struct ggml_cgraph * g, struct ggml_backend_graph_optimize_params * p) {
    struct graph_head * h = (struct graph_head *) g;
    fake_t * f = be_fake(b);
    for (int i = 0; i + 1 < h->n_nodes; i++) {
        struct ggml_tensor * x = h->nodes[i], * y = h->nodes[i + 1];
        if (mix(f->op_seed + 9, (uint32_t) i) % 4 == 0 && !reads(y, x) && !reads(x, y)) {
            h->nodes[i] = y; h->nodes[i + 1] = x;
        }
    }
    for (int i = 0; i + 3 < h->n_nodes; i++) {
        if (mix(f->op_seed + 11, (uint32_t) i) % 6 == 0) {
            int until = i + 1 + (int) (mix(f->op_seed + 13, (uint32_t) i) % 3);
            p->add_alloc_dep(p->user_data, h->nodes[i], h->nodes[until]);
            p->add_alloc_dep(p->user_data, h->nodes[i], h->nodes[until]);
        }
    }
}

static ggml_guid fake_guid = { 1, 2, 3 };

static void fake_finish(fake_t * f) {
    f->buft.iface = (struct ggml_backend_buffer_type_i) {
        .get_name = buft_name, .alloc_buffer = buft_alloc, .get_alignment = buft_alignment,
        .get_max_size = f->max_size ? buft_max : NULL, .get_alloc_size = f->expands ? buft_size : NULL, .is_host = buft_host,
    };
    f->buft.device = &f->dev; f->buft.context = f;
    f->dev.iface = (struct ggml_backend_device_i) {
        .get_name = dev_name, .get_description = dev_name, .get_memory = dev_memory, .get_type = dev_type,
        .get_props = dev_props, .init_backend = dev_init, .get_buffer_type = dev_buft, .supports_op = dev_supports_op,
        .supports_buft = dev_supports_buft, .offload_op = f->offload_percent ? dev_offload : NULL,
        .event_new = f->has_events ? event_new : NULL, .event_free = event_free, .event_synchronize = event_sync,
    };
    f->dev.context = f; f->dev.reg = NULL;
    f->backend.guid = &fake_guid;
    f->backend.iface = (struct ggml_backend_i) {
        .get_name = be_name, .free = be_free,
        .set_tensor_async = f->has_set_async ? be_set_async : NULL, .get_tensor_async = f->has_set_async ? be_get_async : NULL,
        .cpy_tensor_async = f->has_async_cpy ? be_cpy_async : NULL, .synchronize = f->has_sync ? be_sync : NULL,
        .graph_compute = be_compute, .event_record = f->has_events ? be_record : NULL, .event_wait = f->has_events ? be_wait : NULL,
        .graph_optimize = f->optimizes ? be_optimize : NULL,
    };
    f->backend.device = &f->dev; f->backend.context = f;
}

#endif
