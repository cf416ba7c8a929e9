#version 460
// Sums or means of rows. A workgroup computes a row.
#include "common.glsl"
#include "reduce.glsl"

layout(constant_id = 4) const bool MEAN = false;

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uint columns, n_rows, ne1, ne2;
    uint a_nb0;
    uvec3 a_nb, d_nb;
} p;

void main() {
    const uint r = group_xyz();
    if (r >= p.n_rows) { return; }
    const uvec3 at3 = row_coords(r, p.ne1, p.ne2);
    F32s a = F32s(at(p.a, offset3(at3, p.a_nb), 4));
    // Two levels of sums reduce the rounding error of long rows.
    float sum = 0.0;
    const uint step = gl_WorkGroupSize.x;
    for (uint c0 = gl_LocalInvocationID.x; c0 < p.columns; c0 += 64 * step) {
        float part = 0.0;
        const uint end = min(p.columns, c0 + 64 * step);
        for (uint c = c0; c < end; c += step) { part += a.v[c * p.a_nb0]; }
        sum += part;
    }
    sum = group_sum(sum);
    if (gl_LocalInvocationID.x == 0) {
        F32s(at(p.d, offset3(at3, p.d_nb), 4)).v[0] = MEAN ? sum / float(p.columns) : sum;
    }
}
