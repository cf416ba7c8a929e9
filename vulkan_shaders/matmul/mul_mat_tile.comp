#version 460
// A matrix product in tiles through shared memory, for GPUs (tile.glsl). Both operands are converted to F32, in steps
// of BK values. The values of the next step are loaded while those of this step are multiplied.
#include "common.glsl"
#include "quant.glsl"
#include "matmul/product.glsl"
#include "matmul/tile.glsl"

// Rows of a and columns of b begin at multiples of 16 bytes.
layout(constant_id = 7) const bool ALIGNED = false;
#include "matmul/ahead.glsl"

// In each step, an invocation loads eight values of a row of a.
const uint BK = 2048 / TM;
const uint OCTETS = BK / 8;
// Words between groups of eight values: neighbouring invocations write to different banks.
const uint GAP = 32 / OCTETS;
// The values at one k of all rows, and of all columns, are side by side.
shared vec4 as[BK * TM / 4 + 8];
shared vec4 bs[BK * TN / 4 + 8];

void main() {
    const uint t = gl_LocalInvocationID.x;
    const uint row0 = gl_WorkGroupID.x * TM;
    const Work w = work(TN);
    if (w.first >= w.end) { return; } // uniform
    const uint line = t / OCTETS;
    const uint octet = t % OCTETS;
    const bool brings_b = TN == TM || line < TN;
    const uint64_t a = a_row(w, min(row0 + line, p.m - 1));
    const uint64_t b = b_column(w, w.first + line);
    const uint tx = t % 16;
    const uint ty = t / 16;
    float sum[MAX_ROWS * MAX_WIDTH];
    clear(sum);
    uint y[8];
    uint x[8];
    // In each iteration, a step is read and the one before it is multiplied: the code that decodes is here once.
    for (uint k0 = 0;; k0 += BK) {
        if (k0 < p.k) { fetch(a, b, brings_b, k0 + octet * 8, y, x); }
        if (k0 > 0) {
            // Eight k at once: with more, compilers keep more values in registers than pays.
            [[dont_unroll]] for (uint o = 0; o < OCTETS; ++o) {
                const uint from_a = o * ((8 * TM + GAP) / 4) + tx;
                const uint from_b = o * ((8 * TN + GAP) / 4) + ty;
                [[unroll]] for (uint l = 0; l < 8; ++l) {
                    vec4 av[MAX_ROWS / 4];
                    vec4 bv[MAX_WIDTH / 4];
                    [[unroll]] for (uint i = 0; i < ROWS / 4; ++i) { av[i] = as[from_a + l * (TM / 4) + 16 * i]; }
                    [[unroll]] for (uint j = 0; j < WIDTH / 4; ++j) { bv[j] = bs[from_b + l * (TN / 4) + 16 * j]; }
                    [[unroll]] for (uint j = 0; j < WIDTH; ++j) {
                        [[unroll]] for (uint i = 0; i < ROWS; ++i) { sum[j * ROWS + i] += av[i / 4][i % 4] * bv[j / 4][j % 4]; }
                    }
                }
            }
        }
        if (k0 >= p.k) { break; } // uniform
        barrier(); // the last step has been read
        [[unroll]] for (uint l = 0; l < 8; ++l) {
            const uint at_a = (octet * 8 + l) * TM + octet * GAP + line;
            as[at_a / 4][at_a % 4] = of_words(A, y, l);
            if (brings_b) {
                const uint at_b = (octet * 8 + l) * TN + octet * GAP + line;
                bs[at_b / 4][at_b % 4] = of_words(B, x, l);
            }
        }
        barrier();
    }
    [[unroll]] for (uint j = 0; j < WIDTH; ++j) {
        const uint column = w.first + 4 * ty + 64 * (j / 4) + j % 4;
        if (column < w.end) {
            F32s d = d_column(w, column);
            [[unroll]] for (uint i = 0; i < ROWS; ++i) {
                const uint row = row0 + 4 * tx + 64 * (i / 4) + i % 4;
                if (row < p.m) { d.v[row] = sum[j * ROWS + i]; }
            }
        }
    }
}
