/* Devices in C that compute with the CPU's kernels. Each has a thread and a queue of its own, and is as late and as
 * slow as it is set to be.
 *
 * Set what a device can do before it is finished: work in a queue or at once, move data in the queue, record events,
 * take copies from other devices or out of host memory, use host buffers in place. Its memory may be unmapped: tensors
 * then get addresses at which a host crashes if it reads or writes them directly. It can fail: its k-th buffer, its
 * k-th event, its k-th computation. */
#ifndef DEVICE_H
#define DEVICE_H

#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-backend-impl.h"
#include "ggml-cpu.h"

#include "../common/node.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_DEVICES 8

struct device;

struct job {
    struct job * next;
    void (*run)(struct job *);
    struct device * wait_for; /* before it runs: until that device has done `wait_until` jobs */
    size_t wait_until;
    /* a computation */
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    /* a copy */
    void *       dst;
    const void * src;
    size_t       size;
    struct device * device;
};

struct device {
    char name[32];
    enum ggml_backend_dev_type type;
    bool queue, transfers, events, copies, host_copies, reads_host, unmapped, is_host;
    bool only_set_2d, only_get_2d;
    bool batches, refuses_copies; /* batched transfers; batched copies that fail */
    int  slow;          /* microseconds that a job sleeps at most */
    size_t max_size, alignment, padding;
    bool (*supports)(const struct ggml_tensor *);
    bool (*offloads)(const struct ggml_tensor *);
    /* the k-th from now on fails, 0: none */
    int fail_buffer, fail_event, fail_compute;
    bool lost;          /* every computation fails */
    /* what happened */
    int live_buffers, live_events, n_buffers, n_computes, n_inits, n_2d, n_batches, n_singles;
    enum ggml_backend_buffer_usage last_init_usage;
    int poison;         /* fills new buffers with this byte, -1: not */

    struct ggml_backend_buffer_type buft;
    struct ggml_backend_device dev;
    struct ggml_backend backend;

    ggml_backend_t cpu; /* whose kernels it uses */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct job * first, * last;
    size_t queued, done;
    bool stop, started;
    unsigned seed;
};

/* ---- the queue ---- */

static void device_wait(struct device * d, size_t until) {
    if (!d->queue) return;
    pthread_mutex_lock(&d->lock);
    while (d->done < until) pthread_cond_wait(&d->change, &d->lock);
    pthread_mutex_unlock(&d->lock);
}

static void * device_main(void * arg) {
    struct device * d = arg;
    for (;;) {
        pthread_mutex_lock(&d->lock);
        while (d->first == NULL && !d->stop) pthread_cond_wait(&d->change, &d->lock);
        struct job * job = d->first;
        if (job == NULL) { pthread_mutex_unlock(&d->lock); return NULL; }
        d->first = job->next;
        if (d->first == NULL) d->last = NULL;
        pthread_mutex_unlock(&d->lock);
        if (job->wait_for != NULL) device_wait(job->wait_for, job->wait_until);
        if (d->slow > 0) usleep((useconds_t) (rand_r(&d->seed) % d->slow));
        if (job->run != NULL) job->run(job);
        free(job);
        pthread_mutex_lock(&d->lock);
        d->done++;
        pthread_cond_broadcast(&d->change);
        pthread_mutex_unlock(&d->lock);
    }
}

static size_t device_mark(struct device * d) {
    pthread_mutex_lock(&d->lock);
    size_t n = d->queued;
    pthread_mutex_unlock(&d->lock);
    return n;
}

/* Queues a job, or does it. Returns its number. */
static size_t device_push(struct device * d, struct job job) {
    job.device = d;
    if (!d->queue) {
        if (job.wait_for != NULL) device_wait(job.wait_for, job.wait_until);
        if (job.run != NULL) job.run(&job);
        return 0;
    }
    struct job * j = malloc(sizeof(*j));
    *j = job;
    j->next = NULL;
    pthread_mutex_lock(&d->lock);
    if (d->last != NULL) d->last->next = j; else d->first = j;
    d->last = j;
    size_t number = ++d->queued;
    pthread_cond_broadcast(&d->change);
    pthread_mutex_unlock(&d->lock);
    return number;
}

/* ---- buffers ---- */

struct memory {
    struct device * device;
    char * bytes;
    char * base;
};

static atomic_int device_ranges;

static struct device * device_of_buft(ggml_backend_buffer_type_t t) { return t->context; }
static ggml_backend_buffer_t buffer_of(const struct ggml_tensor * t) { return t->view_src != NULL ? t->view_src->buffer : t->buffer; }
static const char * device_buft_name(ggml_backend_buffer_type_t t) { return device_of_buft(t)->name; }
static void device_buffer_free(ggml_backend_buffer_t b);

/* Where the bytes of a tensor are, on whatever device. */
static char * real(const struct ggml_tensor * t) {
    ggml_backend_buffer_t b = buffer_of(t);
    if (b == NULL || t->data == NULL || b->buft->iface.get_name != device_buft_name) return t->data;
    struct memory * m = b->context;
    return m->bytes + ((char *) t->data - m->base);
}

static void device_buffer_free(ggml_backend_buffer_t b) {
    struct memory * m = b->context;
    m->device->live_buffers--;
    free(m->bytes);
    free(m);
}
static void * device_buffer_base(ggml_backend_buffer_t b) { return ((struct memory *) b->context)->base; }
static enum ggml_status device_buffer_init(ggml_backend_buffer_t b, struct ggml_tensor * t) {
    struct device * d = ((struct memory *) b->context)->device;
    d->n_inits++;
    d->last_init_usage = (enum ggml_backend_buffer_usage) b->usage;
    (void) t;
    return GGML_STATUS_SUCCESS;
}
static void device_buffer_memset(ggml_backend_buffer_t b, struct ggml_tensor * t, uint8_t v, size_t offset, size_t size) {
    (void) b;
    memset(real(t) + offset, v, size);
}
static void device_buffer_set(ggml_backend_buffer_t b, struct ggml_tensor * t, const void * data, size_t offset, size_t size) {
    ((struct memory *) b->context)->device->n_singles++;
    memcpy(real(t) + offset, data, size);
}
static void device_buffer_get(ggml_backend_buffer_t b, const struct ggml_tensor * t, void * data, size_t offset, size_t size) {
    ((struct memory *) b->context)->device->n_singles++;
    memcpy(data, real(t) + offset, size);
}
static void device_buffer_set_2d(ggml_backend_buffer_t b, struct ggml_tensor * t, const void * data, size_t offset, size_t size, size_t n,
                                 size_t stride_t, size_t stride_d) {
    ((struct memory *) b->context)->device->n_2d++;
    for (size_t i = 0; i < n; i++) memcpy(real(t) + offset + i * stride_t, (const char *) data + i * stride_d, size);
}
static void device_buffer_get_2d(ggml_backend_buffer_t b, const struct ggml_tensor * t, void * data, size_t offset, size_t size, size_t n,
                                 size_t stride_t, size_t stride_d) {
    ((struct memory *) b->context)->device->n_2d++;
    for (size_t i = 0; i < n; i++) memcpy((char *) data + i * stride_d, real(t) + offset + i * stride_t, size);
}
static void device_buffer_set_n(ggml_backend_buffer_t b, struct ggml_tensor * const * t, const void * const * data, const size_t * offsets,
                                const size_t * sizes, size_t n) {
    ((struct memory *) b->context)->device->n_batches++;
    for (size_t i = 0; i < n; i++) memcpy(real(t[i]) + offsets[i], data[i], sizes[i]);
}
static void device_buffer_get_n(ggml_backend_buffer_t b, const struct ggml_tensor * const * t, void * const * data, const size_t * offsets,
                                const size_t * sizes, size_t n) {
    ((struct memory *) b->context)->device->n_batches++;
    for (size_t i = 0; i < n; i++) memcpy(data[i], real(t[i]) + offsets[i], sizes[i]);
}
static bool device_buffer_cpy_n(ggml_backend_buffer_t b, const struct ggml_tensor * const * srcs, struct ggml_tensor * const * dsts, size_t n) {
    struct device * d = ((struct memory *) b->context)->device;
    if (d->refuses_copies) return false;
    d->n_batches++;
    for (size_t i = 0; i < n; i++) memcpy(real(dsts[i]), real(srcs[i]), ggml_nbytes(srcs[i]));
    return true;
}
static void device_buffer_clear(ggml_backend_buffer_t b, uint8_t v) { memset(((struct memory *) b->context)->bytes, v, b->size); }

static ggml_backend_buffer_t device_buft_alloc(ggml_backend_buffer_type_t t, size_t size) {
    struct device * d = device_of_buft(t);
    if (d->fail_buffer > 0 && --d->fail_buffer == 0) return NULL;
    struct memory * m = malloc(sizeof(*m));
    if (m == NULL) return NULL;
    m->device = d;
    m->bytes = aligned_alloc(256, (size + 511) / 256 * 256);
    if (m->bytes == NULL) { free(m); return NULL; }
    memset(m->bytes, d->poison >= 0 ? d->poison : 0, (size + 511) / 256 * 256);
    /* each buffer has a range of its own, 4 GiB apart, where nothing is mapped */
    m->base = d->unmapped ? (char *) (((uintptr_t) (atomic_fetch_add(&device_ranges, 1) % 1024) + 1) << 32) : m->bytes;
    d->live_buffers++;
    d->n_buffers++;
    struct ggml_backend_buffer_i iface = {
        .free_buffer = device_buffer_free, .get_base = device_buffer_base, .init_tensor = device_buffer_init, .memset_tensor = device_buffer_memset,
        .set_tensor = device_buffer_set, .get_tensor = device_buffer_get, .clear = device_buffer_clear,
        .set_tensor_2d = d->only_set_2d ? device_buffer_set_2d : NULL, .get_tensor_2d = d->only_get_2d ? device_buffer_get_2d : NULL,
        .set_tensor_n = d->batches ? device_buffer_set_n : NULL, .get_tensor_n = d->batches ? device_buffer_get_n : NULL,
        .cpy_tensor_n = d->batches ? device_buffer_cpy_n : NULL,
    };
    return ggml_backend_buffer_init(t, iface, m, size);
}
static size_t device_buft_alignment(ggml_backend_buffer_type_t t) { return device_of_buft(t)->alignment; }
static size_t device_buft_max(ggml_backend_buffer_type_t t) { return device_of_buft(t)->max_size; }
static size_t device_buft_size(ggml_backend_buffer_type_t t, const struct ggml_tensor * x) {
    return ggml_nbytes(x) + (x->op == GGML_OP_NONE || ggml_is_quantized(x->type) ? device_of_buft(t)->padding : 0);
}
static bool device_buft_host(ggml_backend_buffer_type_t t) { return device_of_buft(t)->is_host; }

/* ---- the stream ---- */

static struct device * device_of(ggml_backend_t b) { return b->context; }
static const char * device_backend_name(ggml_backend_t b) { return device_of(b)->name; }
static void device_backend_free(ggml_backend_t b) { (void) b; }
static void device_synchronize(ggml_backend_t b) { device_wait(device_of(b), device_mark(device_of(b))); }

static void run_copy(struct job * j) { memmove(j->dst, j->src, j->size); }
static void run_compute(struct job * j) {
    if (ggml_backend_graph_compute(j->device->cpu, j->graph) != GGML_STATUS_SUCCESS) abort();
    ggml_free(j->ctx);
}

static void device_set_async(ggml_backend_t b, struct ggml_tensor * t, const void * data, size_t offset, size_t size) {
    device_push(device_of(b), (struct job) { .run = run_copy, .dst = real(t) + offset, .src = data, .size = size });
}
static void device_get_async(ggml_backend_t b, const struct ggml_tensor * t, void * data, size_t offset, size_t size) {
    device_push(device_of(b), (struct job) { .run = run_copy, .dst = data, .src = real(t) + offset, .size = size });
}

static bool device_cpy_async(ggml_backend_t from, ggml_backend_t to, const struct ggml_tensor * src, struct ggml_tensor * dst) {
    struct device * d = device_of(to);
    struct job copy = { .run = run_copy, .dst = real(dst), .src = real(src), .size = ggml_nbytes(src) };
    if (buffer_of(dst)->buft != &d->buft) return false;
    if (from->iface.get_name == device_backend_name && device_of(from)->queue) {
        if (buffer_of(src)->buft != &device_of(from)->buft) return false;
        /* in both queues: it waits for one, and is waited for by it */
        copy.wait_for = device_of(from);
        copy.wait_until = device_mark(device_of(from));
        size_t number = device_push(d, copy);
        if (d != device_of(from)) device_push(device_of(from), (struct job) { .wait_for = d, .wait_until = number });
        return true;
    }
    if (!d->host_copies || !ggml_backend_buffer_is_host(buffer_of(src))) return false;
    device_push(d, copy);
    return true;
}

/* The graph as it is now: the host may free its tensors while the work is queued. */
static enum ggml_status device_compute(ggml_backend_t b, struct ggml_cgraph * g) {
    struct device * d = device_of(b);
    d->n_computes++;
    if (d->lost || (d->fail_compute > 0 && --d->fail_compute == 0)) return GGML_STATUS_FAILED;
    int n = ggml_graph_n_nodes(g);
    struct ggml_init_params params = { ggml_tensor_overhead() * ((size_t) n * (GGML_MAX_SRC + 1) + 1) + ggml_graph_overhead_custom((size_t) n + 1, false), NULL, true };
    struct ggml_context * ctx = ggml_init(params);
    if (ctx == NULL) return GGML_STATUS_ALLOC_FAILED;
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, (size_t) n + 1, false);
    for (int i = 0; i < n; i++) {
        struct ggml_tensor * node = ggml_graph_node(g, i);
        if (is_view(node) || ggml_is_empty(node)) continue;
        struct ggml_tensor * copy = shallow(ctx, node, real(node));
        for (int k = 0; k < GGML_MAX_SRC; k++) {
            if (node->src[k] == NULL) continue;
            copy->src[k] = shallow(ctx, node->src[k], real(node->src[k]));
            copy->src[k]->op = GGML_OP_NONE;
            memset(copy->src[k]->src, 0, sizeof(copy->src[k]->src));
        }
        ggml_graph_add_node(graph, copy);
    }
    device_push(d, (struct job) { .run = run_compute, .ctx = ctx, .graph = graph });
    return GGML_STATUS_SUCCESS;
}

/* ---- events ---- */

struct mark {
    struct device * device;
    size_t number;
};

static ggml_backend_event_t device_event_new(ggml_backend_dev_t dev) {
    struct device * d = dev->context;
    if (d->fail_event > 0 && --d->fail_event == 0) return NULL;
    ggml_backend_event_t e = malloc(sizeof(*e));
    e->device = dev;
    e->context = calloc(1, sizeof(struct mark));
    d->live_events++;
    return e;
}
static void device_event_free(ggml_backend_dev_t dev, ggml_backend_event_t e) {
    ((struct device *) dev->context)->live_events--;
    free(e->context);
    free(e);
}
static void device_event_sync(ggml_backend_dev_t dev, ggml_backend_event_t e) {
    struct mark * m = e->context;
    (void) dev;
    if (m->device != NULL) device_wait(m->device, m->number);
}
static void device_event_record(ggml_backend_t b, ggml_backend_event_t e) {
    struct mark * m = e->context;
    m->device = device_of(b);
    m->number = device_mark(m->device);
}
static void device_event_wait(ggml_backend_t b, ggml_backend_event_t e) {
    struct mark * m = e->context;
    if (m->device != NULL) device_push(device_of(b), (struct job) { .wait_for = m->device, .wait_until = m->number });
}

/* ---- the device ---- */

static const char * device_name(ggml_backend_dev_t dev) { return ((struct device *) dev->context)->name; }
static void device_memory(ggml_backend_dev_t dev, size_t * a, size_t * b) { (void) dev; *a = *b = (size_t) 16 << 30; }
static enum ggml_backend_dev_type device_type(ggml_backend_dev_t dev) { return ((struct device *) dev->context)->type; }
static void device_props(ggml_backend_dev_t dev, struct ggml_backend_dev_props * p) {
    struct device * d = dev->context;
    memset(p, 0, sizeof(*p));
    p->name = p->description = d->name;
    p->type = d->type;
    device_memory(dev, &p->memory_free, &p->memory_total);
    p->caps.async = d->queue;
    p->caps.events = d->events;
}
static ggml_backend_t device_init(ggml_backend_dev_t dev, const char * params) { (void) params; return &((struct device *) dev->context)->backend; }
static ggml_backend_buffer_type_t device_buft(ggml_backend_dev_t dev) { return &((struct device *) dev->context)->buft; }
static bool device_supports_op(ggml_backend_dev_t dev, const struct ggml_tensor * t) {
    struct device * d = dev->context;
    return is_view(t) || d->supports == NULL || d->supports(t);
}
static bool device_supports_buft(ggml_backend_dev_t dev, ggml_backend_buffer_type_t t) {
    struct device * d = dev->context;
    return t == &d->buft || (d->reads_host && ggml_backend_buft_is_host(t));
}
static bool device_offload(ggml_backend_dev_t dev, const struct ggml_tensor * t) {
    struct device * d = dev->context;
    return d->offloads != NULL && d->offloads(t);
}

static ggml_guid device_guid = { 0xa5, 0x1c };

static void device_finish(struct device * d) {
    if (d->alignment == 0) d->alignment = 64;
    d->seed = (unsigned) (uintptr_t) d + (unsigned) d->slow;
    d->buft.iface = (struct ggml_backend_buffer_type_i) {
        .get_name = device_buft_name, .alloc_buffer = device_buft_alloc, .get_alignment = device_buft_alignment,
        .get_max_size = d->max_size != 0 ? device_buft_max : NULL, .get_alloc_size = d->padding != 0 ? device_buft_size : NULL, .is_host = device_buft_host,
    };
    d->buft.device = &d->dev;
    d->buft.context = d;
    d->dev.iface = (struct ggml_backend_device_i) {
        .get_name = device_name, .get_description = device_name, .get_memory = device_memory, .get_type = device_type, .get_props = device_props,
        .init_backend = device_init, .get_buffer_type = device_buft, .supports_op = device_supports_op, .supports_buft = device_supports_buft,
        .offload_op = d->offloads != NULL ? device_offload : NULL,
        .event_new = d->events ? device_event_new : NULL, .event_free = device_event_free, .event_synchronize = device_event_sync,
    };
    d->dev.context = d;
    d->backend.guid = &device_guid;
    d->backend.iface = (struct ggml_backend_i) {
        .get_name = device_backend_name, .free = device_backend_free,
        .set_tensor_async = d->transfers ? device_set_async : NULL, .get_tensor_async = d->transfers ? device_get_async : NULL,
        .cpy_tensor_async = d->copies ? device_cpy_async : NULL, .synchronize = d->queue ? device_synchronize : NULL,
        .graph_compute = device_compute, .event_record = d->events ? device_event_record : NULL, .event_wait = d->events ? device_event_wait : NULL,
    };
    d->backend.device = &d->dev;
    d->backend.context = d;
    d->cpu = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(d->cpu, 1);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->change, NULL);
    if (d->queue) d->started = pthread_create(&d->thread, NULL, device_main, d) == 0;
}

static inline void device_end(struct device * d) {
    if (d->started) {
        pthread_mutex_lock(&d->lock);
        d->stop = true;
        pthread_cond_broadcast(&d->change);
        pthread_mutex_unlock(&d->lock);
        pthread_join(d->thread, NULL);
    }
    ggml_backend_free(d->cpu);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->change);
}

#endif
