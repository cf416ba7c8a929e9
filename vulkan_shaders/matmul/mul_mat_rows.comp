#version 460
// A matrix product for any device, without shared memory. An invocation computes R rows of a with up to N columns of b,
// over all of K. For drivers that run lanes on the CPU, and the fallback for all others.
//
// LANES: for drivers on the CPU, whose loads are slow gathers unless the address is known to be uniform. The workgroup
// is one subgroup of eight invocations. Each loads one of eight adjacent values of b for R rows, and broadcasts it.
#include "common.glsl"
#include "quant.glsl"
#include "matmul/product.glsl"

const uint N = 8;
layout(constant_id = 5) const uint WIDTH = N; // columns of a workgroup, at most N; code for more is not compiled
layout(constant_id = 6) const bool WORDS = false; // dequant64 can read a, and K is a multiple of 64

#ifdef LANES
#extension GL_KHR_shader_subgroup_ballot : require
#ifdef LONG
const uint R = 1;
#else
const uint R = 4;
#endif
// share() loads one of the values `first` to first + 7 of a column for each invocation. of_share() returns value
// `first` + l.
float share(uint64_t b, uint first) { return load(B, b, first + gl_SubgroupInvocationID); }
float of_share(float x, uint64_t b, uint first, uint l) { return subgroupBroadcast(x, l); }
#else
const uint R = 1;
float share(uint64_t b, uint first) { return 0.0; }
float of_share(float x, uint64_t b, uint first, uint l) { return load(B, b, first + l); }
#endif

uint64_t a[R], b[N];
float sum[R][N];

// Adds products of SIZE values from number `first` on.
#define STEP(SIZE, DECODE, first)                                                                              \
    {                                                                                                          \
        float y[R][SIZE];                                                                                      \
        [[unroll]] for (uint r = 0; r < R; ++r) { DECODE(a[r], (first) / SIZE, y[r]); }                        \
        [[unroll]] for (uint j = 0; j < N; ++j) {                                                              \
            if (j < WIDTH) {                                                                                   \
                float s[R][4];                                                                                 \
                [[unroll]] for (uint r = 0; r < R; ++r) { s[r] = float[4](0.0, 0.0, 0.0, 0.0); }               \
                [[unroll]] for (uint i = 0; i < SIZE; i += 8) {                                                \
                    const float x = share(b[j], (first) + i);                                                  \
                    [[unroll]] for (uint l = 0; l < 8; ++l) {                                                  \
                        const float xl = of_share(x, b[j], (first) + i, l);                                    \
                        [[unroll]] for (uint r = 0; r < R; ++r) { s[r][i / 8 % 4] += y[r][i + l] * xl; }       \
                    }                                                                                          \
                }                                                                                              \
                [[unroll]] for (uint r = 0; r < R; ++r) { sum[r][j] += (s[r][0] + s[r][1]) + (s[r][2] + s[r][3]); } \
            }                                                                                                  \
        }                                                                                                      \
    }

void main() {
    const uint row_ = gl_WorkGroupID.x * gl_WorkGroupSize.x * R + gl_LocalInvocationID.x;
    const Work w = work(WIDTH);
    if (w.first >= w.end) {
        [[unroll]] for (uint r = 0; r < R; ++r) { no_expert(w, row_ + r * gl_WorkGroupSize.x); }
        return;
    }
    // Invocations without a row use the last one instead of returning, so that control flow is uniform.
    [[unroll]] for (uint r = 0; r < R; ++r) { a[r] = a_row(w, min(row_ + r * gl_WorkGroupSize.x, p.m - 1)); }
    [[unroll]] for (uint j = 0; j < N; ++j) {
        if (j < WIDTH) { b[j] = b_column(w, w.first + j); }
        [[unroll]] for (uint r = 0; r < R; ++r) { sum[r][j] = 0.0; }
    }
#ifdef HAS_DEQUANT64
    if (WORDS) {
        for (uint k = 0; k < p.k; k += 64) { STEP(64, dequant64, k) }
    } else
#endif
    {
        const uint whole = p.k / 32 * 32;
        for (uint k = 0; k < whole; k += 32) { STEP(32, dequant32, k) }
#if BLOCK == 1
        for (uint l = whole; l < p.k; ++l) {
            [[unroll]] for (uint r = 0; r < R; ++r) {
                const float y = value(a[r], l);
                [[unroll]] for (uint j = 0; j < N; ++j) {
                    if (j < WIDTH) { sum[r][j] += y * load(B, b[j], l); }
                }
            }
        }
#endif
    }
    [[unroll]] for (uint r = 0; r < R; ++r) {
        const uint row = row_ + r * gl_WorkGroupSize.x;
        [[unroll]] for (uint j = 0; j < N; ++j) {
            if (row < p.m && j < WIDTH && w.first + j < w.end) { d_column(w, w.first + j).v[row] = sum[r][j]; }
        }
    }
}
