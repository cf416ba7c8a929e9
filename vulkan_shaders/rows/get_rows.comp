#version 460
// dst = a[ids]: rows of a selected by indices, as F32 or F16. FMT is the format of a. If an index is out of range, its
// row is 0.
#include "common.glsl"
#include "rows.glsl"
#include "quant.glsl"

layout(constant_id = 3) const uint D = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t a, ids, d;
    uvec4 ne;      // shape of d
    uint n_rows;
    uint a_ne1;    // number of rows
    uvec3 a_nb;    // strides of dimensions 1 to 3, in blocks
    uvec3 ids_nb;
    uvec3 d_nb;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    const int id = I32s(at(p.ids, offset3(i, p.ids_nb), 4)).v[0];
    const bool there = id >= 0 && uint(id) < p.a_ne1;
    const uint64_t a = at(p.a, offset3(uvec3(there ? uint(id) : 0, i.yz), p.a_nb), BYTES);
    const uint64_t d = at(p.d, offset3(i, p.d_nb), type_size(D));
#if BLOCK == 1
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        if (D == I32) { I32s(d).v[c] = there ? I32s(a).v[c] : 0; } // integers are copied
        else { store(D, d, c, there ? value(a, c) : 0.0); }
    }
#else
    for (uint c = first_column(); c < p.ne.x / 8; c += column_step()) {
        float y[8];
        dequant8(a, c, y);
        [[unroll]] for (uint j = 0; j < 8; ++j) { store(D, d, 8 * c + j, there ? y[j] : 0.0); }
    }
#endif
}
