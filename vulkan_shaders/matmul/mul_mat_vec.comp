#version 460
// A matrix product with few columns, for GPUs. A workgroup computes one row of a with N columns of b. Each invocation sums every T-th group of
// eight values, and the sums are added at the end.
#include "common.glsl"
#include "quant.glsl"
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
    const uint octets = p.k / 8;
    for (uint e = t; e < octets; e += T) {
        float y[8];
        dequant8(a, e, y);
        [[unroll]] for (uint j = 0; j < N; ++j) {
            const uint64_t x = at(b[j], e, 8 * type_size(B));
            [[unroll]] for (uint l = 0; l < 8; ++l) { sum[j] += y[l] * load(B, x, l); }
        }
    }
#if BLOCK == 1
    for (uint l = octets * 8 + t; l < p.k; l += T) {
        const float y = value(a, l);
        [[unroll]] for (uint j = 0; j < N; ++j) { sum[j] += y * load(B, b[j], l); }
    }
#endif
    group_sums(sum);
    [[unroll]] for (uint j = 0; j < N; ++j) {
        if (t == 0 && w.first + j < w.end) { d_column(w, w.first + j).v[row] = sum[j]; }
    }
}
