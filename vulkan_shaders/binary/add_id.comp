#version 460
// dst = a + b[ids]: adds a row of b, selected by an index, to each row of a. Adds nothing if the index is out of range.
#include "common.glsl"
#include "rows.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t a, b, ids, d;
    uvec3 ne;
    uint n_rows;
    uvec3 a_nb, d_nb; // dimensions 1 to 3
    uint b_nb1, b_ne1;
    uvec2 ids_nb;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    F32s a = F32s(at(p.a, offset3(i, p.a_nb), 4));
    F32s d = F32s(at(p.d, offset3(i, p.d_nb), 4));
    const int id = I32s(at(p.ids, uint64_t(i.x) * p.ids_nb.x + uint64_t(i.y) * p.ids_nb.y, 4)).v[0];
    const bool there = id >= 0 && uint(id) < p.b_ne1;
    F32s b = F32s(at(p.b, uint64_t(there ? uint(id) : 0) * p.b_nb1, 4));
    for (uint c = first_column(); c < p.ne.x; c += column_step()) { d.v[c] = a.v[c] + (there ? b.v[c] : 0.0); }
}
