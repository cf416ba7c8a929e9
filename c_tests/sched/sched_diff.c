// Random graphs over random devices, scheduled and allocated by the library that the program is run with. Everything
// observable is printed: run it with two libraries and compare the text.
//
//   sched_diff FIRST_SEED COUNT [nodes]
#include "fake.h"

#include <sys/wait.h>
#include <unistd.h>

static char  log_line[1 << 16];
static size_t log_len;

// Debug output without the causes, which only one of the libraries keeps.
static void on_log(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
    if (level != GGML_LOG_LEVEL_DEBUG && level != GGML_LOG_LEVEL_CONT) return;
    for (; *text; text++) {
        if (log_len + 2 < sizeof(log_line)) log_line[log_len++] = *text;
        if (*text != '\n') continue;
        log_line[log_len] = 0; log_len = 0;
        if (strncmp(log_line, "node #", 6) != 0 && strncmp(log_line, "## SPLIT", 8) != 0 && log_line[0] != '\n') continue;
        for (char * p = log_line; (p = strchr(p, ']')); p++) {
            if (strncmp(log_line, "node #", 6) == 0 && p - log_line > 8) memset(p - 8, ' ', 8);
        }
        say("%s", log_line);
    }
}

static void make_devices(rng_t * r) {
    n_fakes = 1 + rng_int(r, 4);
    memset(fakes, 0, sizeof(fakes));
    for (int i = 0; i < n_fakes; i++) {
        fake_t * f = &fakes[i];
        bool cpu = i == n_fakes - 1;
        f->index = i;
        snprintf(f->name, sizeof(f->name), cpu ? "CPU" : "DEV%d", i);
        f->type = cpu ? GGML_BACKEND_DEVICE_TYPE_CPU : GGML_BACKEND_DEVICE_TYPE_GPU;
        f->op_seed = (uint32_t) rng_next(r);
        f->op_percent = cpu ? 100 : rng_odds(r, 40) ? 100 : 30 + rng_int(r, 70);
        f->offload_percent = cpu ? 0 : rng_odds(r, 50) ? 0 : 60;
        f->has_host_buft = cpu || rng_odds(r, 20);
        f->is_host = cpu || rng_odds(r, 10);
        f->has_events = !cpu && rng_odds(r, 60);
        f->has_async_cpy = !cpu && rng_odds(r, 60);
        f->cpy_async_works = rng_odds(r, 70);
        f->has_sync = rng_odds(r, 80);
        f->has_set_async = !cpu && rng_odds(r, 50);
        f->optimizes = rng_odds(r, 25);
        f->alignment = (size_t) 16 << rng_int(r, 5);
        f->max_size = rng_odds(r, 60) ? 0 : (size_t) 4096 << rng_int(r, 6);
        f->expands = rng_odds(r, 30);
        f->buft_mask = rng_odds(r, 20) ? (uint32_t) rng_next(r) : 0;
        if (!cpu && rng_odds(r, 15)) f->shares = &fakes[n_fakes - 1];
    }
    // If there is only one backend, it is not waited for before its buffer grows.
    if (n_fakes == 1) fakes[0].has_sync = false;
    for (int i = 0; i < n_fakes; i++) fake_finish(&fakes[i]);
}

#define MAX_POOL 4096
typedef struct {
    struct ggml_context * wctx[MAX_FAKES + 1];  // weights, by device; the last one: caches
    ggml_backend_buffer_t wbuf[MAX_FAKES + 1];
    struct ggml_tensor * w2[16], * w1[16], * exps[4], * cache[4];
    int n_w2, n_w1, n_exps, n_cache;
} model_t;

enum { D = 64 };

static struct ggml_context * new_ctx(size_t n) {
    struct ggml_init_params p = { n, NULL, true };
    return ggml_init(p);
}

static void make_model(rng_t * r, model_t * m) {
    memset(m, 0, sizeof(*m));
    for (int d = 0; d <= n_fakes; d++) {
        m->wctx[d] = new_ctx(ggml_tensor_overhead() * 64);
        if (d == n_fakes) {
            m->n_cache = 1 + rng_int(r, 3);
            for (int i = 0; i < m->n_cache; i++) {
                m->cache[i] = ggml_new_tensor_2d(m->wctx[d], GGML_TYPE_F32, D, 128);
                ggml_format_name(m->cache[i], "cache%d", i);
            }
            break;
        }
        int n = 1 + rng_int(r, 3);
        enum ggml_type types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0 };
        for (int i = 0; i < n && m->n_w2 < 16; i++) {
            struct ggml_tensor * t = ggml_new_tensor_2d(m->wctx[d], types[rng_int(r, 4)], D, D);
            ggml_format_name(t, "w%d.%d", d, i);
            m->w2[m->n_w2++] = t;
        }
        struct ggml_tensor * t = ggml_new_tensor_1d(m->wctx[d], GGML_TYPE_F32, D);
        ggml_format_name(t, "b%d", d);
        m->w1[m->n_w1++] = t;
        if (m->n_exps < 4 && rng_odds(r, 50)) {
            t = ggml_new_tensor_3d(m->wctx[d], GGML_TYPE_Q8_0, D, D, 8);
            ggml_format_name(t, "e%d", d);
            m->exps[m->n_exps++] = t;
        }
    }
    for (int d = 0; d <= n_fakes; d++) {
        fake_t * f = d < n_fakes ? &fakes[d] : rng_odds(r, 10) ? &fakes[rng_int(r, n_fakes)] : &fakes[n_fakes - 1];
        m->wbuf[d] = ggml_backend_alloc_ctx_tensors(m->wctx[d], &f->backend);
        if (m->wbuf[d] && d < n_fakes) ggml_backend_buffer_set_usage(m->wbuf[d], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        for (struct ggml_tensor * t = ggml_get_first_tensor(m->wctx[d]); t; t = ggml_get_next_tensor(m->wctx[d], t)) {
            say("weight "); print_tensor(t); say("\n");
        }
    }
}

static void free_model(model_t * m) {
    for (int d = 0; d <= n_fakes; d++) { ggml_backend_buffer_free(m->wbuf[d]); ggml_free(m->wctx[d]); }
}

// A graph of the given shape seed with T columns.
static struct ggml_cgraph * make_graph(struct ggml_context * ctx, model_t * m, uint64_t seed, int n_ops, int T) {
    rng_t rr = { seed }, * r = &rr;
    struct ggml_cgraph * g = ggml_new_graph_custom(ctx, 2048, false);
    static struct ggml_tensor * pool[MAX_POOL];
    int n = 0;
    int n_in = 1 + rng_int(r, 3);
    for (int i = 0; i < n_in; i++) {
        struct ggml_tensor * t = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, D, T);
        ggml_format_name(t, "in%d", i);
        if (i == 0 || rng_odds(r, 97)) ggml_set_input(t);
        pool[n++] = t;
    }
    struct ggml_tensor * ids = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, 2, T);
    ggml_set_name(ids, "ids"); ggml_set_input(ids);
    struct ggml_tensor * rows = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, T);
    ggml_set_name(rows, "rows"); ggml_set_input(rows);
    struct ggml_tensor * pos = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, T);
    ggml_set_name(pos, "pos"); ggml_set_input(pos);
    if (rng_odds(r, 30)) ggml_build_forward_expand(g, pos);
    int span = rng_odds(r, 30) ? 1000 : 4;
#define PICK pool[n > span ? n - 1 - rng_int(r, span) : rng_int(r, n)]
#define SAME(a, b) (ggml_nelements(a) == ggml_nelements(b) && (a)->ne[0] == (b)->ne[0])
    for (int i = 0; i < n_ops && n + 4 < MAX_POOL; i++) {
        struct ggml_tensor * a = PICK, * b = PICK, * t = NULL;
        switch (rng_int(r, 26)) {
            case 0: case 1: t = ggml_add(ctx, a, b); break;
            case 2: t = ggml_mul(ctx, a, m->w1[rng_int(r, m->n_w1)]); break;
            case 3: case 4: case 5: case 6:
                t = ggml_mul_mat(ctx, m->w2[rng_int(r, m->n_w2)], a); break;
            case 7: t = ggml_rms_norm(ctx, a, 1e-5f); break;
            case 8: t = ggml_silu(ctx, a); break;
            case 9: t = ggml_scale(ctx, a, 2.0f); break;
            case 10: t = ggml_scale_inplace(ctx, a, 2.0f); break;
            case 11: t = ggml_cont(ctx, a); break;
            case 12: {
                struct ggml_tensor * k = m->cache[rng_int(r, m->n_cache)];
                struct ggml_tensor * v = ggml_view_2d(ctx, k, D, T, k->nb[1], k->nb[1] * (size_t) rng_int(r, 16));
                ggml_build_forward_expand(g, ggml_cpy(ctx, a, v));
                t = ggml_add(ctx, a, ggml_view_2d(ctx, k, D, T, k->nb[1], 0));
                break;
            }
            case 13: t = ggml_reshape_2d(ctx, ggml_reshape_3d(ctx, a, D / 4, 4, T), D, T); break;
            case 14: {
                struct ggml_tensor * p = ggml_permute(ctx, ggml_reshape_3d(ctx, a, D / 4, 4, T), 0, 2, 1, 3);
                t = ggml_reshape_2d(ctx, ggml_cont(ctx, p), D, T); break;
            }
            case 15: if (m->n_exps) {
                struct ggml_tensor * x = ggml_mul_mat_id(ctx, m->exps[rng_int(r, m->n_exps)], ggml_reshape_3d(ctx, a, D, 1, T), ids);
                t = ggml_cont(ctx, ggml_view_2d(ctx, x, D, T, x->nb[2], 0)); break;
            } else t = ggml_relu(ctx, a); break;
            case 16: t = ggml_get_rows(ctx, a, rows); break;
            case 17: t = ggml_rope(ctx, ggml_reshape_3d(ctx, a, D / 4, 4, T), pos, 16, 0); t = ggml_reshape_2d(ctx, t, D, T); break;
            case 18: t = ggml_soft_max(ctx, a); break;
            case 19: t = ggml_add(ctx, a, a); break;
            case 20: t = ggml_mul(ctx, a, ggml_view_tensor(ctx, m->w1[rng_int(r, m->n_w1)])); break;
            case 21: t = ggml_dup(ctx, a); if (rng_odds(r, 30)) ggml_set_output(t); break;
            case 22: t = ggml_swiglu(ctx, ggml_concat(ctx, a, b, 0)); break;
            case 23: t = ggml_mul_mat(ctx, ggml_cont(ctx, ggml_transpose(ctx, a)), ggml_cont(ctx, ggml_transpose(ctx, b)));
                     t = ggml_mul_mat(ctx, t, a); break;
            case 24: t = ggml_get_rows(ctx, m->w2[rng_int(r, m->n_w2)], rows); break;
            default: t = ggml_add(ctx, ggml_mul_mat(ctx, m->w2[rng_int(r, m->n_w2)], a), m->w1[rng_int(r, m->n_w1)]); break;
        }
        if (!SAME(t, a)) continue;
        if (rng_odds(r, 50)) ggml_format_name(t, "t%d", i);
        if (rng_odds(r, 4)) ggml_set_output(t);
        if (rng_odds(r, 10)) ggml_build_forward_expand(g, t);
        pool[n++] = t;
    }
    ggml_set_output(pool[n - 1]);
    ggml_build_forward_expand(g, pool[n - 1]);
    return g;
}

// A transformer: `causal` with cache, rotation and gated feed-forward, as decoders are; else as BERT is. Weights of the
// layers are on the devices in turn, or half of the layers on one and half on another.
static struct ggml_cgraph * make_transformer(struct ggml_context * ctx, model_t * m, uint64_t seed, int n_layers, int T, bool causal) {
    rng_t rr = { seed }, * r = &rr;
    struct ggml_cgraph * g = ggml_new_graph_custom(ctx, 2048, false);
    enum { H = 4, HD = D / H };
    bool in_turn = rng_odds(r, 50), flash = rng_odds(r, 30), experts = causal && m->n_exps && rng_odds(r, 30);
    struct ggml_tensor * tokens = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, T), * pos = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, T);
    int n_kv = causal ? 64 : T;
    struct ggml_tensor * mask = ggml_new_tensor_2d(ctx, flash ? GGML_TYPE_F16 : GGML_TYPE_F32, n_kv, flash ? GGML_PAD(T, 64) : T);
    struct ggml_tensor * out_ids = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 1);
    ggml_set_name(tokens, "tokens"); ggml_set_name(pos, "pos"); ggml_set_name(mask, "mask"); ggml_set_name(out_ids, "out_ids");
    ggml_set_input(tokens); ggml_set_input(pos); ggml_set_input(mask); ggml_set_input(out_ids);
    struct ggml_tensor * x = ggml_get_rows(ctx, m->w2[m->n_w2 - 1], tokens);
    if (!causal) x = ggml_norm(ctx, ggml_add(ctx, x, ggml_get_rows(ctx, m->w2[m->n_w2 - 1], pos)), 1e-5f);
    for (int l = 0; l < n_layers; l++) {
        int at = in_turn ? l : l * m->n_w2 / n_layers;
        struct ggml_tensor * w = m->w2[at % m->n_w2], * b = m->w1[(in_turn ? l : l * m->n_w1 / n_layers) % m->n_w1];
        struct ggml_tensor * h = causal ? ggml_mul(ctx, ggml_rms_norm(ctx, x, 1e-5f), b) : x;
        struct ggml_tensor * q = ggml_mul_mat(ctx, w, h), * k = ggml_mul_mat(ctx, w, h), * v = ggml_mul_mat(ctx, w, h);
        if (!causal) { q = ggml_add(ctx, q, b); k = ggml_add(ctx, k, b); v = ggml_add(ctx, v, b); }
        ggml_format_name(q, "q-%d", l); ggml_format_name(k, "k-%d", l); ggml_format_name(v, "v-%d", l);
        q = ggml_reshape_3d(ctx, q, HD, H, T); k = ggml_reshape_3d(ctx, k, HD, H, T);
        struct ggml_tensor * kk, * vv;
        if (causal) {
            q = ggml_rope(ctx, q, pos, HD, 0); k = ggml_rope(ctx, k, pos, HD, 0);
            ggml_build_forward_expand(g, q); ggml_build_forward_expand(g, k); ggml_build_forward_expand(g, v);
            struct ggml_tensor * c = m->cache[l % m->n_cache];
            ggml_build_forward_expand(g, ggml_cpy(ctx, ggml_reshape_2d(ctx, k, D, T), ggml_view_2d(ctx, c, D, T, c->nb[1], 0)));
            ggml_build_forward_expand(g, ggml_cpy(ctx, v, ggml_view_2d(ctx, c, D, T, c->nb[1], 64 * c->nb[1])));
            kk = ggml_view_3d(ctx, c, HD, n_kv, H, c->nb[1], HD * 4, 0);
            vv = ggml_view_3d(ctx, c, HD, n_kv, H, c->nb[1], HD * 4, 64 * c->nb[1]);
        } else {
            kk = ggml_permute(ctx, k, 0, 2, 1, 3);
            vv = ggml_permute(ctx, ggml_reshape_3d(ctx, v, HD, H, T), 0, 2, 1, 3);
        }
        q = ggml_permute(ctx, q, 0, 2, 1, 3);
        struct ggml_tensor * a;
        if (flash) {
            a = ggml_flash_attn_ext(ctx, q, kk, vv, mask, 0.25f, 0, 0);
            a = ggml_reshape_2d(ctx, a, D, T);
        } else {
            struct ggml_tensor * kq = ggml_soft_max_ext(ctx, ggml_mul_mat(ctx, kk, q), mask, 0.25f, 0);
            a = ggml_mul_mat(ctx, ggml_cont(ctx, ggml_transpose(ctx, vv)), kq);
            a = ggml_cont_2d(ctx, ggml_permute(ctx, a, 0, 2, 1, 3), D, T);
        }
        a = ggml_mul_mat(ctx, w, a);
        if (l == n_layers - 1) { a = ggml_get_rows(ctx, a, out_ids); x = ggml_get_rows(ctx, x, out_ids); }
        x = ggml_add(ctx, a, x);
        ggml_format_name(x, "attn-%d", l);
        h = causal ? ggml_mul(ctx, ggml_rms_norm(ctx, x, 1e-5f), b) : ggml_add(ctx, ggml_mul(ctx, ggml_norm(ctx, x, 1e-5f), b), b);
        if (experts) {
            int64_t n = h->ne[1];
            struct ggml_tensor * e = m->exps[l % m->n_exps];
            struct ggml_tensor * routing = ggml_soft_max(ctx, ggml_mul_mat(ctx, ggml_view_2d(ctx, m->w2[0], D, 8, m->w2[0]->nb[1], 0), h));
            struct ggml_tensor * ids = ggml_view_2d(ctx, ggml_argsort(ctx, routing, GGML_SORT_ORDER_DESC), 2, n, 8 * 4, 0);
            struct ggml_tensor * up = ggml_mul_mat_id(ctx, e, ggml_reshape_3d(ctx, h, D, 1, n), ids);
            struct ggml_tensor * gate = ggml_mul_mat_id(ctx, e, ggml_reshape_3d(ctx, h, D, 1, n), ids);
            struct ggml_tensor * down = ggml_mul_mat_id(ctx, e, ggml_swiglu_split(ctx, gate, up), ids);
            h = ggml_add(ctx, ggml_view_2d(ctx, down, D, n, down->nb[2], 0), ggml_view_2d(ctx, down, D, n, down->nb[2], down->nb[1]));
        } else {
            struct ggml_tensor * up = ggml_mul_mat(ctx, w, h);
            h = ggml_mul_mat(ctx, w, causal ? ggml_swiglu_split(ctx, ggml_mul_mat(ctx, w, h), up) : ggml_gelu(ctx, ggml_add(ctx, up, b)));
        }
        x = ggml_add(ctx, h, x);
        ggml_format_name(x, "out-%d", l);
    }
    ggml_set_output(x);
    ggml_build_forward_expand(g, x);
    return g;
}

static struct ggml_cgraph * make(struct ggml_context * ctx, model_t * m, uint64_t seed, int n_ops, int T) {
    switch (seed % 5) {
        case 0: return make_transformer(ctx, m, seed, 1 + n_ops / 10, T, true);
        case 1: return make_transformer(ctx, m, seed, 1 + n_ops / 10, T, false);
        default: return make_graph(ctx, m, seed, n_ops, T);
    }
}

static const char * where(ggml_backend_sched_t s, struct ggml_tensor * t) {
    ggml_backend_t b = ggml_backend_sched_get_tensor_backend(s, t);
    return b ? ggml_backend_name(b) : "NULL";
}

static void dump(ggml_backend_sched_t s, struct ggml_cgraph * g) {
    say("splits %d\n", ggml_backend_sched_get_n_splits(s));
    for (int i = 0; i < GRAPH_N(g); i++) {
        struct ggml_tensor * t = GRAPH_NODE(g, i);
        say("%d %s [%s] f=%d ", i, ggml_op_desc(t), where(s, t), t->flags); print_tensor(t); say(" <=");
        for (int j = 0; j < GGML_MAX_SRC; j++) if (t->src[j]) {
            say(" %d:[%s] f=%d ", j, where(s, t->src[j]), t->src[j]->flags); print_tensor(t->src[j]);
            if (t->src[j]->view_src) { say(" of "); print_tensor(t->src[j]->view_src); }
        }
        say("\n");
    }
}

static void sizes(ggml_backend_sched_t s) {
    for (int i = 0; i < n_fakes; i++) say("size %s %zu\n", fakes[i].name, ggml_backend_sched_get_buffer_size(s, &fakes[i].backend));
}

static int eval_count;
static bool on_eval(struct ggml_tensor * t, bool ask, void * user) {
    (void) user; eval_count++;
    say("  eval %s ask=%d\n", t->name, ask);
    return ask ? mix((uint32_t) eval_count, 3) % 3 == 0 : mix((uint32_t) eval_count, 4) % 20 != 0;
}

/* Copies the experts in use, as llama.cpp 0.8.0 does, or leaves the copy to the scheduler. (Without a callback this
 * library copies the experts in use, and the original all of them: c_tests/async/test_batches.c.) */
static bool on_copy(ggml_backend_t backend, const struct ggml_tensor * src, struct ggml_tensor * dst, struct ggml_cgraph * graph, void * user) {
    const struct ggml_tensor * node = ggml_graph_n_nodes(graph) > 0 ? ggml_graph_node(graph, 0) : NULL;
    say("  copy "); print_tensor(src); say(" -> "); print_tensor(dst); say(" for %d nodes\n", ggml_graph_n_nodes(graph));
    if (user == NULL || node == NULL || node->op != GGML_OP_MUL_MAT_ID || node->src[0] != dst) return false;
    const struct ggml_tensor * ids = node->src[2];
    if (ggml_nelements(ids) == 0) return true;
    int32_t * chosen = malloc(ggml_nbytes(ids));
    ggml_backend_tensor_get_async(backend, ids, chosen, 0, ggml_nbytes(ids));
    ggml_backend_synchronize(backend);
    for (int64_t e = 0; e < src->ne[2]; e++) {
        bool used = false;
        for (int64_t i = 0; i < ids->ne[0] * ids->ne[1]; i++) {
            used |= chosen[i % ids->ne[0] * (int64_t) (ids->nb[0] / 4) + i / ids->ne[0] * (int64_t) (ids->nb[1] / 4)] == e;
        }
        if (used) ggml_backend_tensor_set_async(backend, dst, (const char *) src->data + (size_t) e * src->nb[2], (size_t) e * src->nb[2], src->nb[2]);
    }
    free(chosen);
    return true;
}

static void on_realloc(ggml_backend_sched_t s, struct ggml_cgraph * g, bool ids_changed, bool size_changed, void * user) {
    (void) s; (void) g; (void) user;
    say("realloc: ids changed %d, size changed %d\n", ids_changed, size_changed);
}

// What the host places: nodes, by their number, and where.
typedef struct { int n, node[3], backend[3]; } places_t;

static void apply(const places_t * p, ggml_backend_sched_t s, struct ggml_cgraph * g) {
    for (int k = 0; k < p->n; k++) ggml_backend_sched_set_tensor_backend(s, GRAPH_NODE(g, p->node[k]), &fakes[p->backend[k]].backend);
}

static const struct ggml_tensor * root_of(const struct ggml_tensor * t) { return t->view_src ? t->view_src : t; }

// Whether the backend of a node cannot use the memory of a tensor.
static bool is_foreign(ggml_backend_t b, const struct ggml_tensor * t) {
    const struct ggml_tensor * root = root_of(t);
    return root->buffer != NULL && !dev_supports_buft(b->device, root->buffer->buft);
}

static bool looks_only(const struct ggml_tensor * t) {
    return t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_PERMUTE || t->op == GGML_OP_TRANSPOSE;
}

// Whether a node before `to`, from `from` on, writes into memory that has another owner: that of `t`.
static bool written(struct ggml_tensor ** nodes, const struct ggml_tensor * t, int from, int to) {
    for (int i = from; i < to; i++) {
        const struct ggml_tensor * w = nodes[i];
        if (w->view_src != NULL && !looks_only(w) && w->view_src == root_of(t)) return true;
    }
    return false;
}

// Prints the nodes that cannot have right results with this placement: a backend is given memory that it cannot use, or
// reads a copy from before the memory was written. Uses a scheduler of its own, so that the one under test is not
// disturbed.
static void check_placement(model_t * m, ggml_backend_t * bs, ggml_backend_buffer_type_t * ts, bool parallel, bool offload, uint64_t shape, int n_ops,
    int T, const places_t * places) {
    const int buffers = fake_buffers, events = fake_events;
    int fails[MAX_FAKES];
    for (int i = 0; i < n_fakes; i++) { fails[i] = fakes[i].fail_alloc; fakes[i].fail_alloc = 0; }
    fake_quiet = true;
    struct ggml_context * ctx = new_ctx(ggml_tensor_overhead() * 4096 + ggml_graph_overhead_custom(2048, false));
    struct ggml_cgraph * g = make(ctx, m, shape, n_ops, T);
    const int n = GRAPH_N(g);
    // Backends may reorder the graph.
    struct ggml_tensor ** nodes = malloc((size_t) n * sizeof(*nodes));
    struct ggml_tensor * (* srcs)[GGML_MAX_SRC] = malloc((size_t) n * sizeof(*srcs));
    for (int i = 0; i < n; i++) {
        nodes[i] = GRAPH_NODE(g, i);
        memcpy(srcs[i], nodes[i]->src, sizeof(srcs[i]));
    }
    ggml_backend_sched_t s = ggml_backend_sched_new(bs, ts, n_fakes, 4096, parallel, offload);
    apply(places, s, g);
    const bool ok = ggml_backend_sched_alloc_graph(s, g);
    int foreign = 0, stale = 0, elsewhere = 0;
    char what[256] = "";
    for (int i = 0; ok && i < n; i++) {
        struct ggml_tensor * t = nodes[i];
        ggml_backend_t b = ggml_backend_sched_get_tensor_backend(s, t);
        if (looks_only(t) || b == NULL) continue;
        foreign += is_foreign(b, t);
        if (foreign && !what[0]) snprintf(what, sizeof(what), "%s '%s' on %s", ggml_op_desc(t), t->name, be_name(b));
        for (int j = 0; j < GGML_MAX_SRC; j++) {
            const struct ggml_tensor * copy = t->src[j];
            if (copy == NULL) continue;
            foreign += is_foreign(b, copy);
            if (foreign && !what[0]) snprintf(what, sizeof(what), "source %d '%s' of %s '%s' on %s", j, copy->name, ggml_op_desc(t), t->name, be_name(b));
            ggml_backend_t at = looks_only(srcs[i][j]) ? ggml_backend_sched_get_tensor_backend(s, srcs[i][j]) : NULL;
            elsewhere += at != NULL && is_foreign(at, srcs[i][j]);
            if (copy == srcs[i][j]) continue;
            int first = i; // the copy was made for this node
            for (int k = 0; k < i && first == i; k++) {
                for (int l = 0; l < GGML_MAX_SRC; l++) if (nodes[k]->src[l] == copy) first = k;
            }
            stale += written(nodes, srcs[i][j], first, i);
        }
    }
    ggml_backend_sched_free(s);
    ggml_free(ctx);
    free(nodes);
    free(srcs);
    fake_quiet = false;
    fake_buffers = buffers;
    fake_events = events;
    for (int i = 0; i < n_fakes; i++) fakes[i].fail_alloc = fails[i];
    if (!ok) say("impossible: no memory for the graph\n");
    if (foreign) say("impossible: foreign memory: %s\n", what);
    if (elsewhere) say("views elsewhere: %d\n", elsewhere);
    if (stale) say("impossible: copies from before a write\n");
}

static void run_sched(rng_t * r, model_t * m, int max_ops) {
    ggml_backend_t bs[MAX_FAKES]; ggml_backend_buffer_type_t ts[MAX_FAKES];
    for (int i = 0; i < n_fakes; i++) { bs[i] = &fakes[i].backend; ts[i] = dev_buft(&fakes[i].dev); }
    bool parallel = rng_odds(r, 40), offload = rng_odds(r, 60), bufts = rng_odds(r, 50);
    ggml_backend_sched_t s = ggml_backend_sched_new(bs, bufts ? ts : NULL, n_fakes, 4096, parallel, offload);
    if (rng_odds(r, 20)) ggml_backend_sched_set_eval_callback(s, on_eval, NULL);
    ggml_backend_sched_set_copy_callback(s, on_copy, n_fakes % 2 ? (void *) s : NULL);
    ggml_backend_sched_set_realloc_callback(s, on_realloc, NULL);
    uint64_t shape = rng_next(r);
    int n_ops = 3 + rng_int(r, max_ops), T = 8 + rng_int(r, 24);
    struct ggml_context * ctx = new_ctx(ggml_tensor_overhead() * 4096 + ggml_graph_overhead_custom(2048, false));
    const places_t nowhere = { 0 };
    if (rng_odds(r, 60)) {
        struct ggml_cgraph * g = make(ctx, m, shape, n_ops, T);
        if (rng_odds(r, 30)) {
            size_t n[MAX_FAKES];
            check_placement(m, bs, bufts ? ts : NULL, parallel, offload, shape, n_ops, T, &nowhere);
            say("reserve_size\n");
            ggml_backend_sched_reserve_size(s, g, n);
            for (int i = 0; i < n_fakes; i++) say("measured %zu\n", n[i]);
            ggml_reset(ctx); g = make(ctx, m, shape, n_ops, T);
            ggml_backend_sched_reset(s);
        }
        places_t places = { rng_odds(r, 30), { GRAPH_N(g) / 2 }, { n_fakes / 2 } };
        check_placement(m, bs, bufts ? ts : NULL, parallel, offload, shape, n_ops, T, &places);
        apply(&places, s, g);
        bool ok = ggml_backend_sched_reserve(s, g);
        say("reserve %d\n", ok);
        sizes(s);
    }
    int steps = 1 + rng_int(r, 6);
    for (int i = 0; i < steps; i++) {
        if (rng_odds(r, 15)) { shape = rng_next(r); n_ops = 3 + rng_int(r, max_ops); }
        say("step %d\n", i);
        ggml_backend_sched_reset(s);
        ggml_reset(ctx);
        for (int before = rng_odds(r, 40) ? rng_int(r, 5) : 0; before > 0; before--) ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 1);
        const int columns = rng_odds(r, 50) ? T : 1 + rng_int(r, T);
        struct ggml_cgraph * g = make(ctx, m, shape, n_ops, columns);
        places_t places = { 0 };
        if (rng_odds(r, 25)) for (; places.n < 3; places.n++) {
            places.backend[places.n] = rng_int(r, n_fakes);
            places.node[places.n] = rng_int(r, GRAPH_N(g));
        }
        check_placement(m, bs, bufts ? ts : NULL, parallel, offload, shape, n_ops, columns, &places);
        apply(&places, s, g);
        if (rng_odds(r, 90)) {
            bool ok = ggml_backend_sched_alloc_graph(s, g);
            say("alloc %d\n", ok);
            dump(s, g);
            sizes(s);
        }
        int runs = rng_int(r, 3);
        for (int k = 0; k < runs; k++) {
            say("compute\n");
            int st = rng_odds(r, 50) ? ggml_backend_sched_graph_compute(s, g) : ggml_backend_sched_graph_compute_async(s, g);
            say("status %d\n", st);
        }
        if (rng_odds(r, 30)) ggml_backend_sched_synchronize(s);
    }
    ggml_backend_sched_free(s);
    ggml_free(ctx);
}

static void run_gallocr(rng_t * r, model_t * m, int max_ops) {
    ggml_backend_buffer_type_t ts[MAX_FAKES];
    int n = 1 + rng_int(r, 3);
    for (int i = 0; i < n; i++) ts[i] = &fakes[rng_int(r, n_fakes)].buft;
    ggml_gallocr_t a = n == 1 && rng_odds(r, 50) ? ggml_gallocr_new(ts[0]) : ggml_gallocr_new_n(ts, n);
    struct ggml_context * ctx = new_ctx(ggml_tensor_overhead() * 4096 + ggml_graph_overhead_custom(2048, false));
    uint64_t shape = rng_next(r);
    int n_ops = 3 + rng_int(r, max_ops), T = 8 + rng_int(r, 24);
    for (int i = 0; i < 3; i++) {
        say("gallocr %d\n", i);
        ggml_reset(ctx);
        struct ggml_cgraph * g = make(ctx, m, shape, n_ops, i == 1 ? 1 + rng_int(r, T) : T);
        int nodes[4096], leafs[4096];
        for (int k = 0; k < 4096; k++) { nodes[k] = rng_int(r, n); leafs[k] = rng_int(r, n); }
        size_t z[MAX_FAKES];
        if (rng_odds(r, 40)) {
            ggml_gallocr_reserve_n_size(a, g, nodes, leafs, z);
            for (int k = 0; k < n; k++) say("measured %zu\n", z[k]);
        }
        if (i != 1) say("reserve %d\n", ggml_gallocr_reserve_n(a, g, rng_odds(r, 90) ? nodes : NULL, rng_odds(r, 90) ? leafs : NULL));
        for (int k = 0; k < n; k++) say("size %zu\n", ggml_gallocr_get_buffer_size(a, k));
        bool ok = i != 1 ? ggml_gallocr_alloc_graph(a, g) : false;
        say("alloc %d\n", ok);
        for (int k = 0; ok && k < GRAPH_N(g); k++) {
            struct ggml_tensor * t = GRAPH_NODE(g, k);
            print_tensor(t);
            for (int j = 0; j < GGML_MAX_SRC; j++) if (t->src[j]) { say(" "); print_tensor(t->src[j]); }
            say("\n");
        }
    }
    ggml_gallocr_free(a);
    ggml_free(ctx);
}

// A library may end the process for a graph that is impossible: each seed has a process of its own.
static void on_abort(const char * text) {
    fprintf(stderr, "%s\n", text);
    fflush(stdout);
    _exit(3);
}

static void run_seed(uint64_t seed, int max_ops) {
    rng_t r = { seed * 1000003 };
    make_devices(&r);
    model_t m;
    make_model(&r, &m);
    if (rng_odds(&r, 30)) run_gallocr(&r, &m, max_ops);
    run_sched(&r, &m, max_ops);
    free_model(&m);
}

int main(int argc, char ** argv) {
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int count = argc > 2 ? atoi(argv[2]) : 10, max_ops = argc > 3 ? atoi(argv[3]) : 60;
    setenv("GGML_SCHED_DEBUG", "2", 1);
    ggml_log_set(on_log, NULL);
    ggml_set_abort_callback(on_abort);
    for (int i = 0; i < count; i++) {
        printf("==== seed %llu\n", (unsigned long long) (first + (uint64_t) i));
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            run_seed(first + (uint64_t) i, max_ops);
            fflush(stdout);
            _exit(0);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) < 0) return 1;
        if (WIFSIGNALED(status)) printf("#### signal %d\n", WTERMSIG(status));
        if (WIFEXITED(status) && WEXITSTATUS(status) == 3) printf("#### abort\n");
    }
    return 0;
}
