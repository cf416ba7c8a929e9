#version 460
// Adds to the scores of positions in a window a bias for their distance along rows, and one for that along columns.
#include "common.glsl"
#include "rows.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t a, w, h, d;
    uint columns, n_rows, ne1, ne2; // of a and d
    uvec4 a_nb;
    uint d_nb;       // of rows; d is contiguous
    uvec3 w_ne;      // positions, and their places across and down
    uvec4 w_nb, h_nb;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne1, p.ne2);
    const uint per_window = p.w_ne.y * p.w_ne.z;
    const uint query = r % per_window;
    const uvec3 of = uvec3(query % p.w_ne.y, query / p.w_ne.y, r / per_window);
    F32s a = F32s(at(p.a, offset3(i, p.a_nb.yzw), 4));
    F32s w = F32s(at(p.w, offset3(of, p.w_nb.yzw), 4));
    F32s h = F32s(at(p.h, offset3(of, p.h_nb.yzw), 4));
    F32s d = F32s(at(p.d, uint64_t(r) * p.d_nb, 4));
    for (uint c = first_column(); c < p.columns; c += column_step()) {
        d.v[c] = a.v[c * p.a_nb.x] + (w.v[c % p.w_ne.x * p.w_nb.x] + h.v[c / p.w_ne.x * p.h_nb.x]);
    }
}
