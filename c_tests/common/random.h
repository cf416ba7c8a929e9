/* Contexts without memory for data, and random numbers that are the same everywhere. */
#ifndef C_TESTS_RANDOM_H
#define C_TESTS_RANDOM_H

#include "ggml.h"
#include "ggml-backend.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static inline uint32_t mix(uint32_t a, uint32_t b) {
    uint32_t h = (a ^ 0x9E3779B9u) * 0x85EBCA6Bu + b;
    h ^= h >> 15; h *= 0xC2B2AE35u; h ^= h >> 13; h *= 0x27D4EB2Fu; h ^= h >> 16;
    return h;
}

/* A sequence. */
static uint32_t state;
static inline int  any(int n) { state = mix(state, 77); return n <= 0 ? 0 : (int) (state % (uint32_t) n); }
static inline bool odds(int percent) { return any(100) < percent; }

static inline struct ggml_context * new_ctx(size_t n) {
    struct ggml_init_params p = { n, NULL, true };
    return ggml_init(p);
}

static inline void fill(float * x, size_t n, uint32_t seed, float scale) {
    for (size_t i = 0; i < n; i++) x[i] = ((float) (mix(seed, (uint32_t) i) % 20001) / 10000.0f - 1.0f) * scale;
}

static inline void set_random(struct ggml_tensor * t, uint32_t seed, float scale) {
    size_t n = (size_t) ggml_nelements(t);
    float * x = malloc(n * sizeof(float));
    fill(x, n, seed, scale);
    if (t->type == GGML_TYPE_F32) {
        ggml_backend_tensor_set(t, x, 0, ggml_nbytes(t));
    } else {
        void * q = malloc(ggml_nbytes(t));
        ggml_quantize_chunk(t->type, x, q, 0, ggml_nrows(t), t->ne[0], NULL);
        ggml_backend_tensor_set(t, q, 0, ggml_nbytes(t));
        free(q);
    }
    free(x);
}

#endif
