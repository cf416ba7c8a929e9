#version 460
// A matrix product with few columns, for GPUs (vector.glsl), in groups of eight values.
#include "common.glsl"
#include "quant.glsl"
#include "matmul/vector.glsl"

// Rows of a and columns of b begin at multiples of 16 bytes.
layout(constant_id = 8) const bool ALIGNED = false;
#include "matmul/ahead.glsl"

void add_groups(uint64_t a[MAX_ROWS], uint64_t b[MAX_WIDTH], uint t, uint T, inout float sum[REDUCE]) {
    const uint octets = p.k / 8;
    for (uint e = t; e < octets; e += T) {
        float y[MAX_ROWS][8];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) { eight_of_row(a[r], e, y[r]); }
        [[unroll]] for (uint j = 0; j < WIDTH; ++j) {
            float x[8];
            eight_of(B, b[j], e, x);
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                [[unroll]] for (uint l = 0; l < 8; ++l) { sum[r * WIDTH + j] += y[r][l] * x[l]; }
            }
        }
    }
#if BLOCK == 1
    for (uint l = octets * 8 + t; l < p.k; l += T) {
        [[unroll]] for (uint j = 0; j < WIDTH; ++j) {
            const float x = load(B, b[j], l);
            [[unroll]] for (uint r = 0; r < ROWS; ++r) { sum[r * WIDTH + j] += value(a[r], l) * x; }
        }
    }
#endif
}
