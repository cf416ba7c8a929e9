#version 460
// A step of an optimizer on the weights w with gradients g, in place: gradient descent, or (ADAMW) AdamW with the
// moments m and v. param: learning rate, weight decay; ADAMW: learning rate, decay rates of the moments, epsilon,
// weight decay, bias corrections.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const bool ADAMW = false;

layout(push_constant, scalar) uniform Push {
    uint64_t w, g, m, v, param;
    uvec4 ne;
    uint n_rows;
    uvec3 w_nb, g_nb, m_nb, v_nb; // dimensions 1 to 3; rows are contiguous
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    F32s w = F32s(at(p.w, offset3(i, p.w_nb), 4));
    F32s g = F32s(at(p.g, offset3(i, p.g_nb), 4));
    F32s m = F32s(at(p.m, offset3(i, p.m_nb), 4));
    F32s v = F32s(at(p.v, offset3(i, p.v_nb), 4));
    F32s param = F32s(p.param);
    const float rate = param.v[0];
    const float keep = 1.0 - rate * param.v[ADAMW ? 4 : 1];
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        const float gradient = g.v[c];
        if (!ADAMW) {
            w.v[c] = w.v[c] * keep - rate * gradient;
            continue;
        }
        const float first = m.v[c] * param.v[1] + gradient * (1.0 - param.v[1]);
        const float second = v.v[c] * param.v[2] + gradient * gradient * (1.0 - param.v[2]);
        m.v[c] = first;
        v.v[c] = second;
        w.v[c] = w.v[c] * keep - rate * (first * param.v[5]) / (sqrt(second * param.v[6]) + param.v[3]);
    }
}
