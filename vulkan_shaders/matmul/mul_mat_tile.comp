#version 460
// A matrix product in tiles of 64 rows by 64 columns through shared memory, for GPUs. A workgroup has 256 invocations, and each computes 4 by
// 4 results. Both operands are converted to F32 in steps of 32 values.
#include "common.glsl"
#include "quant.glsl"
#include "matmul/product.glsl"

const uint TILE = 64;
const uint BK = 32;
// Padded to avoid bank conflicts.
shared float as[BK * (TILE + 1)];
shared float bs[BK * (TILE + 1)];

void main() {
    const uint t = gl_LocalInvocationID.x;
    const uint row0 = gl_WorkGroupID.x * TILE;
    const Work w = work(TILE);
    if (w.first >= w.end) { return; } // uniform
    // This invocation loads eight values of a row of a, and of a column of b.
    const uint line = t / 4;
    const uint eighth = t % 4;
    const uint64_t a = a_row(w, min(row0 + line, p.m - 1));
    const uint64_t b = b_column(w, w.first + line);
    const uint tx = t % 16;
    const uint ty = t / 16;
    float sum[4][4];
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        [[unroll]] for (uint j = 0; j < 4; ++j) { sum[i][j] = 0.0; }
    }
    for (uint k0 = 0; k0 < p.k; k0 += BK) {
        float y[8];
        float x[8];
        operands8(a, b, k0 + eighth * 8, y, x);
        barrier(); // the last step has been read
        [[unroll]] for (uint l = 0; l < 8; ++l) {
            as[(eighth * 8 + l) * (TILE + 1) + line] = y[l];
            bs[(eighth * 8 + l) * (TILE + 1) + line] = x[l];
        }
        barrier();
        for (uint l = 0; l < BK; ++l) {
            float av[4];
            float bv[4];
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                av[i] = as[l * (TILE + 1) + tx + 16 * i];
                bv[i] = bs[l * (TILE + 1) + ty + 16 * i];
            }
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                [[unroll]] for (uint j = 0; j < 4; ++j) { sum[i][j] += av[i] * bv[j]; }
            }
        }
    }
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const uint column = w.first + ty + 16 * j;
        if (column < w.end) {
            F32s d = d_column(w, column);
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                const uint row = row0 + tx + 16 * i;
                if (row < p.m) { d.v[row] = sum[i][j]; }
            }
        }
    }
}
