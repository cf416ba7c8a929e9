#version 460
// dst = f(a), element by element. OP is a number of functions.glsl.
#include "common.glsl"
#include "rows.glsl"
#include "functions.glsl"

layout(constant_id = 3) const uint OP = 0;
layout(constant_id = 4) const uint A = 0;
layout(constant_id = 5) const uint D = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uvec4 ne, a_nb, d_nb;
    uint n_rows;
    vec4 param;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    const uint64_t a = at(p.a, offset3(i, p.a_nb.yzw), type_size(A));
    const uint64_t d = at(p.d, offset3(i, p.d_nb.yzw), type_size(D));
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        store(D, d, c * p.d_nb.x, unary(OP, load(A, a, c * p.a_nb.x), p.param));
    }
}
