#version 460
// Converts rows of blocks to floats.
#include "common.glsl"
#include "rows.glsl"
#include "quant.glsl"

layout(constant_id = 3) const uint D = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uvec4 ne;
    uint n_rows;
    uvec3 a_nb; // in blocks
    uvec4 d_nb;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    const uint64_t a = at(p.a, offset3(i, p.a_nb), BYTES);
    const uint64_t d = at(p.d, offset3(i, p.d_nb.yzw), type_size(D));
    for (uint c = first_column(); c < p.ne.x / 8; c += column_step()) {
        float y[8];
        dequant8(a, c, y);
        [[unroll]] for (uint j = 0; j < 8; ++j) { store(D, d, (8 * c + j) * p.d_nb.x, y[j]); }
    }
}
