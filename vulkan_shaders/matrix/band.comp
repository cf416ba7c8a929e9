#version 460
// Keeps the elements of a band of a matrix, those whose column minus row is from `low` to `high`, and sets the others
// to a value: triangles, masks and, with a stride of 0 for rows of a, diagonal matrices.
#include "common.glsl"
#include "rows.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uvec4 ne, a_nb, d_nb;
    uint n_rows;
    int low, high;
    float value;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    F32s a = F32s(at(p.a, offset3(i, p.a_nb.yzw), 4));
    F32s d = F32s(at(p.d, offset3(i, p.d_nb.yzw), 4));
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        const int side = int(c) - int(i.x);
        d.v[c * p.d_nb.x] = side >= p.low && side <= p.high ? a.v[c * p.a_nb.x] : p.value;
    }
}
