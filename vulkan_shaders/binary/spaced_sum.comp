#version 460
// d = a0 + a1 + ...: the sum of tensors of one shape at evenly spaced addresses, such as the results of the experts of
// a token. WEIGHTED: each row of each tensor has a weight.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const bool WEIGHTED = false;

layout(push_constant, scalar) uniform Push {
    uint64_t a, d, w;
    uint columns, n_rows, ne1, ne2;
    uint n, spacing;  // tensors, elements from one to the next
    uvec3 a_nb, d_nb; // strides of dimensions 1 to 3
    uvec2 w_nb;       // strides of tensors, and of dimension 1; there are no others
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne1, p.ne2);
    const uint64_t a = at(p.a, offset3(i, p.a_nb), 4);
    const uint64_t w = at(p.w, uint64_t(i.x) * p.w_nb.y, 4);
    F32s d = F32s(at(p.d, offset3(i, p.d_nb), 4));
    for (uint c = first_column(); c < p.columns; c += column_step()) {
        float sum = 0.0;
        for (uint k = 0; k < p.n; ++k) {
            float x = F32s(at(a, uint64_t(k) * p.spacing, 4)).v[c];
            if (WEIGHTED) { x *= F32s(at(w, uint64_t(k) * p.w_nb.x, 4)).v[0]; }
            sum = k == 0 ? x : sum + x;
        }
        d.v[c] = sum;
    }
}
