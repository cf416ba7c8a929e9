#version 460
// As mul_mat_joined, with dot products of 8-bit integers. `product_blocks`, or the norm before, has converted b to
// blocks.
#include "common.glsl"
#include "quant.glsl"
#include "quant_ints.glsl"
#include "functions.glsl"
#define REDUCE 2
#include "reduce.glsl"
#include "matmul/joined.glsl"

float row_part(uint64_t a, uint i, int x[4], vec2 s) {
    int q[4];
    float scale, offset;
    ints16(a, i, q, scale, offset);
    int dot = 0;
    [[unroll]] for (uint l = 0; l < 4; ++l) { dot += dotPacked4x8EXT(q[l], x[l]); }
    return s.x * (scale * float(dot) + offset * s.y);
}

void two_rows(uint64_t a0, uint64_t a1, uint t, uint T, out float sums[2]) {
    sums[0] = 0.0;
    sums[1] = 0.0;
    for (uint i = t; i < p.k / 16; i += T) {
        const uint64_t block = at(p.b, i / 2, 40);
        I32s bytes = I32s(at(block + 8, i & 1u, 16));
        int x[4];
        [[unroll]] for (uint l = 0; l < 4; ++l) { x[l] = bytes.v[l]; }
        const vec2 s = scale_and_sum(block, i & 1u);
        sums[0] += row_part(a0, i, x, s);
        sums[1] += row_part(a1, i, x, s);
    }
}
