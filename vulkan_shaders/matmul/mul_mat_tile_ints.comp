#version 460
// As mul_mat_tile, with dot products of 8-bit integers. `product_blocks` has converted b to blocks. Shared memory has
// integers, scales and offsets of 32 values.
#include "common.glsl"
#include "quant.glsl"
#include "quant_ints.glsl"
#include "matmul/product.glsl"
#include "matmul/tile.glsl"

// Sixteen values of a line are a word of 16 bytes. Neighbouring invocations read neighbouring lines, and write both
// halves of lines: padded, so that the halves are in different banks.
const uint PITCH_A = TM + 4;
const uint PITCH_B = TN + 4;
shared ivec4 as[2 * PITCH_A];
shared ivec4 bs[2 * PITCH_B];
shared vec2 a_scales[2 * PITCH_A]; // scale and offset of 16 values
shared vec2 b_scales[2 * PITCH_B]; // scale, and sum of 16 integers

// With 64 rows, half of the invocations load 16 values of a row of a in each step, and half of a column of b. With 128
// rows, each loads a row, and then a column if there are enough.
const bool APART = TM == 64;

void fetch_a(uint64_t from, uint i, out ivec4 q, out vec2 s) {
    int words[4];
    ints16(from, i, words, s.x, s.y);
    q = ivec4(words[0], words[1], words[2], words[3]);
}

void fetch_b(uint64_t from, uint kb, uint h, out ivec4 q, out vec2 s) {
    const uint64_t block = at(from, kb, 40);
    [[unroll]] for (uint l = 0; l < 4; ++l) { q[l] = I32s(block).v[2 + h * 4 + l]; }
    s = scale_and_sum(block, h);
}

void main() {
    const uint t = gl_LocalInvocationID.x;
    const uint row0 = gl_WorkGroupID.x * TM;
    const Work w = work(TN);
    if (w.first >= w.end) { return; } // uniform
    const bool brings_a = !APART || t < 128;
    const bool brings_b = APART ? t >= 128 : t < 2 * TN;
    const uint line = t / 2 % TM;
    const uint half_ = t & 1u;
    const uint64_t a = a_row(w, min(row0 + line, p.m - 1));
    const uint64_t b = b_column(w, w.first + line);
    const uint tx = t % 16;
    const uint ty = t / 16;
    float sum[MAX_ROWS * MAX_WIDTH];
    clear(sum);
    ivec4 aq, bq;
    vec2 a_s, b_s;
    const uint steps = p.k / 32;
    if (brings_a) { fetch_a(a, half_, aq, a_s); }
    if (brings_b) { fetch_b(b, 0, half_, bq, b_s); }
    for (uint kb = 0; kb < steps; ++kb) {
        barrier(); // the last step has been read
        if (brings_a) {
            as[half_ * PITCH_A + line] = aq;
            a_scales[half_ * PITCH_A + line] = a_s;
        }
        if (brings_b) {
            bs[half_ * PITCH_B + line] = bq;
            b_scales[half_ * PITCH_B + line] = b_s;
        }
        barrier();
        // After the last step, it is read once more.
        const uint next = min(kb + 1, steps - 1);
        if (brings_a) { fetch_a(a, 2 * next + half_, aq, a_s); }
        if (brings_b) { fetch_b(b, next, half_, bq, b_s); }
        // Not unrolled: twice the values would be in registers.
        [[dont_unroll]] for (uint h = 0; h < 2; ++h) {
            const uint from_a = h * PITCH_A + tx;
            const uint from_b = h * PITCH_B + ty;
            ivec4 bv[MAX_WIDTH];
            vec2 y[MAX_WIDTH];
            [[unroll]] for (uint j = 0; j < WIDTH; ++j) {
                bv[j] = bs[from_b + 16 * j];
                y[j] = b_scales[from_b + 16 * j];
            }
            [[unroll]] for (uint i = 0; i < ROWS; ++i) {
                const ivec4 av = as[from_a + 16 * i];
                const vec2 x = a_scales[from_a + 16 * i];
                [[unroll]] for (uint j = 0; j < WIDTH; ++j) {
                    int dot = 0;
                    [[unroll]] for (uint l = 0; l < 4; ++l) { dot += dotPacked4x8EXT(av[l], bv[j][l]); }
                    sum[j * ROWS + i] += y[j].x * (x.x * float(dot) + x.y * y[j].y);
                }
            }
        }
    }
    [[unroll]] for (uint j = 0; j < WIDTH; ++j) {
        const uint column = w.first + ty + 16 * j;
        if (column < w.end) {
            F32s d = d_column(w, column);
            [[unroll]] for (uint i = 0; i < ROWS; ++i) {
                const uint row = row0 + tx + 16 * i;
                if (row < p.m) { d.v[row] = sum[j * ROWS + i]; }
            }
        }
    }
}
