/* The card's memory, the pinned memory of the host, and copies between them. */
#ifndef CARD_MEMORY_H
#define CARD_MEMORY_H

#include "engines.h"

#include "ggml.h"
#include "ggml-backend.h"
#include "ggml-backend-impl.h"

#include <sys/mman.h>

struct card {
    struct settings settings;
    struct engine engines[ENGINES];
    pthread_mutex_t computing; /* held by the job that computes values or choices */
    struct ggml_backend_buffer_type buft, host_buft;
    struct ggml_backend_device dev;
    struct ggml_backend_reg reg;
    pthread_mutex_t lock; /* for what follows */
    size_t used, peak, pinned;
    long   allocations, computations;
    struct pinned * ranges;
    struct stream * free_streams;
    bool   initialised;
    _Atomic long       copies_to_card;
    ggml_backend_t     cpu; /* whose kernels it uses; used under `computing` */
    ggml_backend_dev_t cpu_dev;
    /* for the log */
    uint64_t graphs, nodes, experts;
};

static struct card card;

/* ---- pinned memory ---- */

struct pinned {
    struct pinned * next;
    char * begin;
    size_t size;
};

static bool is_pinned(const void * p, size_t size) {
    const char * c = p;
    bool found = false;
    pthread_mutex_lock(&card.lock);
    for (struct pinned * r = card.ranges; r != NULL && !found; r = r->next) {
        found = c >= r->begin && c + size <= r->begin + r->size;
    }
    pthread_mutex_unlock(&card.lock);
    return found;
}

static const char * host_buft_name(ggml_backend_buffer_type_t t) { (void) t; return "CARD_Host"; }
static size_t buft_alignment(ggml_backend_buffer_type_t t) { (void) t; return 128; }
static bool host_buft_is_host(ggml_backend_buffer_type_t t) { (void) t; return true; }

static void host_buffer_free(ggml_backend_buffer_t b) {
    struct pinned * r = b->context;
    pthread_mutex_lock(&card.lock);
    for (struct pinned ** p = &card.ranges; *p != NULL; p = &(*p)->next) {
        if (*p == r) { *p = r->next; break; }
    }
    card.pinned -= r->size;
    pthread_mutex_unlock(&card.lock);
    munmap(r->begin, r->size);
    free(r);
}
static void * host_buffer_base(ggml_backend_buffer_t b) { return ((struct pinned *) b->context)->begin; }
static void host_buffer_memset(ggml_backend_buffer_t b, struct ggml_tensor * t, uint8_t v, size_t offset, size_t size) {
    (void) b;
    memset((char *) t->data + offset, v, size);
}
static void host_buffer_set(ggml_backend_buffer_t b, struct ggml_tensor * t, const void * data, size_t offset, size_t size) {
    (void) b;
    memcpy((char *) t->data + offset, data, size);
}
static void host_buffer_get(ggml_backend_buffer_t b, const struct ggml_tensor * t, void * data, size_t offset, size_t size) {
    (void) b;
    memcpy(data, (const char *) t->data + offset, size);
}
static bool host_buffer_cpy(ggml_backend_buffer_t b, const struct ggml_tensor * src, struct ggml_tensor * dst) {
    (void) b;
    if (!ggml_backend_buffer_is_host(src->view_src != NULL ? src->view_src->buffer : src->buffer)) return false;
    memcpy(dst->data, src->data, ggml_nbytes(src));
    return true;
}
static void host_buffer_clear(ggml_backend_buffer_t b, uint8_t v) { memset(host_buffer_base(b), v, b->size); }

static ggml_backend_buffer_t host_buft_alloc(ggml_backend_buffer_type_t t, size_t size) {
    struct pinned * r = malloc(sizeof(*r));
    if (r == NULL) return NULL;
    *r = (struct pinned) { .size = size > 0 ? size : 1 };
    r->begin = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r->begin == MAP_FAILED) { free(r); return NULL; }
    pthread_mutex_lock(&card.lock);
    r->next = card.ranges;
    card.ranges = r;
    card.pinned += r->size;
    pthread_mutex_unlock(&card.lock);
    struct ggml_backend_buffer_i iface = {
        .free_buffer = host_buffer_free, .get_base = host_buffer_base, .memset_tensor = host_buffer_memset,
        .set_tensor = host_buffer_set, .get_tensor = host_buffer_get, .cpy_tensor = host_buffer_cpy,
        .clear = host_buffer_clear,
    };
    return ggml_backend_buffer_init(t, iface, r, size);
}

/* ---- the card's memory ---- */

/* `base`: the addresses that hosts see, where any access faults. `bytes`: where the bytes are. */
struct memory {
    char * base, * bytes;
    size_t size;
};

static const char * card_buft_name(ggml_backend_buffer_type_t t) { (void) t; return "CARD0"; }

static ggml_backend_buffer_t buffer_of(const struct ggml_tensor * t) {
    return t->view_src != NULL ? t->view_src->buffer : t->buffer;
}
static bool on_card(const struct ggml_tensor * t) {
    ggml_backend_buffer_t b = buffer_of(t);
    return b != NULL && b->buft == &card.buft;
}

/* Where the bytes of a tensor are. */
static char * real(const struct ggml_tensor * t) {
    ggml_backend_buffer_t b = buffer_of(t);
    if (!on_card(t) || b->context == NULL || t->data == NULL) return t->data;
    struct memory * m = b->context;
    return m->bytes + ((char *) t->data - m->base);
}

/* ---- copies ---- */

struct copy {
    struct job job;
    int    engine; /* COMPUTE: within the card's memory */
    char * dst;
    const char * src;
    size_t size, n, dst_stride, src_stride; /* n pieces of `size` bytes */
    bool   pinned, indices; /* `indices`: of a tensor of integers */
    char * staged;          /* the source is in this copy of it */
};

/* In timing mode nothing depends on the values of large tensors, and their copies would take the host's processors.
 * Hosts then get zeros, which no kernel computes slowly; in very large tensors, what was there before. */
static void copy_bytes(const struct copy * c) {
    size_t whole = c->size * c->n;
    bool all = card.settings.values || c->indices || whole <= card.settings.kept;
    bool zeros = c->engine == FROM_CARD && whole <= 64 * card.settings.kept;
    for (size_t i = 0; i < c->n; i++) {
        if (all) memmove(c->dst + i * c->dst_stride, c->src + i * c->src_stride, c->size);
        else if (zeros) memset(c->dst + i * c->dst_stride, 0, c->size);
    }
}

static double copy_duration(const struct copy * c) {
    const struct settings * s = &card.settings;
    double bytes = (double) c->size * (double) c->n;
    if (c->engine == COMPUTE) return s->kernel_ns + 2 * bytes / s->bandwidth;
    double full = c->engine == TO_CARD ? s->h2d : s->d2h;
    return s->copy_ns + bytes / (c->pinned || s->pageable > full ? full : s->pageable);
}

static const ns_t LATE = 20000000;

static ns_t copy_now(const struct copy * c, ns_t ready) {
    struct engine * e = &card.engines[c->engine];
    ns_t begun = now();
    if (c->engine == TO_CARD && card.settings.late_every > 0 && ++card.copies_to_card % card.settings.late_every == 0) {
        sleep_until(begun + LATE, &card.settings);
    }
    copy_bytes(c);
    if (c->engine != COMPUTE) {
        pthread_mutex_lock(&e->lock);
        e->bytes += c->size * c->n;
        if (!c->pinned) e->pageable += c->size * c->n;
        pthread_mutex_unlock(&e->lock);
    }
    return engine_spend(e, ready, begun, copy_duration(c));
}
static ns_t copy_run(struct job * j, ns_t ready) { return copy_now((struct copy *) j, ready); }
static void copy_end(struct job * j) { free(((struct copy *) j)->staged); }

static bool is_indices(const struct ggml_tensor * t) { return t->type == GGML_TYPE_I32 || t->type == GGML_TYPE_I64; }

static struct copy copy_to(const struct ggml_tensor * t, const void * data, size_t offset, size_t size) {
    return (struct copy) { .engine = TO_CARD, .dst = real(t) + offset, .src = data, .size = size, .n = 1,
                           .pinned = is_pinned(data, size), .indices = is_indices(t) };
}
static struct copy copy_from(const struct ggml_tensor * t, void * data, size_t offset, size_t size) {
    return (struct copy) { .engine = FROM_CARD, .dst = data, .src = real(t) + offset, .size = size, .n = 1,
                           .pinned = is_pinned(data, size), .indices = is_indices(t) };
}
static struct copy rows(struct copy c, size_t n, size_t dst_stride, size_t src_stride) {
    c.n = n;
    c.dst_stride = dst_stride;
    c.src_stride = src_stride;
    char * host = c.engine == TO_CARD ? (char *) (uintptr_t) c.src : c.dst;
    size_t stride = c.engine == TO_CARD ? src_stride : dst_stride;
    c.pinned = n > 0 && is_pinned(host, (n - 1) * stride + c.size);
    return c;
}

/* ---- buffers ---- */

static void card_buffer_free(ggml_backend_buffer_t b) {
    struct memory * m = b->context;
    pthread_mutex_lock(&card.lock);
    card.used -= m->size;
    pthread_mutex_unlock(&card.lock);
    munmap(m->base, m->size);
    munmap(m->bytes, m->size);
    free(m);
}
static void * card_buffer_base(ggml_backend_buffer_t b) { return ((struct memory *) b->context)->base; }
static void fill(char * at, uint8_t v, size_t size) {
    ns_t begun = now();
    if (card.settings.values || size <= card.settings.kept) memset(at, v, size);
    double duration = card.settings.kernel_ns + (double) size / card.settings.bandwidth;
    sleep_until(engine_spend(&card.engines[COMPUTE], begun, begun, duration), &card.settings);
}
static void card_buffer_memset(ggml_backend_buffer_t b, struct ggml_tensor * t, uint8_t v, size_t offset, size_t size) {
    (void) b;
    fill(real(t) + offset, v, size);
}
static void card_buffer_clear(ggml_backend_buffer_t b, uint8_t v) { fill(((struct memory *) b->context)->bytes, v, b->size); }
static void copy_and_wait(struct copy c) { sleep_until(copy_now(&c, now()), &card.settings); }
static void card_buffer_set(ggml_backend_buffer_t b, struct ggml_tensor * t, const void * data, size_t offset, size_t size) {
    (void) b;
    copy_and_wait(copy_to(t, data, offset, size));
}
static void card_buffer_get(ggml_backend_buffer_t b, const struct ggml_tensor * t, void * data, size_t offset, size_t size) {
    (void) b;
    copy_and_wait(copy_from(t, data, offset, size));
}
static void card_buffer_set_2d(ggml_backend_buffer_t b, struct ggml_tensor * t, const void * data, size_t offset,
                               size_t size, size_t n, size_t stride_t, size_t stride_d) {
    (void) b;
    copy_and_wait(rows(copy_to(t, data, offset, size), n, stride_t, stride_d));
}
static void card_buffer_get_2d(ggml_backend_buffer_t b, const struct ggml_tensor * t, void * data, size_t offset,
                               size_t size, size_t n, size_t stride_t, size_t stride_d) {
    (void) b;
    copy_and_wait(rows(copy_from(t, data, offset, size), n, stride_d, stride_t));
}
static struct copy copy_within(const struct ggml_tensor * src, struct ggml_tensor * dst) {
    return (struct copy) { .engine = COMPUTE, .dst = real(dst), .src = real(src), .size = ggml_nbytes(src), .n = 1,
                           .indices = is_indices(src) };
}
static bool card_buffer_cpy(ggml_backend_buffer_t b, const struct ggml_tensor * src, struct ggml_tensor * dst) {
    (void) b;
    if (!on_card(src)) return false;
    copy_and_wait(copy_within(src, dst));
    return true;
}

static ggml_backend_buffer_t card_buft_alloc(ggml_backend_buffer_type_t t, size_t size) {
    size_t whole = (size + 4095) / 4096 * 4096;
    if (whole == 0) whole = 4096;
    pthread_mutex_lock(&card.lock);
    bool fits = whole <= card.settings.memory - card.used;
    if (card.settings.fail_alloc_after >= 0 && card.allocations >= card.settings.fail_alloc_after) fits = false;
    if (fits) {
        card.allocations++;
        card.used += whole;
        if (card.used > card.peak) card.peak = card.used;
    }
    pthread_mutex_unlock(&card.lock);
    if (!fits) return NULL;
    struct memory * m = malloc(sizeof(*m));
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char * base = mmap(NULL, whole, PROT_NONE, flags, -1, 0);
    char * bytes = mmap(NULL, whole, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (m == NULL || base == MAP_FAILED || bytes == MAP_FAILED) abort();
    *m = (struct memory) { base, bytes, whole };
    struct ggml_backend_buffer_i iface = {
        .free_buffer = card_buffer_free, .get_base = card_buffer_base, .memset_tensor = card_buffer_memset,
        .set_tensor = card_buffer_set, .get_tensor = card_buffer_get, .set_tensor_2d = card_buffer_set_2d,
        .get_tensor_2d = card_buffer_get_2d, .cpy_tensor = card_buffer_cpy, .clear = card_buffer_clear,
    };
    return ggml_backend_buffer_init(t, iface, m, size);
}

#endif
