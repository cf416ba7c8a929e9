#version 460
// As mul_mat_vec, with dot products of 8-bit integers, in groups of 16 values. `product_blocks` has converted b to blocks.
#include "common.glsl"
#include "quant.glsl"
#include "quant_ints.glsl"
#ifndef N
#define N 1
#endif
#define REDUCE N
#include "reduce.glsl"
#define FIRST 4
#include "matmul/product.glsl"

void main() {
    const uint row = gl_WorkGroupID.x;
    const uint t = gl_LocalInvocationID.x;
    const uint T = gl_WorkGroupSize.x;
    const Work w = work(N);
    if (w.first >= w.end) { // uniform
        if (t == 0) { no_expert(w, row); }
        return;
    }
    const uint64_t a = a_row(w, row);
    uint64_t b[N];
    float sum[N];
    [[unroll]] for (uint j = 0; j < N; ++j) {
        b[j] = b_column(w, w.first + j);
        sum[j] = 0.0;
    }
    for (uint i = t; i < p.k / 16; i += T) {
        int q[4];
        float scale, offset;
        ints16(a, i, q, scale, offset);
        [[unroll]] for (uint j = 0; j < N; ++j) {
            const uint64_t block = at(b[j], i / 2, 40);
            I32s bytes = I32s(at(block + 8, i & 1u, 16));
            int dot = 0;
            [[unroll]] for (uint l = 0; l < 4; ++l) { dot += dotPacked4x8EXT(q[l], bytes.v[l]); }
            const vec2 s = scale_and_sum(block, i & 1u);
            sum[j] += s.x * (scale * float(dot) + offset * s.y);
        }
    }
    group_sums(sum);
    [[unroll]] for (uint j = 0; j < N; ++j) {
        if (t == 0 && w.first + j < w.end) { d_column(w, w.first + j).v[row] = sum[j]; }
    }
}
