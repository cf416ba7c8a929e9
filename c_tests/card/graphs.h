/* Computations: what a graph costs, the choices of routers, and values. */
#ifndef CARD_GRAPHS_H
#define CARD_GRAPHS_H

#include "memory.h"
#include "../common/node.h"

/* ---- traces: which experts routers choose in timing mode ---- */

struct trace {
    int experts, used, layers, tokens;
    int16_t * ids;
    uint64_t * next; /* the next token of each layer */
    uint64_t seed;   /* without a file: random choices, all equally probable */
};

static struct trace trace;

/* Numbers for the random choices; xorshift. */
static uint64_t trace_random(void) {
    trace.seed ^= trace.seed << 13;
    trace.seed ^= trace.seed >> 7;
    return trace.seed ^= trace.seed << 17;
}

static void trace_read(const char * path) {
    trace.seed = 0x9e3779b97f4a7c15u;
    if (path == NULL) return;
    FILE * f = fopen(path, "rb");
    char line[128];
    if (f == NULL || fgets(line, sizeof(line), f) == NULL
        || sscanf(line, "experts %d used %d layers %d tokens %d", &trace.experts, &trace.used, &trace.layers, &trace.tokens) != 4
        || trace.experts <= 0 || trace.used <= 0 || trace.layers <= 0 || trace.tokens <= 0) {
        fprintf(stderr, "CARD_TRACE=%s: cannot be read, or has no line `experts N used K layers L tokens T`\n", path);
        exit(1);
    }
    size_t n = (size_t) trace.used * (size_t) trace.layers * (size_t) trace.tokens;
    trace.ids = malloc(n * sizeof(*trace.ids));
    trace.next = calloc((size_t) trace.layers, sizeof(*trace.next));
    if (trace.ids == NULL || trace.next == NULL || fread(trace.ids, sizeof(*trace.ids), n, f) != n) {
        fprintf(stderr, "CARD_TRACE=%s: %zu numbers expected\n", path, n);
        exit(1);
    }
    fclose(f);
}

/* One row of a router's choice: all experts, each once, the chosen ones first; or as many as there is room for. */
static void choose(int32_t * row, int64_t n, int64_t experts, int layer) {
    static _Thread_local uint8_t taken[4096];
    int64_t chosen = 0;
    if (experts > (int64_t) sizeof(taken)) experts = sizeof(taken);
    memset(taken, 0, (size_t) experts);
    if (trace.ids != NULL && experts >= trace.experts) {
        int at = layer % trace.layers;
        size_t token = trace.next[at]++ % (size_t) trace.tokens;
        /* token by token; in each the layers; in each the experts */
        const int16_t * ids = trace.ids + (token * (size_t) trace.layers + (size_t) at) * (size_t) trace.used;
        for (int i = 0; i < trace.used && chosen < n; i++) {
            if (ids[i] >= 0 && ids[i] < experts && !taken[ids[i]]) { taken[ids[i]] = 1; row[chosen++] = ids[i]; }
        }
    }
    for (int tries = 0; chosen < n && chosen < experts && tries < 64; tries++) {
        int64_t id = (int64_t) (trace_random() % (uint64_t) experts);
        if (!taken[id]) { taken[id] = 1; row[chosen++] = (int32_t) id; }
    }
    for (int64_t id = 0; id < experts && chosen < n; id++) {
        if (!taken[id]) row[chosen++] = (int32_t) id;
    }
    while (chosen < n) row[chosen++] = 0;
}

/* ---- what a node costs ---- */

/* Work that depends on values that the job computes: a router's choice, or a product with the experts of `ids`. */
struct step {
    bool   router;
    char * ids;
    int64_t ne0, ne1;
    size_t nb0, nb1;
    int    layer;
    double expert_bytes, expert_flops, other_bytes; /* flops: for each row */
    int64_t n_experts;
};

static double product(const int64_t * ne) { return (double) ne[0] * (double) ne[1] * (double) ne[2] * (double) ne[3]; }

static double node_ns(double bytes, double flops) {
    double memory = bytes / card.settings.bandwidth, arithmetic = flops / card.settings.flops;
    return card.settings.kernel_ns + (memory > arithmetic ? memory : arithmetic);
}

/* Bytes that a node reads and writes, without what a product with experts reads of them. */
static double node_bytes(const struct ggml_tensor * t) {
    double bytes = t->op == GGML_OP_SET_ROWS ? 0 : (double) ggml_nbytes(t);
    if (t->op == GGML_OP_GET_ROWS) return 2 * bytes;
    for (int i = t->op == GGML_OP_MUL_MAT_ID ? 1 : 0; i < GGML_MAX_SRC; i++) {
        if (t->src[i] == NULL || (t->op == GGML_OP_SET_ROWS && i == 2)) continue;
        bytes += (double) ggml_nbytes(t->src[i]);
    }
    return t->op == GGML_OP_SET_ROWS ? 2 * bytes : bytes;
}

static double node_flops(const struct ggml_tensor * t) {
    if (t->op == GGML_OP_MUL_MAT || t->op == GGML_OP_OUT_PROD) return 2 * (double) t->src[0]->ne[0] * product(t->ne);
    if (t->op != GGML_OP_FLASH_ATTN_EXT) return product(t->ne);
    const struct ggml_tensor * q = t->src[0], * k = t->src[1], * v = t->src[2];
    return 2 * (double) (k->ne[0] + v->ne[0]) * (double) k->ne[1] * (double) (q->ne[1] * q->ne[2] * q->ne[3]);
}

/* The layer that a tensor's name ends with, as in ffn_moe_argsort-7; otherwise they are counted. */
static int layer_of(const struct ggml_tensor * t, int counted) {
    const char * dash = strrchr(t->name, '-');
    return dash != NULL && dash[1] >= '0' && dash[1] <= '9' ? atoi(dash + 1) : counted;
}

/* ---- graphs as jobs ---- */

struct work {
    struct job job;
    double fixed_ns;
    int n_nodes, n_steps;
    struct step * steps;
    /* values: the graph as it was when it was queued, in pieces; all but the last one end with a product with experts.
     * Later nodes may overwrite its ids. */
    struct ggml_context * ctx;
    struct ggml_cgraph ** pieces;
    int n_pieces;
};

/* Bytes and operations of a product, for the experts that the ids name. */
static double experts_ns(const struct step * s) {
    static _Thread_local uint8_t seen[65536];
    int64_t distinct = 0, rows = 0, n = s->n_experts < (int64_t) sizeof(seen) ? s->n_experts : (int64_t) sizeof(seen);
    memset(seen, 0, (size_t) n);
    for (int64_t j = 0; j < s->ne1; j++) {
        for (int64_t i = 0; i < s->ne0; i++) {
            int32_t id;
            memcpy(&id, s->ids + (size_t) j * s->nb1 + (size_t) i * s->nb0, sizeof(id));
            if (id < 0 || id >= n) continue;
            rows++;
            distinct += !seen[id];
            seen[id] = 1;
        }
    }
    card.experts += (uint64_t) distinct;
    return node_ns((double) distinct * s->expert_bytes + s->other_bytes, (double) rows * s->expert_flops);
}

static ns_t work_run(struct job * j, ns_t ready) {
    struct work * w = (struct work *) j;
    double ns = w->fixed_ns;
    pthread_mutex_lock(&card.computing);
    ns_t begun = now();
    for (int i = 0; i < w->n_steps || i < w->n_pieces; i++) {
        if (i < w->n_pieces && ggml_backend_graph_compute(card.cpu, w->pieces[i]) != GGML_STATUS_SUCCESS) abort();
        if (i >= w->n_steps) continue;
        struct step * s = &w->steps[i];
        if (!s->router) { ns += experts_ns(s); continue; }
        for (int64_t row = 0; row < s->ne1; row++) {
            choose((int32_t *) (s->ids + (size_t) row * s->nb1), s->ne0, s->n_experts, s->layer);
        }
    }
    card.graphs++;
    card.nodes += (uint64_t) w->n_nodes;
    pthread_mutex_unlock(&card.computing);
    return engine_spend(&card.engines[COMPUTE], ready, begun, ns);
}

static void work_end(struct job * j) {
    struct work * w = (struct work *) j;
    free(w->steps);
    free(w->pieces);
    ggml_free(w->ctx);
}

static bool computed(const struct ggml_tensor * t) { return !is_view(t) && !ggml_is_empty(t); }

/* The graph as it is now: a host may free its tensors while the job is queued. */
static bool work_copy_graph(struct work * w, struct ggml_cgraph * g, int n) {
    int products = 0;
    for (int i = 0; i < n; i++) products += ggml_graph_node(g, i)->op == GGML_OP_MUL_MAT_ID;
    size_t pieces = (size_t) products + 1, tensors = (size_t) n * (GGML_MAX_SRC + 1) + 1;
    struct ggml_init_params params = {
        ggml_tensor_overhead() * tensors + pieces * ggml_graph_overhead_custom((size_t) n + 1, false), NULL, true };
    w->ctx = ggml_init(params);
    w->pieces = calloc(pieces, sizeof(*w->pieces));
    if (w->ctx == NULL || w->pieces == NULL) return false;
    struct ggml_cgraph * piece = NULL;
    for (int i = 0; i < n; i++) {
        struct ggml_tensor * node = ggml_graph_node(g, i);
        if (!computed(node)) continue;
        if (piece == NULL) piece = w->pieces[w->n_pieces++] = ggml_new_graph_custom(w->ctx, (size_t) n + 1, false);
        struct ggml_tensor * copy = shallow(w->ctx, node, real(node));
        for (int k = 0; k < GGML_MAX_SRC; k++) {
            if (node->src[k] == NULL) continue;
            copy->src[k] = shallow(w->ctx, node->src[k], real(node->src[k]));
            copy->src[k]->op = GGML_OP_NONE;
            memset(copy->src[k]->src, 0, sizeof(copy->src[k]->src));
        }
        ggml_graph_add_node(piece, copy);
        if (node->op == GGML_OP_MUL_MAT_ID) piece = NULL;
    }
    return true;
}

static bool add_step(struct work * w, struct step s) {
    if (w->n_steps % 64 == 0) {
        struct step * more = realloc(w->steps, (size_t) (w->n_steps + 64) * sizeof(*more));
        if (more == NULL) return false;
        w->steps = more;
    }
    w->steps[w->n_steps++] = s;
    return true;
}

/* Adds up what is known of a graph; NULL if the host has no memory. */
static struct work * new_work(struct ggml_cgraph * g) {
    struct work * w = calloc(1, sizeof(*w));
    if (w == NULL) return NULL;
    int n = ggml_graph_n_nodes(g), routers = 0;
    bool ok = !card.settings.values || work_copy_graph(w, g, n);
    w->job.run = work_run;
    w->job.end = work_end;
    w->fixed_ns = card.settings.launch_ns;
    for (int i = 0; i < n && ok; i++) {
        struct ggml_tensor * t = ggml_graph_node(g, i);
        if (!computed(t)) continue;
        w->n_nodes++;
        if (t->op == GGML_OP_MUL_MAT_ID) {
            const struct ggml_tensor * x = t->src[0], * ids = t->src[2];
            ok = add_step(w, (struct step) { .ids = real(ids), .ne0 = ids->ne[0], .ne1 = ids->ne[1], .nb0 = ids->nb[0],
                                             .nb1 = ids->nb[1], .n_experts = x->ne[2], .expert_bytes = (double) x->nb[2],
                                             .expert_flops = 2 * (double) x->ne[0] * (double) x->ne[1],
                                             .other_bytes = node_bytes(t) });
            continue;
        }
        w->fixed_ns += node_ns(node_bytes(t), node_flops(t));
        if (!card.settings.values && (t->op == GGML_OP_ARGSORT || t->op == GGML_OP_TOP_K)) {
            ok = add_step(w, (struct step) { .router = true, .ids = real(t), .ne0 = t->ne[0],
                                             .ne1 = t->ne[1] * t->ne[2] * t->ne[3], .nb1 = t->nb[1],
                                             .n_experts = t->src[0]->ne[0], .layer = layer_of(t, routers++) });
        }
    }
    if (ok) return w;
    work_end(&w->job);
    free(w);
    return NULL;
}

#endif
