#version 460
// dst = f(gate) * up. Gate and up are two tensors, or the halves of one. The host passes their addresses.
#include "common.glsl"
#include "rows.glsl"
#include "functions.glsl"

layout(constant_id = 3) const uint OP = 0;
layout(constant_id = 4) const uint A = 0;
layout(constant_id = 5) const uint D = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t gate, up, d;
    uvec4 ne, gate_nb, up_nb, d_nb;
    uint n_rows;
    vec2 param;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    const uint64_t g = at(p.gate, offset3(i, p.gate_nb.yzw), type_size(A));
    const uint64_t u = at(p.up, offset3(i, p.up_nb.yzw), type_size(A));
    const uint64_t d = at(p.d, offset3(i, p.d_nb.yzw), type_size(D));
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        store(D, d, c * p.d_nb.x, gated(OP, load(A, g, c * p.gate_nb.x), load(A, u, c * p.up_nb.x), p.param));
    }
}
