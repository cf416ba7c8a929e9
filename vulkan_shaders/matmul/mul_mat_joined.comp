#version 460
// Products of one column with rows of several matrices, for GPUs (joined.glsl).
#include "common.glsl"
#include "quant.glsl"
#include "functions.glsl"
#define REDUCE 2
#include "reduce.glsl"
#include "matmul/joined.glsl"

// Rows of the matrices and the column begin at multiples of 16 bytes.
layout(constant_id = 21) const bool ALIGNED = false;
#include "matmul/ahead.glsl"

void two_rows(uint64_t a0, uint64_t a1, uint t, uint T, out float sums[2]) {
    sums[0] = 0.0;
    sums[1] = 0.0;
#ifdef LONG
    // One row after the other, so that the code that decodes is there once.
    [[dont_unroll]] for (uint row = 0; row < 2; ++row) {
        float sum = 0.0;
        for (uint e = t; e < p.k / 8; e += T) {
            float x[8], y[8];
            eight_of(B, p.b, e, x);
            eight_of_row(row == 0 ? a0 : a1, e, y);
            [[unroll]] for (uint l = 0; l < 8; ++l) { sum += y[l] * x[l]; }
        }
        if (row == 0) { sums[0] = sum; } else { sums[1] = sum; }
    }
#else
    for (uint e = t; e < p.k / 8; e += T) {
        float x[8], y[8];
        eight_of(B, p.b, e, x);
        eight_of_row(a0, e, y);
        [[unroll]] for (uint l = 0; l < 8; ++l) { sums[0] += y[l] * x[l]; }
        eight_of_row(a1, e, y);
        [[unroll]] for (uint l = 0; l < 8; ++l) { sums[1] += y[l] * x[l]; }
    }
#endif
}
