/* Quantization and its inverse, for every number format, as hashes of the bytes: one format and one way a line. */
#include "../common/data.h"

#include "ggml-cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 512, ROWS = 3 };

static float source[WIDTH * ROWS], importance[WIDTH], back[WIDTH * ROWS];
static unsigned char packed[WIDTH * ROWS * 8];

static void fill(int kind) {
    uint64_t state = 100 + (uint64_t) kind;
    for (int i = 0; i < WIDTH * ROWS; i++) {
        float x = 0;
        for (int k = 0; k < 4; k++) { x += data_float(&state, -1.0f, 1.0f); } /* like a weight's bell curve */
        if (kind == 1) { x = i % 97 == 0 ? 30.0f * x : 0.01f * x; }           /* outliers */
        if (kind == 2) { x = i % WIDTH < 128 ? 0.0f : i % 3 == 0 ? 0.5f : -0.5f; } /* zeros and few values */
        source[i] = x;
    }
    for (int i = 0; i < WIDTH; i++) { importance[i] = data_float(&state, 0.1f, 2.0f); }
}

int main(void) {
    ggml_cpu_init();
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        const enum ggml_type type = (enum ggml_type) t;
        const struct ggml_type_traits * traits = ggml_get_type_traits(type);
        if (ggml_blck_size(type) <= 0 || ggml_type_size(type) == 0) { continue; }
        const size_t row = ggml_row_size(type, WIDTH);
        ggml_quantize_init(type);
        if (traits->to_float != NULL) { /* from random bits, so that every entry of every table is met */
            data_blocks(type, packed, row * ROWS, 7);
            traits->to_float(packed, back, WIDTH * ROWS);
            uint64_t h = DATA_HASH0;
            for (int i = 0; i < WIDTH * ROWS; i++) { h = back[i] == back[i] ? data_hash(&back[i], 4, h) : h + 1; }
            printf("to_float %s: %016llx\n", ggml_type_name(type), (unsigned long long) h);
        }
        if (traits->from_float_ref != NULL) {
            for (int kind = 0; kind < 3; kind++) {
                /* A block of zeros: the original's IQ4_NL depends on chance, and its IQ3_S misplaces the blocks that
                 * follow. */
                if ((type == GGML_TYPE_IQ4_NL || type == GGML_TYPE_IQ3_S) && kind == 2) { continue; }
                fill(kind);
                memset(packed, 0xA5, sizeof packed);
                traits->from_float_ref(source, packed, WIDTH * ROWS);
                printf("from_float_ref %s data %d: %016llx\n", ggml_type_name(type), kind, (unsigned long long) data_hash(packed, row * ROWS, DATA_HASH0));
            }
        }
        if (type == GGML_TYPE_Q8_1 || type == GGML_TYPE_Q8_K || type == GGML_TYPE_I8 || type == GGML_TYPE_I16 || type == GGML_TYPE_I32 || type == GGML_TYPE_I64 || type == GGML_TYPE_F64) {
            continue; /* nothing is quantized to these */
        }
        for (int weighted = 0; weighted < 2; weighted++) {
            if (!weighted && ggml_quantize_requires_imatrix(type)) { continue; }
            for (int kind = 0; kind < 3; kind++) {
                if (type == GGML_TYPE_IQ3_S && kind == 2) { continue; }
                fill(kind);
                memset(packed, 0xA5, sizeof packed);
                const size_t a = ggml_quantize_chunk(type, source, packed, 0, 1, WIDTH, weighted ? importance : NULL);
                const size_t b = ggml_quantize_chunk(type, source, packed, WIDTH, ROWS - 1, WIDTH, weighted ? importance : NULL);
                printf("quantize %s%s data %d: %zu %zu bytes %016llx\n", ggml_type_name(type), weighted ? " weighted" : "", kind, a, b,
                       (unsigned long long) data_hash(packed, row * ROWS, DATA_HASH0));
            }
        }
    }
    ggml_quantize_free();
    return 0;
}
