/* Inputs that are the same on every machine: numbers from a seed, and blocks of all quantized formats with sane
 * scales. */
#ifndef C_TESTS_DATA_H
#define C_TESTS_DATA_H

#include "ggml.h"

#include <stdint.h>
#include <string.h>

static inline uint64_t data_next(uint64_t * state) { /* splitmix64 */
    uint64_t z = *state += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

/* A number in [lo, hi), on a grid of 2^-20 of the range, so that arithmetic on it is the same everywhere. */
static inline float data_float(uint64_t * state, float lo, float hi) {
    return lo + (hi - lo) * ((float) (data_next(state) >> 44) / 1048576.0f);
}

static inline uint64_t data_hash(const void * p, size_t n, uint64_t h) { /* FNV-1a */
    const unsigned char * s = (const unsigned char *) p;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ s[i]) * 1099511628211ull;
    }
    return h;
}

#define DATA_HASH0 1469598103934665603ull

static inline uint16_t data_half(uint64_t * state) { /* +-[2^-6, 2^-3), as an IEEE half */
    const uint64_t r = data_next(state);
    return (uint16_t) ((r & 1) << 15 | (9 + r % 3) << 10 | (r >> 8 & 0x3FF));
}

/* Fills `n` bytes (whole blocks) of `type` with random bits, the scales excepted: those are small and finite. */
static inline void data_blocks(enum ggml_type type, void * dst, size_t n, uint64_t seed) {
    /* Offsets of a block's half-precision scales; -1: none. */
    int           at[2] = { -1, -1 };
    const size_t  size  = ggml_type_size(type);
    uint8_t *     p     = (uint8_t *) dst;
    uint64_t      state = seed;
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t) (data_next(&state) >> 56);
    }
    switch ((int) type) {
        case GGML_TYPE_Q4_1: case GGML_TYPE_Q5_1: case GGML_TYPE_Q8_1: case GGML_TYPE_Q4_K: case GGML_TYPE_Q5_K:
            at[0] = 0;
            at[1] = 2;
            break;
        case GGML_TYPE_Q2_K:
            at[0] = 80;
            at[1] = 82;
            break;
        case GGML_TYPE_Q3_K:  at[0] = 108; break;
        case GGML_TYPE_Q6_K:  at[0] = 208; break;
        case GGML_TYPE_TQ1_0: at[0] = 52; break;
        case GGML_TYPE_TQ2_0: at[0] = 64; break;
        case GGML_TYPE_IQ1_M: case GGML_TYPE_MXFP4: case GGML_TYPE_NVFP4: case GGML_TYPE_Q8_K: break; /* other scales */
        default: at[0] = ggml_is_quantized(type) ? 0 : -1; break;
    }
    for (size_t b = 0; b + size <= n; b += size) {
        for (int k = 0; k < 2; k++) {
            if (at[k] >= 0) {
                const uint16_t h = data_half(&state);
                memcpy(p + b + at[k], &h, 2);
            }
        }
        if (type == GGML_TYPE_MXFP4) {
            p[b] = (uint8_t) (120 + data_next(&state) % 8);
        } else if (type == GGML_TYPE_NVFP4) {
            for (int k = 0; k < 4; k++) { p[b + k] = (uint8_t) (0x20 + data_next(&state) % 0x20); }
        } else if (type == GGML_TYPE_IQ1_M) { /* nibbles: the top bits of the four 16-bit words of scales */
            const uint16_t h = data_half(&state);
            for (int k = 0; k < 4; k++) { p[b + 49 + 2 * k] = (uint8_t) ((p[b + 49 + 2 * k] & 0x0F) | (h >> (4 * k) & 0xF) << 4); }
        } else if (type == GGML_TYPE_TQ2_0) { /* two bits a value, 3 does not occur */
            for (int k = 0; k < 64; k++) {
                for (int s = 0; s < 8; s += 2) {
                    if ((p[b + k] >> s & 3) == 3) { p[b + k] = (uint8_t) (p[b + k] & ~(1 << s)); }
                }
            }
        } else if (type == GGML_TYPE_Q8_K) {
            const float d = data_float(&state, 0.01f, 0.1f);
            memcpy(p + b, &d, 4);
            for (int g = 0; g < 16; g++) {
                int16_t sum = 0;
                for (int k = 0; k < 16; k++) { sum = (int16_t) (sum + (int8_t) p[b + 4 + 16 * g + k]); }
                memcpy(p + b + 260 + 2 * g, &sum, 2);
            }
        }
    }
}

#endif
