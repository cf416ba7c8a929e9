#version 460
// Products with the matrices of experts, for GPUs (experts.glsl).
#include "common.glsl"
#include "quant.glsl"
#include "functions.glsl"
#define REDUCE 2
#include "reduce.glsl"
#define STEP 8
#define B_BYTES type_size(B)
#include "matmul/experts.glsl"

void two_parts(uint64_t a0, uint64_t a1, uint64_t b, uint i, inout float sums[2]) {
    float x[8], y[8];
    const uint64_t from = at(b, i, 8 * type_size(B));
    [[unroll]] for (uint l = 0; l < 8; ++l) { x[l] = load(B, from, l); }
#ifdef LONG
    // One row after the other, so that the code that decodes is there once.
    [[dont_unroll]] for (uint row = 0; row < 2; ++row) {
        float sum = 0.0;
        dequant8(row == 0 ? a0 : a1, i, y);
        [[unroll]] for (uint l = 0; l < 8; ++l) { sum += y[l] * x[l]; }
        if (row == 0) { sums[0] += sum; } else { sums[1] += sum; }
    }
#else
    dequant8(a0, i, y);
    [[unroll]] for (uint l = 0; l < 8; ++l) { sums[0] += y[l] * x[l]; }
    dequant8(a1, i, y);
    [[unroll]] for (uint l = 0; l < 8; ++l) { sums[1] += y[l] * x[l]; }
#endif
}
