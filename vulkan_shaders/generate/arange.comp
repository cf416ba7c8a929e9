#version 460
// start + i * step. The groups have one row (`Grid::lines`).
#include "common.glsl"
#include "rows.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t d;
    uint n, d_nb;
    float start, step;
} p;

void main() {
    for (uint c = first_column(); c < p.n; c += column_step()) {
        precise const float y = p.start + p.step * float(c);
        F32s(p.d).v[c * p.d_nb] = y;
    }
}
