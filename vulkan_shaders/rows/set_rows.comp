#version 460
// d[ids] = a: writes rows of a to rows of d selected by indices, in a plain format. Rows with an index out of range are
// skipped.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint A = 0;
layout(constant_id = 4) const uint D = 0;
layout(constant_id = 5) const uint INDEX = 26;

#include "rows_by_index.glsl"

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    const uint64_t ids = at(p.ids, offset3(uvec3(i.x, i.yz % p.ids_ne), p.ids_nb), INDEX == I64 ? 8 : 4);
    int64_t id;
    if (INDEX == I64) { id = I64s(ids).v[0]; } else { id = int64_t(I32s(ids).v[0]); }
    if (id < 0 || id >= int64_t(p.d_ne1)) { return; }
    const uint64_t a = at(p.a, offset3(i, p.a_nb.yzw), type_size(A));
    const uint64_t d = at(p.d, uint64_t(id) * p.d_nb.x + uint64_t(i.y) * p.d_nb.y + uint64_t(i.z) * p.d_nb.z, type_size(D));
    for (uint c = first_column(); c < p.ne.x; c += column_step()) { store(D, d, c, load(A, a, c * p.a_nb.x)); }
}
