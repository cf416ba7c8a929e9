/* Quantizes rows of many kinds to every format, in every way there is, and writes all bytes to a file, for compare.py:
 *     quant_diff FILE FIRST_SEED SEEDS
 * A record is a line "TYPE WAY KIND SEED BLOCK_BYTES BYTES" and then that many bytes. */
#include "../common/data.h"

#include "ggml-cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 512, ROWS = 2, N = WIDTH * ROWS };

static const char * const kinds[] = { "bell", "small", "even", "outliers", "scales", "zero blocks", "mostly zero", "first zero", "zero",
                                      "constant", "negative constant", "ternary", "steps", "positive", "large", "tiny", "subnormal", "huge" };
enum { KINDS = sizeof kinds / sizeof *kinds };

static float source[N], importance[WIDTH];
static unsigned char packed[N * 8];

static float bell(uint64_t * state) {
    float x = 0;
    for (int k = 0; k < 6; k++) { x += data_float(state, -1.0f, 1.0f); }
    return 0.7f * x;
}

static void fill(const char * kind, uint64_t seed) {
    uint64_t    state = seed * 1000003;
    const float level = data_float(&state, 0.01f, 3.0f);
    for (int i = 0; i < N; i++) {
        const float b = bell(&state), e = data_float(&state, -1.0f, 1.0f);
        float       x = b;
        if (strcmp(kind, "small") == 0) { x = 0.02f * b; }
        if (strcmp(kind, "even") == 0) { x = e; }
        if (strcmp(kind, "outliers") == 0) { x = (i + (int) seed) % 97 == 0 ? 40.0f * b : b; }
        if (strcmp(kind, "scales") == 0) { x = b * powf(10.0f, (float) (i / 32 % 9 - 4)); }
        if (strcmp(kind, "zero blocks") == 0) { x = (data_next(&state), (i / 32 * 2654435761u + seed) % 3 == 1) ? 0.0f : b; }
        if (strcmp(kind, "mostly zero") == 0) { x = (i + (int) seed) % 32 == 5 ? b : 0.0f; }
        if (strcmp(kind, "first zero") == 0) { x = i % WIDTH < 32 * (1 + (int) (seed % 12)) ? 0.0f : b; }
        if (strcmp(kind, "zero") == 0) { x = seed % 2 ? 0.0f : -0.0f; }
        if (strcmp(kind, "constant") == 0) { x = level; }
        if (strcmp(kind, "negative constant") == 0) { x = -level; }
        if (strcmp(kind, "ternary") == 0) { x = level * roundf(1.4f * e); }
        if (strcmp(kind, "steps") == 0) { x = level * roundf(4.0f * e); }
        if (strcmp(kind, "positive") == 0) { x = fabsf(b) + 0.1f; }
        if (strcmp(kind, "large") == 0) { x = 1e4f * b; }
        if (strcmp(kind, "tiny") == 0) { x = 1e-12f * b; }
        if (strcmp(kind, "subnormal") == 0) { x = 1e-41f * b; }
        if (strcmp(kind, "huge") == 0) { x = 1e30f * b; }
        source[i] = x;
    }
    for (int i = 0; i < WIDTH; i++) {
        const float w = data_float(&state, 0.0f, 1.0f);
        importance[i] = seed % 3 == 0 ? 1.0f : seed % 3 == 1 ? 10.0f * w * w + 1e-3f : i % 5 == 0 ? 0.0f : w + 0.01f;
    }
}

/* Errors of huge values are infinite: the searches of these end the process in the original, and are an error here. */
static bool searches(enum ggml_type t) {
    return t == GGML_TYPE_IQ1_S || t == GGML_TYPE_IQ1_M || t == GGML_TYPE_IQ2_XXS || t == GGML_TYPE_IQ2_XS || t == GGML_TYPE_IQ2_S || t == GGML_TYPE_IQ3_XXS || t == GGML_TYPE_IQ3_S;
}

static void record(FILE * f, enum ggml_type type, const char * way, const char * kind, int seed) {
    const size_t bytes = ggml_row_size(type, WIDTH) * ROWS;
    fprintf(f, "%s\t%s\t%s\t%d\t%zu\t%zu\n", ggml_type_name(type), way, kind, seed, ggml_type_size(type), bytes);
    fwrite(packed, 1, bytes, f);
}

int main(int argc, char ** argv) {
    if (argc != 4) { return 2; }
    const int first = atoi(argv[2]), count = atoi(argv[3]);
    FILE *    f = fopen(argv[1], "wb");
    if (f == NULL) { return 2; }
    ggml_cpu_init();
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        const enum ggml_type type = (enum ggml_type) t;
        const struct ggml_type_traits * traits = ggml_get_type_traits(type);
        if (ggml_blck_size(type) <= 1 || ggml_type_size(type) == 0) { continue; }
        ggml_quantize_init(type);
        for (int seed = first; seed < first + count; seed++) {
            for (int k = 0; k < KINDS; k++) {
                if (strcmp(kinds[k], "huge") == 0 && searches(type)) { continue; }
                fill(kinds[k], (uint64_t) seed);
                memset(packed, 0xA5, sizeof packed);
                if (traits->from_float_ref != NULL) {
                    traits->from_float_ref(source, packed, N);
                    record(f, type, "quick", kinds[k], seed);
                }
                if (type == GGML_TYPE_Q8_1 || type == GGML_TYPE_Q8_K) { continue; } /* no formats for files */
                for (int weighted = 0; weighted < 2; weighted++) {
                    if (!weighted && ggml_quantize_requires_imatrix(type)) { continue; }
                    memset(packed, 0xA5, sizeof packed);
                    ggml_quantize_chunk(type, source, packed, 0, ROWS, WIDTH, weighted ? importance : NULL);
                    record(f, type, weighted ? "weighted" : "plain", kinds[k], seed);
                }
            }
        }
    }
    ggml_quantize_free();
    return fclose(f) != 0;
}
