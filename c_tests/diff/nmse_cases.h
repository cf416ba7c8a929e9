/* The cases of nmse.c: their numbers, their files, and their results in double precision. */
#ifndef C_TESTS_NMSE_CASES_H
#define C_TESTS_NMSE_CASES_H

#include "../common/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { K = 4096, ROWS = 256, COLUMNS = 512 };
enum { KEYS = 1000, QUERIES = 64, HEADS = 8, KV_HEADS = 2 };

static void die(const char * what, const char * which) {
    fprintf(stderr, "nmse: %s: %s\n", what, which);
    exit(1);
}

static void * room(size_t n) {
    void * p = malloc(n);
    if (p == NULL) { die("no memory", "malloc"); }
    return p;
}

/* ---- cases ---- */

struct test_case {
    char           name[64];
    enum ggml_type type;
    int            head; /* size of the heads; 0: a product */
};

static struct test_case cases[GGML_TYPE_COUNT + 32];
static int              n_cases;

static void add_case(enum ggml_type type, int head) {
    struct test_case * c = &cases[n_cases++];
    c->type              = type;
    c->head              = head;
    if (head > 0) {
        snprintf(c->name, sizeof c->name, "attention-%s-%d", ggml_type_name(type), head);
    } else {
        snprintf(c->name, sizeof c->name, "product-%s", ggml_type_name(type));
    }
}

static void list_cases(void) {
    static const enum ggml_type caches[] = { GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q8_0,  GGML_TYPE_Q4_0,
                                             GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL };
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        const enum ggml_type type = (enum ggml_type) t;
        if (ggml_blck_size(type) <= 0 || ggml_type_size(type) == 0 || K % ggml_blck_size(type) != 0) { continue; }
        if (type == GGML_TYPE_Q8_1 || type == GGML_TYPE_Q8_K) { continue; } /* for activations only */
        if (type != GGML_TYPE_F32 && ggml_get_type_traits(type)->to_float == NULL) { continue; }
        add_case(type, 0);
    }
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
        add_case(caches[i], 64);
        add_case(caches[i], 128);
    }
}

/* ---- inputs ---- */

/* The sum of twelve numbers in [-1/2, 1/2): nearly a normal distribution of variance 1, the same on every machine. */
static float bell(uint64_t * state) {
    float x = 0;
    for (int i = 0; i < 12; i++) { x += data_float(state, -0.5f, 0.5f); }
    return x;
}

/* Like weights: a bell curve, and one in a thousand beyond it. */
static float * make_weights(void) {
    float *  w     = room((size_t) ROWS * K * sizeof *w);
    uint64_t state = 1;
    for (int i = 0; i < ROWS * K; i++) {
        w[i] = 0.03f * bell(&state);
        if (data_next(&state) % 1000 == 0) { w[i] *= 8.0f; }
    }
    return w;
}

/* Rows of activations: a few channels are ten times as large as the others. */
static float * make_rows(uint64_t seed, int rows, int width, int between_outliers, float outlier) {
    float *  x     = room((size_t) rows * (size_t) width * sizeof *x);
    uint64_t state = seed;
    for (int i = 0; i < rows * width; i++) {
        x[i] = bell(&state) * (i % width % between_outliers == between_outliers / 3 ? outlier : 1.0f);
    }
    return x;
}

static float * make_activations(void) { return make_rows(2, COLUMNS, K, 512, 10.0f); }
static float * make_queries(int head) { return make_rows(3, QUERIES * HEADS, head, head, 1.0f); }

/* Query i sees the keys up to that of its own position; the queries are the last positions. */
static int keys_of(int query) { return KEYS - QUERIES + query + 1; }

/* ---- files ---- */

static size_t bytes_of(const struct test_case * c) {
    return c->head > 0 ? 2 * ggml_row_size(c->type, c->head) * KEYS * KV_HEADS : ggml_row_size(c->type, K) * ROWS;
}

static size_t results_of(const struct test_case * c) {
    return c->head > 0 ? (size_t) QUERIES * HEADS * (size_t) c->head : (size_t) COLUMNS * ROWS;
}

static FILE * open_case(const char * folder, const struct test_case * c, const char * mode) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, c->name);
    FILE * f = fopen(path, mode);
    if (f == NULL) { die("cannot open", path); }
    return f;
}

/* ---- references ---- */

static void quantize(enum ggml_type type, const float * from, void * to, int rows, int width) {
    if (type == GGML_TYPE_F32) {
        memcpy(to, from, (size_t) rows * (size_t) width * sizeof *from);
    } else if (!ggml_is_quantized(type)) {
        ggml_get_type_traits(type)->from_float_ref(from, to, (int64_t) rows * width);
    } else {
        float * ones = room((size_t) width * sizeof *ones);
        for (int i = 0; i < width; i++) { ones[i] = 1.0f; }
        const size_t want = ggml_row_size(type, width) * (size_t) rows;
        const size_t size = ggml_quantize_chunk(type, from, to, 0, rows, width, ggml_quantize_requires_imatrix(type) ? ones : NULL);
        if (size != want) { die("cannot quantize", ggml_type_name(type)); }
        free(ones);
    }
}

static void dequantize(enum ggml_type type, const void * from, float * to, int n) {
    if (type == GGML_TYPE_F32) {
        memcpy(to, from, (size_t) n * sizeof *to);
    } else {
        ggml_get_type_traits(type)->to_float(from, to, n);
    }
}

/* `want` has [column][row]. Four rows at a time. Sums are in double precision, in which products of two floats are
 * exact. */
static void multiply(const float * w, const float * x, double * want) {
    enum { WIDE = 4 };
    double * panel = room((size_t) K * WIDE * sizeof *panel);
    for (int c = 0; c < COLUMNS; c += WIDE) {
        for (int i = 0; i < K * WIDE; i++) { panel[i] = x[(c + i % WIDE) * K + i / WIDE]; }
        for (int r = 0; r < ROWS; r += WIDE) {
            double sums[WIDE][WIDE] = { { 0 } };
            for (int k = 0; k < K; k++) {
                for (int i = 0; i < WIDE; i++) {
                    const double weight = w[(r + i) * K + k];
                    for (int j = 0; j < WIDE; j++) { sums[i][j] += weight * panel[k * WIDE + j]; }
                }
            }
            for (int i = 0; i < WIDE; i++) {
                for (int j = 0; j < WIDE; j++) { want[(c + j) * ROWS + r + i] = sums[i][j]; }
            }
        }
    }
    free(panel);
}

/* `want` has [query][head][i]. */
static void attend(int size, const float * q, const float * k, const float * v, double * want) {
    const double scale = 1.0f / sqrtf((float) size);
    double       scores[KEYS];
    for (int i = 0; i < QUERIES * HEADS; i++) {
        const int     query = i / HEADS, first = i % HEADS / (HEADS / KV_HEADS) * KEYS, n = keys_of(query);
        const float * own = q + (i % HEADS * QUERIES + query) * size;
        double        top = -INFINITY, sum = 0, *to = want + (size_t) i * (size_t) size;
        for (int j = 0; j < n; j++) {
            double s = 0;
            for (int d = 0; d < size; d++) { s += (double) own[d] * (double) k[(first + j) * size + d]; }
            scores[j] = scale * s;
            top       = fmax(top, scores[j]);
        }
        for (int d = 0; d < size; d++) { to[d] = 0; }
        for (int j = 0; j < n; j++) {
            const double p = exp(scores[j] - top);
            sum += p;
            for (int d = 0; d < size; d++) { to[d] += p * (double) v[(first + j) * size + d]; }
        }
        for (int d = 0; d < size; d++) { to[d] /= sum; }
    }
}

static void make_case(const char * folder, const struct test_case * c, const float * activations) {
    const size_t bytes = bytes_of(c), results = results_of(c);
    char *       data = room(bytes);
    double *     want = room(results * sizeof *want);
    if (c->head > 0) {
        const int rows = KEYS * KV_HEADS, n = rows * c->head;
        /* Caches of keys have large channels, too. */
        float *q = make_queries(c->head), *k = make_rows(4, rows, c->head, 32, 4.0f), *v = make_rows(5, rows, c->head, c->head, 1.0f);
        quantize(c->type, k, data, rows, c->head);
        quantize(c->type, v, data + bytes / 2, rows, c->head);
        dequantize(c->type, data, k, n);
        dequantize(c->type, data + bytes / 2, v, n);
        attend(c->head, q, k, v, want);
        free(q);
        free(k);
        free(v);
    } else {
        float * w = make_weights();
        quantize(c->type, w, data, ROWS, K);
        dequantize(c->type, data, w, ROWS * K);
        multiply(w, activations, want);
        free(w);
    }
    FILE * f = open_case(folder, c, "wb");
    if (fwrite(data, 1, bytes, f) != bytes || fwrite(want, sizeof *want, results, f) != results || fclose(f) != 0) { die("cannot write", c->name); }
    free(data);
    free(want);
}

#endif
