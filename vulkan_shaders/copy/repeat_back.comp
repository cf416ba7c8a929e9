#version 460
// Gradient of a repetition: the sum of all repetitions of d in a.
#include "common.glsl"
#include "rows.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uvec4 ne, a_nb, d_nb, a_ne;
    uint n_rows;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    F32s d = F32s(at(p.d, offset3(i, p.d_nb.yzw), 4));
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        float sum = 0.0;
        for (uint i3 = i.z; i3 < p.a_ne.w; i3 += p.ne.w) {
            for (uint i2 = i.y; i2 < p.a_ne.z; i2 += p.ne.z) {
                for (uint i1 = i.x; i1 < p.a_ne.y; i1 += p.ne.y) {
                    F32s a = F32s(at(p.a, offset3(uvec3(i1, i2, i3), p.a_nb.yzw), 4));
                    for (uint i0 = c; i0 < p.a_ne.x; i0 += p.ne.x) { sum += a.v[i0 * p.a_nb.x]; }
                }
            }
        }
        d.v[c * p.d_nb.x] = sum;
    }
}
