/* A card on a machine without one: a backend module of a GPU, CARD0, that takes the time that a card would take. Hosts
 * load it with GGML_BACKEND_PATH. It has memory of its own that hosts cannot read, pinned memory, streams that overlap,
 * events, and an engine for each direction of copies and one for computations (engines.h).
 *
 * The time of a copy is a latency plus bytes by bandwidth. A copy from or to memory that is not of the type CARD_Host
 * (pageable memory) is slower, and the call returns when it is done; small ones return at once. A graph takes the time
 * of its launch, and for each node that of its kernel plus the longer of two: bytes that it reads and writes by the
 * bandwidth of the card's memory, operations by the peak. A product with experts reads those that its ids name.
 *
 * CARD_MODE          values (default): computes with the CPU's kernels, and takes at least the modelled time.
 *                    timing: computes nothing; only takes the time. Results are zeros, except that ARGSORT and TOP_K
 *                    choose experts from CARD_TRACE; without it, randomly.
 * CARD_TRACE         a file: the line `experts N used K layers L tokens T`, then little-endian int16: for each token,
 *                    for each layer, the K experts. Each layer walks through the tokens by itself, in a circle. The
 *                    layer is the number at the end of the name of the ARGSORT (ffn_moe_argsort-7).
 * CARD_MEMORY_MIB    size of its memory (8192); larger allocations fail
 * CARD_H2D_GBPS      10^9 bytes per second from pinned memory to the card (25)
 * CARD_D2H_GBPS      the same in the other direction (as CARD_H2D_GBPS)
 * CARD_PAGEABLE_GBPS for memory that is not pinned, both ways (half of CARD_H2D_GBPS)
 * CARD_COPY_LATENCY_US  of each copy (8)
 * CARD_MEM_GBPS      of the card's memory (1000)
 * CARD_TFLOPS        10^12 operations per second (60)
 * CARD_LAUNCH_US     of each graph (10)
 * CARD_KERNEL_US     of each node that is not a view (1.5)
 * CARD_STAGED_KIB    copies from pageable memory up to this size are staged, and the call returns at once (64)
 * CARD_KEPT_KIB      in timing mode, larger copies move no bytes, except those of integers (64)
 * CARD_HOST_COPIES   1: takes asynchronous copies of tensors in pinned memory from the CPU backend (0, as most cards)
 * CARD_SPIN_US       the last part of each wait, in which the thread spins (25)
 * CARD_REALTIME      0: the engines' threads have the usual priority. In timing mode they have a higher one, if the
 *                    system allows it.
 * CARD_PROCESSOR     in timing mode: one thread on this processor does the work of all streams, without sleeping while
 *                    there is some; hosts wait without sleeping, too, and should leave the processor to it
 * CARD_THREADS       threads for values (1)
 * CARD_LOG           a file, or `-` for stderr: counters, appended when the process ends
 * CARD_LATE_EVERY=N  the bytes of each Nth copy to the card arrive 20 ms late, as if others used the bus (never)
 * CARD_FAIL_ALLOC_AFTER=N   after N allocations of its memory all others fail
 * CARD_LOSE_AFTER=N         after N computations all others fail
 * GGML_OP_OFFLOAD_MIN_BATCH the batch from which it takes operations with weights in host memory (32)
 *
 * c_tests/bench/bench_experts.py says how settings are derived from a machine. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* processors of threads */
#endif
#define GGML_BACKEND_DL
#include "graphs.h"

/* ---- streams of backends ---- */

static struct stream * stream_of(ggml_backend_t b) { return b->context; }
static const char * backend_name(ggml_backend_t b) { (void) b; return "CARD0"; }
static bool is_card(ggml_backend_t b) { return b->iface.get_name == backend_name; }
static void backend_synchronize(ggml_backend_t b) { mark_wait(stream_mark(stream_of(b))); }

/* Streams are kept for later backends: events may name them. */
static void backend_free(ggml_backend_t b) {
    struct stream * s = stream_of(b);
    backend_synchronize(b);
    pthread_mutex_lock(&card.lock);
    s->next_free = card.free_streams;
    card.free_streams = s;
    pthread_mutex_unlock(&card.lock);
    free(b);
}

static void queue_copy(ggml_backend_t b, struct copy c) {
    struct copy * j = malloc(sizeof(*j));
    if (j == NULL) abort();
    *j = c;
    j->job = (struct job) { .run = copy_run, .end = copy_end };
    size_t whole = c.size * c.n;
    bool at_once = c.pinned || c.engine == COMPUTE;
    if (!at_once && c.engine == TO_CARD && whole <= card.settings.staged && (j->staged = malloc(whole + 1)) != NULL) {
        for (size_t i = 0; i < c.n; i++) memcpy(j->staged + i * c.size, c.src + i * c.src_stride, c.size);
        j->src = j->staged;
        j->src_stride = c.size;
        at_once = true;
    }
    struct mark m = stream_push(stream_of(b), &j->job);
    if (!at_once) mark_wait(m);
}

static void backend_set(ggml_backend_t b, struct ggml_tensor * t, const void * data, size_t offset, size_t size) {
    queue_copy(b, copy_to(t, data, offset, size));
}
static void backend_get(ggml_backend_t b, const struct ggml_tensor * t, void * data, size_t offset, size_t size) {
    queue_copy(b, copy_from(t, data, offset, size));
}
static void backend_set_2d(ggml_backend_t b, struct ggml_tensor * t, const void * data, size_t offset, size_t size,
                           size_t n, size_t stride_t, size_t stride_d) {
    queue_copy(b, rows(copy_to(t, data, offset, size), n, stride_t, stride_d));
}
static void backend_get_2d(ggml_backend_t b, const struct ggml_tensor * t, void * data, size_t offset, size_t size,
                           size_t n, size_t stride_t, size_t stride_d) {
    queue_copy(b, rows(copy_from(t, data, offset, size), n, stride_d, stride_t));
}

static bool backend_copy(ggml_backend_t from, ggml_backend_t to, const struct ggml_tensor * src, struct ggml_tensor * dst) {
    if (!is_card(to) || !on_card(dst)) return false;
    if (is_card(from) && on_card(src)) {
        /* after what both streams have queued, and before what they queue later */
        stream_wait_for(stream_of(to), stream_mark(stream_of(from)));
        queue_copy(to, copy_within(src, dst));
        stream_wait_for(stream_of(from), stream_mark(stream_of(to)));
        return true;
    }
    size_t size = ggml_nbytes(src);
    if (!card.settings.host_copies || is_card(from) || !is_pinned(src->data, size)) return false;
    queue_copy(to, copy_to(dst, src->data, 0, size));
    return true;
}

static enum ggml_status backend_compute(ggml_backend_t b, struct ggml_cgraph * g) {
    pthread_mutex_lock(&card.lock);
    bool lost = card.settings.lose_after >= 0 && card.computations >= card.settings.lose_after;
    card.computations++;
    pthread_mutex_unlock(&card.lock);
    if (lost) return GGML_STATUS_FAILED;
    struct work * w = new_work(g);
    if (w == NULL) return GGML_STATUS_ALLOC_FAILED;
    stream_push(stream_of(b), &w->job);
    return GGML_STATUS_SUCCESS;
}

/* ---- events ---- */

static ggml_backend_event_t event_new(ggml_backend_dev_t dev) {
    ggml_backend_event_t e = malloc(sizeof(*e));
    if (e == NULL) return NULL;
    *e = (struct ggml_backend_event) { dev, calloc(1, sizeof(struct mark)) };
    return e;
}
static void event_free(ggml_backend_dev_t dev, ggml_backend_event_t e) {
    (void) dev;
    free(e->context);
    free(e);
}
static void event_record(ggml_backend_t b, ggml_backend_event_t e) { *(struct mark *) e->context = stream_mark(stream_of(b)); }
static void event_wait(ggml_backend_t b, ggml_backend_event_t e) { stream_wait_for(stream_of(b), *(struct mark *) e->context); }
static void event_synchronize(ggml_backend_dev_t dev, ggml_backend_event_t e) {
    (void) dev;
    mark_wait(*(struct mark *) e->context);
}

/* ---- the device ---- */

static const char * dev_name(ggml_backend_dev_t dev) { (void) dev; return "CARD0"; }
static const char * dev_description(ggml_backend_dev_t dev) {
    (void) dev;
    return card.settings.values ? "simulated card" : "simulated card, times only";
}
static void dev_memory(ggml_backend_dev_t dev, size_t * unused, size_t * total) {
    (void) dev;
    pthread_mutex_lock(&card.lock);
    *total = card.settings.memory;
    *unused = card.settings.memory - card.used;
    pthread_mutex_unlock(&card.lock);
}
static enum ggml_backend_dev_type dev_type(ggml_backend_dev_t dev) { (void) dev; return GGML_BACKEND_DEVICE_TYPE_GPU; }
static void dev_props(ggml_backend_dev_t dev, struct ggml_backend_dev_props * p) {
    memset(p, 0, sizeof(*p));
    p->name = dev_name(dev);
    p->description = dev_description(dev);
    p->type = dev_type(dev);
    dev_memory(dev, &p->memory_free, &p->memory_total);
    p->caps.async = p->caps.host_buffer = p->caps.events = true;
}
static ggml_backend_buffer_type_t dev_buft(ggml_backend_dev_t dev) { (void) dev; return &card.buft; }
static ggml_backend_buffer_type_t dev_host_buft(ggml_backend_dev_t dev) { (void) dev; return &card.host_buft; }

/* The registry's CPU. Not when the module is loaded: the registry is being made then. */
static ggml_backend_dev_t cpu(void) {
    pthread_mutex_lock(&card.lock);
    if (card.cpu_dev == NULL) card.cpu_dev = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    pthread_mutex_unlock(&card.lock);
    return card.cpu_dev;
}

static bool cpu_start(void) {
    ggml_backend_dev_t dev = cpu();
    if (!card.settings.values || card.cpu != NULL) return true;
    ggml_backend_t b = dev != NULL ? ggml_backend_dev_init(dev, NULL) : NULL;
    if (b == NULL) return false;
    ggml_backend_set_n_threads_t set_threads =
        (ggml_backend_set_n_threads_t) ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(dev), "ggml_backend_set_n_threads");
    if (set_threads != NULL) set_threads(b, card.settings.threads);
    pthread_mutex_lock(&card.lock);
    bool first = card.cpu == NULL;
    if (first) card.cpu = b;
    pthread_mutex_unlock(&card.lock);
    if (!first) ggml_backend_free(b);
    return true;
}

static ggml_guid card_guid = { 0xca, 0x4d };

static ggml_backend_t dev_init(ggml_backend_dev_t dev, const char * params) {
    (void) params;
    if (!cpu_start()) return NULL;
    pthread_mutex_lock(&card.lock);
    struct stream * s = card.free_streams;
    if (s != NULL) card.free_streams = s->next_free;
    pthread_mutex_unlock(&card.lock);
    if (s == NULL) {
        s = calloc(1, sizeof(*s));
        if (s == NULL) return NULL;
        s->card = &card;
        s->settings = &card.settings;
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->change, NULL);
        if (!stream_start(s, card.settings.realtime && !card.settings.values)) { free(s); return NULL; }
    }
    ggml_backend_t b = malloc(sizeof(*b));
    if (b == NULL) abort();
    *b = (struct ggml_backend) { .guid = &card_guid, .device = dev, .context = s, .iface = {
        .get_name = backend_name, .free = backend_free, .set_tensor_async = backend_set, .get_tensor_async = backend_get,
        .set_tensor_2d_async = backend_set_2d, .get_tensor_2d_async = backend_get_2d, .cpy_tensor_async = backend_copy,
        .synchronize = backend_synchronize, .graph_compute = backend_compute, .event_record = event_record,
        .event_wait = event_wait } };
    return b;
}

static bool dev_supports_op(ggml_backend_dev_t dev, const struct ggml_tensor * t) {
    (void) dev;
    switch (t->op) { /* functions of the host */
    case GGML_OP_CUSTOM: case GGML_OP_MAP_CUSTOM1: case GGML_OP_MAP_CUSTOM2: case GGML_OP_MAP_CUSTOM3: return false;
    default: return is_view(t) || cpu() == NULL || ggml_backend_dev_supports_op(card.cpu_dev, t);
    }
}
static bool dev_supports_buft(ggml_backend_dev_t dev, ggml_backend_buffer_type_t t) { (void) dev; return t == &card.buft; }

static bool dev_offload(ggml_backend_dev_t dev, const struct ggml_tensor * t) {
    (void) dev;
    int64_t batch = ggml_nrows(t);
    if (t->op == GGML_OP_GET_ROWS) batch = 0;
    if (t->op == GGML_OP_MUL_MAT) batch = t->ne[1];
    if (t->op == GGML_OP_MUL_MAT_ID || t->op == GGML_OP_ROPE || t->op == GGML_OP_ROPE_BACK) batch = t->ne[2];
    return batch >= card.settings.min_batch;
}

/* ---- the registration ---- */

static const char * reg_name(ggml_backend_reg_t reg) { (void) reg; return "CARD"; }
static size_t reg_count(ggml_backend_reg_t reg) { (void) reg; return 1; }
static ggml_backend_dev_t reg_device(ggml_backend_reg_t reg, size_t i) { (void) reg; (void) i; return &card.dev; }

__attribute__((destructor)) static void write_log(void) {
    static const char * names[ENGINES] = { "to_card", "from_card", "compute" };
    const char * path = card.settings.log;
    FILE * f = path == NULL ? NULL : strcmp(path, "-") == 0 ? stderr : fopen(path, "a");
    if (f == NULL) return;
    for (int i = 0; i < ENGINES; i++) {
        const struct engine * e = &card.engines[i];
        fprintf(f, "%s jobs %llu busy_s %.6f late_s %.6f", names[i], (unsigned long long) e->jobs, (double) e->busy / 1e9, (double) e->late / 1e9);
        if (i != COMPUTE) fprintf(f, " bytes %llu pageable %llu", (unsigned long long) e->bytes, (unsigned long long) e->pageable);
        else fprintf(f, " graphs %llu nodes %llu experts %llu", (unsigned long long) card.graphs, (unsigned long long) card.nodes, (unsigned long long) card.experts);
        fprintf(f, "\n");
    }
    fprintf(f, "memory peak %zu used %zu pinned %zu\n", card.peak, card.used, card.pinned);
    if (f == stderr) fflush(f); else fclose(f);
}

static ggml_backend_reg_t card_reg(void) {
    if (card.initialised) return &card.reg;
    card.initialised = true;
    card.settings = read_settings();
    trace_read(card.settings.trace);
    pthread_mutex_init(&card.lock, NULL);
    pthread_mutex_init(&card.computing, NULL);
    for (int i = 0; i < ENGINES; i++) pthread_mutex_init(&card.engines[i].lock, NULL);
    card.buft = (struct ggml_backend_buffer_type) { .device = &card.dev, .iface = {
        .get_name = card_buft_name, .alloc_buffer = card_buft_alloc, .get_alignment = buft_alignment } };
    card.host_buft = (struct ggml_backend_buffer_type) { .device = &card.dev, .iface = {
        .get_name = host_buft_name, .alloc_buffer = host_buft_alloc, .get_alignment = buft_alignment,
        .is_host = host_buft_is_host } };
    card.dev = (struct ggml_backend_device) { .reg = &card.reg, .iface = {
        .get_name = dev_name, .get_description = dev_description, .get_memory = dev_memory, .get_type = dev_type,
        .get_props = dev_props, .init_backend = dev_init, .get_buffer_type = dev_buft,
        .get_host_buffer_type = dev_host_buft, .supports_op = dev_supports_op, .supports_buft = dev_supports_buft,
        .offload_op = dev_offload, .event_new = event_new, .event_free = event_free,
        .event_synchronize = event_synchronize } };
    card.reg = (struct ggml_backend_reg) { .api_version = GGML_BACKEND_API_VERSION, .iface = {
        .get_name = reg_name, .get_device_count = reg_count, .get_device = reg_device } };
    return &card.reg;
}

GGML_BACKEND_DL_IMPL(card_reg)
