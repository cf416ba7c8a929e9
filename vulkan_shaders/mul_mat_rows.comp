#version 460
// A matrix product for any device, without shared memory: an invocation takes one row of a and up to N columns of b over all of K. What
// it reads of b is the same for the whole workgroup, so drivers that run lanes on a CPU load it once. The rung for such drivers, and
// the fallback.
#include "common.glsl"
#include "quant.glsl"
#include "product.glsl"

#ifndef N
#define N 8
#endif

layout(constant_id = 5) const uint WIDTH = N; // columns a workgroup takes, at most N

void main() {
    const uint row_ = gl_GlobalInvocationID.x;
    const uint row = min(row_, p.m - 1); // all invocations stay: what is uniform stays so
    const Work w = work(WIDTH);
    if (w.first >= w.end) { return; }
    const uint64_t a = a_row(w, row);
    uint64_t b[N];
    [[unroll]] for (uint j = 0; j < N; ++j) { b[j] = b_column(w, w.first + j); }
    float sum[N];
    [[unroll]] for (uint j = 0; j < N; ++j) { sum[j] = 0.0; }
    const uint whole = p.k / 32;
    for (uint kb = 0; kb < whole; ++kb) {
        float y[32];
        dequant32(a, kb, y);
        [[unroll]] for (uint j = 0; j < N; ++j) {
            if (j < WIDTH) {
                float s = 0.0;
                [[unroll]] for (uint l = 0; l < 32; ++l) { s += y[l] * load(B, b[j], kb * 32 + l); }
                sum[j] += s;
            }
        }
    }
#if BLOCK == 1
    for (uint l = whole * 32; l < p.k; ++l) {
        const float y = value(a, l);
        [[unroll]] for (uint j = 0; j < N; ++j) {
            if (j < WIDTH) { sum[j] += y * load(B, b[j], l); }
        }
    }
#endif
    if (row_ < p.m) {
        [[unroll]] for (uint j = 0; j < N; ++j) {
            if (j < WIDTH && w.first + j < w.end) { d_column(w, w.first + j).v[row] = sum[j]; }
        }
    }
}
