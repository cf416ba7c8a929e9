#version 460
// For MUL_MAT_ID with mul_mat_tensor, which reads contiguous columns only: the columns of b in the order of the pairs
// of `product_lists`, as F16.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint B = 0;              // type of b
layout(constant_id = 4) const bool ALIGNED = false;    // columns of b begin at multiples of 16 bytes

layout(push_constant, scalar) uniform Push {
    uint64_t b, d, pairs;
    uint pieces; // of eight values: those of a column
    uint n_pairs;
    uint slots;
    uint b_ne1;  // columns of a token: one for all slots, or one for each
    uvec2 b_nb;  // dimensions 1 and 2
} p;

// Eight values, which are stored at once.
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Piece { f16vec4 v[2]; };

void main() {
    const uint r = my_row();
    if (r >= p.n_pairs) { return; }
    // Pairs without an expert are in no list. The places that they leave at its end may have any number.
    const uint pair = U32s(at(p.pairs, r, 4)).v[0];
    if (pair >= p.n_pairs) { return; }
    const uint64_t b = at(p.b, uint64_t(pair % p.slots % p.b_ne1) * p.b_nb.x + uint64_t(pair / p.slots) * p.b_nb.y, type_size(B));
    for (uint c = first_column(); c < p.pieces; c += column_step()) {
        const uint64_t from = at(b, c, 8 * type_size(B));
        vec4 x[2];
        if (ALIGNED && B == F32) {
            x[0] = F32x4s(from).v[0];
            x[1] = F32x4s(from).v[1];
        } else {
            [[unroll]] for (uint j = 0; j < 8; ++j) { x[j / 4][j % 4] = load(B, from, j); }
        }
        Piece to = Piece(at(p.d, uint64_t(r) * p.pieces + c, 16));
        to.v[0] = f16vec4(x[0]);
        to.v[1] = f16vec4(x[1]);
    }
}
