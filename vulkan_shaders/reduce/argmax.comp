#version 460
// Index of the maximum of a row, the first one of equal elements; 0 if none is above minus infinity. A workgroup computes a row.
#include "common.glsl"
#include "reduce.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uint columns, n_rows, ne1, ne2;
    uvec3 a_nb;
} p;

void main() {
    const uint r = group_xyz();
    if (r >= p.n_rows) { return; }
    F32s a = F32s(at(p.a, offset3(row_coords(r, p.ne1, p.ne2), p.a_nb), 4));
    float most = LOWEST;
    uint best = p.columns;
    for (uint c = gl_LocalInvocationID.x; c < p.columns; c += gl_WorkGroupSize.x) {
        const float x = a.v[c];
        if (!is_minus_infinity(x) && !is_nan(x) && (x > most || best == p.columns)) {
            most = x;
            best = c;
        }
    }
    const float all = group_max(most);
    // The lowest index in two halves, which F32 represents exactly.
    const float out_of_it = -65536.0;
    const bool mine = best < p.columns && most == all;
    const float high = group_max(mine ? -float(best >> 16) : out_of_it);
    const float low = group_max(mine && -float(best >> 16) == high ? -float(best & 65535u) : out_of_it);
    if (gl_LocalInvocationID.x == 0) {
        const uint index = (uint(-high) << 16) | uint(-low);
        I32s(p.d).v[r] = int(high == out_of_it ? 0 : index);
    }
}
