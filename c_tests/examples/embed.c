/* Sentence embeddings with a BERT model, in plain C with ggml's public headers only.
 *
 *   embed [options] [--] MODEL.gguf [sentence ...]
 *
 * Reads the model, splits the sentences into WordPiece tokens, builds BERT's graph, lets the scheduler place it on all
 * the devices there are, and prints how alike the sentences are, the time, and where the graph ran. Exit status 0 means
 * that it worked. */
#define _POSIX_C_SOURCE 200809L
#define _DARWIN_C_SOURCE // macOS: the number of processors, too

#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "gguf.h"
#include "wordpiece.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <unistd.h>
#endif

#define MAX_LAYERS   64
#define MAX_BACKENDS 16
#define GRAPH_SIZE   4096

struct layer {
    struct ggml_tensor *q, *qb, *k, *kb, *v, *vb, *o, *ob, *norm1, *norm1b, *up, *upb, *down, *downb, *norm2, *norm2b;
};

struct model {
    struct gguf_context * gguf;
    struct ggml_context * weights;
    ggml_backend_buffer_t buffer;
    const char          * name;
    int64_t               n_embd, n_ff, n_head, n_layer, n_ctx, n_vocab;
    float                 eps;
    struct ggml_tensor *  tok, *pos, *types, *norm, *normb;
    struct layer          layers[MAX_LAYERS];
    struct wordpiece      words;
    uint8_t             * control;
    const char         ** tokens;
};

struct machine {
    ggml_backend_t       backends[MAX_BACKENDS]; /* the last one is a CPU */
    int                  n;
    ggml_backend_sched_t sched;
};

struct options {
    const char *  model;
    const char ** sentences;
    int           n_sentences, n_threads, n_show;
    bool          raw;
};

static bool fail(const char * format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "embed: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    return false;
}

/* ---- the model file ---- */

static int64_t key_of(const struct gguf_context * g, const char * key, enum gguf_type type) {
    const int64_t id = gguf_find_key(g, key);
    return id >= 0 && gguf_get_kv_type(g, id) == type ? id : -1;
}

static bool get_u32(const struct model * m, const char * key, int64_t * out) {
    const int64_t id = key_of(m->gguf, key, GGUF_TYPE_UINT32);
    if (id < 0) {
        return fail("the file has no number \"%s\"", key);
    }
    *out = gguf_get_val_u32(m->gguf, id);
    return true;
}

/* Returns the tensor `name` of the shape ne0 x ne1 (ne1 = 1: a vector). If there is none, logs an error and returns
 * NULL. */
static struct ggml_tensor * weight(const struct model * m, int64_t ne0, int64_t ne1, const char * format, ...) {
    char    name[GGML_MAX_NAME];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    struct ggml_tensor * t = ggml_get_tensor(m->weights, name);
    if (t == NULL) {
        fail("the file has no tensor \"%s\"", name);
    } else if (t->ne[0] != ne0 || t->ne[1] != ne1 || t->ne[2] != 1 || t->ne[3] != 1) {
        fail("tensor \"%s\" is %lld x %lld, expected %lld x %lld", name, (long long) t->ne[0], (long long) t->ne[1], (long long) ne0, (long long) ne1);
        t = NULL;
    }
    return t;
}

static bool read_vocabulary(struct model * m) {
    const int64_t list  = key_of(m->gguf, "tokenizer.ggml.tokens", GGUF_TYPE_ARRAY);
    const int64_t kinds = key_of(m->gguf, "tokenizer.ggml.token_type", GGUF_TYPE_ARRAY);
    int64_t       unk, sep, cls;
    if (list < 0 || gguf_get_arr_type(m->gguf, list) != GGUF_TYPE_STRING || gguf_get_arr_n(m->gguf, list) == 0) {
        return fail("the file has no vocabulary (tokenizer.ggml.tokens)");
    }
    const size_t n = gguf_get_arr_n(m->gguf, list);
    if (!get_u32(m, "tokenizer.ggml.unknown_token_id", &unk) || !get_u32(m, "tokenizer.ggml.seperator_token_id", &sep) ||
        !get_u32(m, "tokenizer.ggml.cls_token_id", &cls)) {
        return false;
    }
    if (unk >= (int64_t) n || sep >= (int64_t) n || cls >= (int64_t) n) {
        return fail("a special token's number is larger than the vocabulary");
    }
    m->n_vocab = (int64_t) n;
    m->tokens  = calloc(n, sizeof *m->tokens);
    m->control = calloc(n, 1);
    if (m->tokens == NULL || m->control == NULL) {
        return fail("out of memory");
    }
    const bool      typed = kinds >= 0 && gguf_get_arr_type(m->gguf, kinds) == GGUF_TYPE_INT32 && gguf_get_arr_n(m->gguf, kinds) == n;
    const int32_t * types = typed ? gguf_get_arr_data(m->gguf, kinds) : NULL;
    for (size_t i = 0; i < n; i++) {
        m->tokens[i]  = gguf_get_arr_str(m->gguf, list, i);
        m->control[i] = types != NULL && types[i] != 1;
    }
    return wp_init(&m->words, m->tokens, m->control, n, (int32_t) unk, (int32_t) cls, (int32_t) sep) || fail("out of memory");
}

static bool find_weights(struct model * m) {
    const int64_t e = m->n_embd, f = m->n_ff;
    bool          ok = true;
    int64_t       n_types;
    if (!get_u32(m, "tokenizer.ggml.token_type_count", &n_types)) {
        return false;
    }
    ok = ok && (m->tok   = weight(m, e, m->n_vocab, "token_embd.weight"));
    ok = ok && (m->pos   = weight(m, e, m->n_ctx, "position_embd.weight"));
    ok = ok && (m->types = weight(m, e, n_types, "token_types.weight"));
    ok = ok && (m->norm  = weight(m, e, 1, "token_embd_norm.weight"));
    ok = ok && (m->normb = weight(m, e, 1, "token_embd_norm.bias"));
    for (int i = 0; i < (int) m->n_layer && ok; i++) {
        struct layer * l = &m->layers[i];
        ok = ok && (l->q      = weight(m, e, e, "blk.%d.attn_q.weight", i));
        ok = ok && (l->qb     = weight(m, e, 1, "blk.%d.attn_q.bias", i));
        ok = ok && (l->k      = weight(m, e, e, "blk.%d.attn_k.weight", i));
        ok = ok && (l->kb     = weight(m, e, 1, "blk.%d.attn_k.bias", i));
        ok = ok && (l->v      = weight(m, e, e, "blk.%d.attn_v.weight", i));
        ok = ok && (l->vb     = weight(m, e, 1, "blk.%d.attn_v.bias", i));
        ok = ok && (l->o      = weight(m, e, e, "blk.%d.attn_output.weight", i));
        ok = ok && (l->ob     = weight(m, e, 1, "blk.%d.attn_output.bias", i));
        ok = ok && (l->norm1  = weight(m, e, 1, "blk.%d.attn_output_norm.weight", i));
        ok = ok && (l->norm1b = weight(m, e, 1, "blk.%d.attn_output_norm.bias", i));
        ok = ok && (l->up     = weight(m, e, f, "blk.%d.ffn_up.weight", i));
        ok = ok && (l->upb    = weight(m, f, 1, "blk.%d.ffn_up.bias", i));
        ok = ok && (l->down   = weight(m, f, e, "blk.%d.ffn_down.weight", i));
        ok = ok && (l->downb  = weight(m, e, 1, "blk.%d.ffn_down.bias", i));
        ok = ok && (l->norm2  = weight(m, e, 1, "blk.%d.layer_output_norm.weight", i));
        ok = ok && (l->norm2b = weight(m, e, 1, "blk.%d.layer_output_norm.bias", i));
    }
    return ok;
}

/* Gives the weights memory on `backend` and fills it from the file. */
static bool read_weights(struct model * m, const char * path, ggml_backend_t backend) {
    m->buffer = ggml_backend_alloc_ctx_tensors(m->weights, backend);
    if (m->buffer == NULL) {
        return fail("%s has no room for the weights", ggml_backend_name(backend));
    }
    ggml_backend_buffer_set_usage(m->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    FILE * file = fopen(path, "rb");
    char * copy = NULL;
    size_t room = 0;
    bool   ok   = file != NULL || fail("cannot open %s", path);
    for (int64_t i = 0; ok && i < gguf_get_n_tensors(m->gguf); i++) {
        struct ggml_tensor * t = ggml_get_tensor(m->weights, gguf_get_tensor_name(m->gguf, i));
        const size_t size = gguf_get_tensor_size(m->gguf, i);
        if (t == NULL || size != ggml_nbytes(t)) {
            ok = fail("the file's tensor list is not consistent");
            break;
        }
        if (size > room) {
            char * grown = realloc(copy, size);
            if (grown == NULL) {
                ok = fail("out of memory");
                break;
            }
            copy = grown;
            room = size;
        }
        if (fseek(file, (long) (gguf_get_data_offset(m->gguf) + gguf_get_tensor_offset(m->gguf, i)), SEEK_SET) != 0 || fread(copy, 1, size, file) != size) {
            ok = fail("%s ends before the data of tensor \"%s\"", path, t->name);
            break;
        }
        ggml_backend_tensor_set(t, copy, 0, size);
    }
    free(copy);
    if (file != NULL) {
        fclose(file);
    }
    return ok;
}

static bool open_model(struct model * m, const char * path) {
    struct gguf_init_params params = { .no_alloc = true, .ctx = &m->weights };
    m->gguf = gguf_init_from_file(path, params);
    if (m->gguf == NULL) {
        return fail("cannot read %s as a GGUF file", path);
    }
    const int64_t arch = key_of(m->gguf, "general.architecture", GGUF_TYPE_STRING);
    if (arch < 0 || strcmp(gguf_get_val_str(m->gguf, arch), "bert") != 0) {
        return fail("%s holds a model of the architecture \"%s\"; this program knows \"bert\"", path, arch < 0 ? "?" : gguf_get_val_str(m->gguf, arch));
    }
    int64_t pooling;
    if (!get_u32(m, "bert.embedding_length", &m->n_embd) || !get_u32(m, "bert.feed_forward_length", &m->n_ff) ||
        !get_u32(m, "bert.attention.head_count", &m->n_head) || !get_u32(m, "bert.block_count", &m->n_layer) ||
        !get_u32(m, "bert.context_length", &m->n_ctx) || !get_u32(m, "bert.pooling_type", &pooling)) {
        return false;
    }
    if (m->n_layer < 1 || m->n_layer > MAX_LAYERS || m->n_head < 1 || m->n_embd < 1 || m->n_embd % m->n_head != 0 || m->n_ctx < 2) {
        return fail("the model's dimensions make no sense");
    }
    if (pooling != 1) {
        return fail("the model pools in way %lld; this program does mean pooling (1)", (long long) pooling);
    }
    const int64_t eps  = key_of(m->gguf, "bert.attention.layer_norm_epsilon", GGUF_TYPE_FLOAT32);
    const int64_t name = key_of(m->gguf, "general.name", GGUF_TYPE_STRING);
    m->eps  = eps < 0 ? 1e-12f : gguf_get_val_f32(m->gguf, eps);
    m->name = name < 0 ? path : gguf_get_val_str(m->gguf, name);
    return read_vocabulary(m) && find_weights(m);
}

static void close_model(struct model * m) {
    wp_free(&m->words);
    free(m->tokens);
    free(m->control);
    ggml_backend_buffer_free(m->buffer);
    ggml_free(m->weights);
    gguf_free(m->gguf);
}

/* ---- the devices ---- */

static bool open_machine(struct machine * machine, int n_threads) {
    ggml_backend_load_all();
    /* Fast devices first, because the scheduler prefers earlier ones. The last one must be a CPU. */
    static const enum ggml_backend_dev_type order[] = { GGML_BACKEND_DEVICE_TYPE_GPU, GGML_BACKEND_DEVICE_TYPE_IGPU, GGML_BACKEND_DEVICE_TYPE_ACCEL, GGML_BACKEND_DEVICE_TYPE_CPU };
    for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
        for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
            ggml_backend_dev_t dev = ggml_backend_dev_get(i);
            if (ggml_backend_dev_type(dev) != order[k] || machine->n == MAX_BACKENDS) {
                continue;
            }
            ggml_backend_t b = ggml_backend_dev_init(dev, NULL);
            if (b == NULL) {
                fail("device %s does not start and is left out", ggml_backend_dev_name(dev));
                continue;
            }
            machine->backends[machine->n++] = b;
            /* ISO C has no cast from an object pointer to a function pointer; POSIX promises that they are alike */
            ggml_backend_set_n_threads_t set_threads;
            void * address = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(dev), "ggml_backend_set_n_threads");
            memcpy(&set_threads, &address, sizeof set_threads);
            if (set_threads != NULL && n_threads > 0) {
                set_threads(b, n_threads);
            }
        }
    }
    if (machine->n == 0 || ggml_backend_dev_type(ggml_backend_get_device(machine->backends[machine->n - 1])) != GGML_BACKEND_DEVICE_TYPE_CPU) {
        return fail("no CPU device");
    }
    machine->sched = ggml_backend_sched_new(machine->backends, NULL, machine->n, GRAPH_SIZE, false, true);
    return machine->sched != NULL || fail("cannot make a scheduler");
}

static void close_machine(struct machine * machine) {
    ggml_backend_sched_free(machine->sched);
    for (int i = 0; i < machine->n; i++) {
        ggml_backend_free(machine->backends[i]);
    }
}

/* ---- the graph ---- */

static struct ggml_tensor * layer_norm(struct ggml_context * c, struct ggml_tensor * x, struct ggml_tensor * w, struct ggml_tensor * b, float eps) {
    return ggml_add(c, ggml_mul(c, ggml_norm(c, x, eps), w), b);
}

static struct ggml_tensor * linear(struct ggml_context * c, struct ggml_tensor * w, struct ggml_tensor * b, struct ggml_tensor * x) {
    return ggml_add(c, ggml_mul_mat(c, w, x), b);
}

/* [n_embd, n] -> heads in front: [head size, n, heads] */
static struct ggml_tensor * heads(struct ggml_context * c, const struct model * m, struct ggml_tensor * x, int64_t n) {
    return ggml_permute(c, ggml_reshape_3d(c, x, m->n_embd / m->n_head, m->n_head, n), 0, 2, 1, 3);
}

/* Builds the graph for one sentence of n tokens: inputs "tokens", "positions" and "mean", output "embedding" of length
 * 1. */
static struct ggml_cgraph * build(struct ggml_context * c, const struct model * m, int64_t n) {
    struct ggml_cgraph * graph     = ggml_new_graph_custom(c, GRAPH_SIZE, false);
    struct ggml_tensor * tokens    = ggml_set_name(ggml_new_tensor_1d(c, GGML_TYPE_I32, n), "tokens");
    struct ggml_tensor * positions = ggml_set_name(ggml_new_tensor_1d(c, GGML_TYPE_I32, n), "positions");
    struct ggml_tensor * mean      = ggml_set_name(ggml_new_tensor_2d(c, GGML_TYPE_F32, n, 1), "mean");
    ggml_set_input(tokens);
    ggml_set_input(positions);
    ggml_set_input(mean);

    struct ggml_tensor * x = ggml_get_rows(c, m->tok, tokens);
    x = ggml_add(c, x, ggml_view_1d(c, m->types, m->n_embd, 0)); /* every token is of type 0: the first row */
    x = ggml_add(c, x, ggml_get_rows(c, m->pos, positions));
    x = layer_norm(c, x, m->norm, m->normb, m->eps);
    for (int64_t i = 0; i < m->n_layer; i++) {
        const struct layer * l = &m->layers[i];
        struct ggml_tensor * q = heads(c, m, linear(c, l->q, l->qb, x), n);
        struct ggml_tensor * k = heads(c, m, linear(c, l->k, l->kb, x), n);
        struct ggml_tensor * v = heads(c, m, linear(c, l->v, l->vb, x), n);
        struct ggml_tensor * a = ggml_soft_max_ext(c, ggml_mul_mat(c, k, q), NULL, 1.0f / sqrtf((float) (m->n_embd / m->n_head)), 0.0f);
        a = ggml_mul_mat(c, ggml_cont(c, ggml_transpose(c, v)), a);
        a = ggml_cont_2d(c, ggml_permute(c, a, 0, 2, 1, 3), m->n_embd, n);
        x = layer_norm(c, ggml_add(c, linear(c, l->o, l->ob, a), x), l->norm1, l->norm1b, m->eps);
        struct ggml_tensor * f = linear(c, l->down, l->downb, ggml_gelu(c, linear(c, l->up, l->upb, x)));
        x = layer_norm(c, ggml_add(c, f, x), l->norm2, l->norm2b, m->eps);
    }
    x = ggml_mul_mat(c, ggml_cont(c, ggml_transpose(c, x)), mean); /* mean pooling as one product with 1/n */
    x = ggml_l2_norm(c, x, 1e-12f);
    ggml_set_output(ggml_set_name(x, "embedding"));
    ggml_build_forward_expand(graph, x);
    return graph;
}

struct placement {
    int    n_nodes, n_splits, nodes[MAX_BACKENDS];
    size_t memory[MAX_BACKENDS];
};

static void note_placement(const struct machine * machine, struct ggml_cgraph * graph, struct placement * p) {
    memset(p, 0, sizeof *p);
    p->n_nodes  = ggml_graph_n_nodes(graph);
    p->n_splits = ggml_backend_sched_get_n_splits(machine->sched);
    for (int b = 0; b < machine->n; b++) {
        p->memory[b] = ggml_backend_sched_get_buffer_size(machine->sched, machine->backends[b]);
        for (int i = 0; i < p->n_nodes; i++) {
            p->nodes[b] += ggml_backend_sched_get_tensor_backend(machine->sched, ggml_graph_node(graph, i)) == machine->backends[b];
        }
    }
}

static bool embed(const struct model * m, const struct machine * machine, const int32_t * ids, size_t n, float * out, struct placement * p) {
    struct ggml_init_params params = { .mem_size = GRAPH_SIZE * ggml_tensor_overhead() + ggml_graph_overhead_custom(GRAPH_SIZE, false), .mem_buffer = NULL, .no_alloc = true };
    struct ggml_context *   c      = ggml_init(params);
    int32_t *               index  = malloc(n * sizeof *index);
    float *                 share  = malloc(n * sizeof *share);
    bool                    ok     = (c != NULL && index != NULL && share != NULL) || fail("out of memory");
    if (ok) {
        struct ggml_cgraph * graph = build(c, m, (int64_t) n);
        for (size_t i = 0; i < n; i++) {
            index[i] = (int32_t) i;
            share[i] = 1.0f / (float) n;
        }
        ggml_backend_sched_reset(machine->sched);
        ok = ggml_backend_sched_alloc_graph(machine->sched, graph) || fail("no memory for the graph");
        if (ok) {
            ggml_backend_tensor_set(ggml_graph_get_tensor(graph, "tokens"), ids, 0, n * sizeof *ids);
            ggml_backend_tensor_set(ggml_graph_get_tensor(graph, "positions"), index, 0, n * sizeof *index);
            ggml_backend_tensor_set(ggml_graph_get_tensor(graph, "mean"), share, 0, n * sizeof *share);
            const enum ggml_status status = ggml_backend_sched_graph_compute(machine->sched, graph);
            ok = status == GGML_STATUS_SUCCESS || fail("the computation failed: %s", ggml_status_to_string(status));
        }
        if (ok) {
            ggml_backend_tensor_get(ggml_graph_get_tensor(graph, "embedding"), out, 0, (size_t) m->n_embd * sizeof *out);
            note_placement(machine, graph, p);
        }
    }
    free(index);
    free(share);
    ggml_free(c);
    return ok;
}

/* ---- the program ---- */

static double dot(const float * a, const float * b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double) a[i] * b[i];
    }
    return sum;
}

static void print_report(const struct model * m, const struct machine * machine, const struct options * o, const float * vectors, const struct placement * p) {
    printf("\nsentences and the first numbers of their vectors:\n");
    for (int i = 0; i < o->n_sentences; i++) {
        printf("  [%d] %-44s", i, o->sentences[i]);
        for (int k = 0; k < o->n_show && k < m->n_embd; k++) {
            printf(" %8.4f", (double) vectors[i * m->n_embd + k]);
        }
        printf("\n");
    }
    printf("\nsimilarity (cosine):\n     ");
    for (int i = 0; i < o->n_sentences; i++) {
        printf("    [%d]", i);
    }
    for (int i = 0; i < o->n_sentences; i++) {
        printf("\n  [%d]", i);
        for (int k = 0; k < o->n_sentences; k++) {
            printf(" %6.3f", dot(vectors + i * m->n_embd, vectors + k * m->n_embd, m->n_embd));
        }
    }
    printf("\n\nplacement of the last graph: %d nodes in %d split%s\n", p->n_nodes, p->n_splits, p->n_splits == 1 ? "" : "s");
    for (int b = 0; b < machine->n; b++) {
        printf("  %-10s %-44s %5d nodes, %8.2f MiB of compute buffer\n", ggml_backend_name(machine->backends[b]),
               ggml_backend_dev_description(ggml_backend_get_device(machine->backends[b])), p->nodes[b], (double) p->memory[b] / 1048576.0);
    }
}

static bool run(const struct options * o, struct model * m, struct machine * machine) {
    const int64_t t0 = ggml_time_us();
    if (!open_machine(machine, o->n_threads) || !open_model(m, o->model) || !read_weights(m, o->model, machine->backends[0])) {
        return false;
    }
    const int64_t t1 = ggml_time_us();
    if (!o->raw) {
        printf("model      %s: %lld layers, %lld numbers a vector, %lld words; %.1f MiB of weights in %s\n", m->name, (long long) m->n_layer, (long long) m->n_embd,
               (long long) m->n_vocab, (double) ggml_backend_buffer_get_size(m->buffer) / 1048576.0, ggml_backend_buffer_name(m->buffer));
    }
    float *          vectors = calloc((size_t) o->n_sentences * (size_t) m->n_embd, sizeof *vectors);
    int32_t *        ids     = calloc((size_t) m->n_ctx, sizeof *ids);
    size_t           tokens  = 0;
    struct placement p       = { 0 };
    bool             ok      = (vectors != NULL && ids != NULL) || fail("out of memory");
    for (int i = 0; ok && i < o->n_sentences; i++) {
        const size_t n = wp_encode(&m->words, o->sentences[i], ids, (size_t) m->n_ctx);
        tokens += n;
        ok = n > 0 ? embed(m, machine, ids, n, vectors + i * m->n_embd, &p) : fail("out of memory");
    }
    const int64_t t2 = ggml_time_us();
    if (ok && o->raw) {
        for (int64_t i = 0; i < o->n_sentences * m->n_embd; i++) {
            printf("%.9g%c", (double) vectors[i], (i + 1) % m->n_embd == 0 ? '\n' : ' ');
        }
    } else if (ok) {
        print_report(m, machine, o, vectors, &p);
        printf("\ntime       load %.1f ms; %d sentences, %zu tokens in %.1f ms (%.2f ms each)\n", (double) (t1 - t0) / 1e3, o->n_sentences, tokens,
               (double) (t2 - t1) / 1e3, (double) (t2 - t1) / 1e3 / o->n_sentences);
    }
    free(vectors);
    free(ids);
    return ok;
}

static const char * builtin[] = {
    "The cat sits outside", "A cat is sitting in the garden", "A man is playing guitar", "The new movie is awesome", "The film is great", "Someone strums a string instrument",
};

static void usage(FILE * to) {
    fprintf(to, "usage: embed [-t THREADS] [-n NUMBERS] [--raw] [--] MODEL.gguf [sentence ...]\n"
                "  -t THREADS   threads of the CPU device (default: one a core, at most 16)\n"
                "  -n NUMBERS   how many numbers of each vector to show (default 4)\n"
                "  --raw        print nothing but the vectors, a line for each sentence\n"
                "  --           no options follow: sentences may begin with -\n");
}

int main(int argc, char ** argv) {
#ifdef _WIN32
    const long     cores = (long) GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
#else
    const long     cores = sysconf(_SC_NPROCESSORS_ONLN);
#endif
    struct options o     = { .n_show = 4, .n_threads = cores < 1 ? 1 : cores > 16 ? 16 : (int) cores };
    o.sentences = calloc((size_t) argc + 1, sizeof *o.sentences);
    if (o.sentences == NULL) {
        return 1;
    }
    bool good = true, options = true;
    for (int i = 1; i < argc; i++) {
        const bool option = options && argv[i][0] == '-' && argv[i][1] != '\0';
        if (option && (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0)) {
            usage(stdout);
            free(o.sentences);
            return 0;
        }
        if (option && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (option && strcmp(argv[i], "--raw") == 0) {
            o.raw = true;
        } else if (option && (strcmp(argv[i], "-t") == 0 || strcmp(argv[i], "-n") == 0) && i + 1 < argc) {
            int * value = argv[i][1] == 't' ? &o.n_threads : &o.n_show;
            *value = atoi(argv[++i]);
            good   = good && *value > 0;
        } else if (option) {
            good = false;
        } else if (o.model == NULL) {
            o.model = argv[i];
        } else {
            o.sentences[o.n_sentences++] = argv[i];
        }
    }
    if (!good || o.model == NULL) {
        usage(stderr);
        free(o.sentences);
        return 2;
    }
    struct options  chosen  = o;
    if (o.n_sentences == 0) {
        chosen.sentences   = builtin;
        chosen.n_sentences = (int) (sizeof builtin / sizeof *builtin);
    }
    struct model *  m       = calloc(1, sizeof *m);
    struct machine  machine = { .n = 0 };
    const bool      ok      = m != NULL && run(&chosen, m, &machine);
    if (m != NULL) {
        close_machine(&machine);
        close_model(m);
    }
    free(m);
    free(o.sentences);
    return ok ? 0 : 1;
}
