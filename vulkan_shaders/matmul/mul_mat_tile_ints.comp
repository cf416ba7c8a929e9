#version 460
// As mul_mat_tile, with dot products of 8-bit integers. `product_blocks` has converted b to blocks. Shared memory has integers, scales and
// offsets of 32 values.
#include "common.glsl"
#include "quant.glsl"
#include "quant_ints.glsl"
#include "matmul/product.glsl"

const uint TILE = 64;
// Padded to avoid bank conflicts.
const uint PITCH = TILE + 1;
shared int as[8 * PITCH];
shared int bs[8 * PITCH];
shared vec2 a_scales[2 * PITCH]; // scale and offset of 16 values
shared vec2 b_scales[2 * PITCH]; // scale, and sum of 16 integers

void main() {
    const uint t = gl_LocalInvocationID.x;
    const uint row0 = gl_WorkGroupID.x * TILE;
    const Work w = work(TILE);
    if (w.first >= w.end) { return; } // uniform
    // This invocation loads 16 values of a row of a, or of a column of b.
    const bool brings_a = t < 128;
    const uint line = t / 2 % TILE;
    const uint half_ = t & 1u;
    const uint64_t from = brings_a ? a_row(w, min(row0 + line, p.m - 1)) : b_column(w, w.first + line);
    const uint tx = t % 16;
    const uint ty = t / 16;
    float sum[4][4];
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        [[unroll]] for (uint j = 0; j < 4; ++j) { sum[i][j] = 0.0; }
    }
    for (uint kb = 0; kb < p.k / 32; ++kb) {
        int q[4];
        vec2 s;
        if (brings_a) {
            float scale, offset;
            ints16(from, 2 * kb + half_, q, scale, offset);
            s = vec2(scale, offset);
        } else {
            const uint64_t block = at(from, kb, 40);
            [[unroll]] for (uint l = 0; l < 4; ++l) { q[l] = I32s(block).v[2 + half_ * 4 + l]; }
            s = scale_and_sum(block, half_);
        }
        barrier(); // the last step has been read
        [[unroll]] for (uint l = 0; l < 4; ++l) {
            const uint to = (half_ * 4 + l) * PITCH + line;
            if (brings_a) { as[to] = q[l]; } else { bs[to] = q[l]; }
        }
        if (brings_a) { a_scales[half_ * PITCH + line] = s; } else { b_scales[half_ * PITCH + line] = s; }
        barrier();
        [[unroll]] for (uint h = 0; h < 2; ++h) {
            int dot[4][4];
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                [[unroll]] for (uint j = 0; j < 4; ++j) { dot[i][j] = 0; }
            }
            [[unroll]] for (uint l = 4 * h; l < 4 * h + 4; ++l) {
                int av[4];
                int bv[4];
                [[unroll]] for (uint i = 0; i < 4; ++i) {
                    av[i] = as[l * PITCH + tx + 16 * i];
                    bv[i] = bs[l * PITCH + ty + 16 * i];
                }
                [[unroll]] for (uint i = 0; i < 4; ++i) {
                    [[unroll]] for (uint j = 0; j < 4; ++j) { dot[i][j] += dotPacked4x8EXT(av[i], bv[j]); }
                }
            }
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                const vec2 x = a_scales[h * PITCH + tx + 16 * i];
                [[unroll]] for (uint j = 0; j < 4; ++j) {
                    const vec2 y = b_scales[h * PITCH + ty + 16 * j];
                    sum[i][j] += y.x * (x.x * float(dot[i][j]) + x.y * y.y);
                }
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
