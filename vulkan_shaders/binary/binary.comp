#version 460
// dst = a OP b, with b repeated to the shape of a. ADD, SUB, MUL, DIV, ADD1, and SILU_BACK: a times the derivative of
// SiLU at b. The types of a, b and dst are constants.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint OP = 0;
layout(constant_id = 4) const uint A = 0;
layout(constant_id = 5) const uint B = 0;
layout(constant_id = 6) const uint D = 0;
// b has as many columns as a.
layout(constant_id = 7) const bool SAME = true;

layout(push_constant, scalar) uniform Push {
    uint64_t a, b, d;
    uvec4 ne, a_nb, b_nb, d_nb, b_ne;
    uint n_rows;
} p;

float apply(float x, float y) {
    switch (OP) {
        case 0: return x + y;
        case 1: return x - y;
        case 2: return x * y;
        case 4: {
            const float s = 1.0 / (1.0 + exp(-y));
            return x * s * (1.0 + y * (1.0 - s));
        }
        default: return x / y;
    }
}

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    const uint64_t a = at(p.a, offset3(i, p.a_nb.yzw), type_size(A));
    const uint64_t b = at(p.b, offset3(i % p.b_ne.yzw, p.b_nb.yzw), type_size(B));
    const uint64_t d = at(p.d, offset3(i, p.d_nb.yzw), type_size(D));
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        const uint cb = SAME ? c : c % p.b_ne.x;
        store(D, d, c * p.d_nb.x, apply(load(A, a, c * p.a_nb.x), load(B, b, cb * p.b_nb.x)));
    }
}
