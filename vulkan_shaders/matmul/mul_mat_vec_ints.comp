#version 460
// As mul_mat_vec, with dot products of 8-bit integers, in groups of 16 values. `product_blocks`, or the norm before,
// has converted b to blocks.
#include "common.glsl"
#include "quant.glsl"
#include "quant_ints.glsl"
#include "matmul/vector.glsl"

void add_groups(uint64_t a[MAX_ROWS], uint64_t b[MAX_WIDTH], uint t, uint T, inout float sum[REDUCE]) {
    for (uint i = t; i < p.k / 16; i += T) {
        int q[MAX_ROWS][4];
        float scale[MAX_ROWS], offset[MAX_ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) { ints16(a[r], i, q[r], scale[r], offset[r]); }
        [[unroll]] for (uint j = 0; j < WIDTH; ++j) {
            const uint64_t block = at(b[j], i / 2, 40);
            I32s bytes = I32s(at(block + 8, i & 1u, 16));
            int x[4];
            [[unroll]] for (uint l = 0; l < 4; ++l) { x[l] = bytes.v[l]; }
            const vec2 s = scale_and_sum(block, i & 1u);
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                int dot = 0;
                [[unroll]] for (uint l = 0; l < 4; ++l) { dot += dotPacked4x8EXT(q[r][l], x[l]); }
                sum[r * WIDTH + j] += s.x * (scale[r] * float(dot) + offset[r] * s.y);
            }
        }
    }
}
