#version 460
// Repeats a in each dimension. Copies bits.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint BYTES = 4;

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uvec4 ne, a_nb, d_nb, a_ne;
    uint n_rows;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    const uint64_t a = at(p.a, offset3(i % p.a_ne.yzw, p.a_nb.yzw), BYTES);
    const uint64_t d = at(p.d, offset3(i, p.d_nb.yzw), BYTES);
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        const uint ia = (c % p.a_ne.x) * p.a_nb.x;
        const uint id = c * p.d_nb.x;
        if (BYTES == 2) { U16s(d).v[id] = U16s(a).v[ia]; }
        else { U32s(d).v[id] = U32s(a).v[ia]; }
    }
}
