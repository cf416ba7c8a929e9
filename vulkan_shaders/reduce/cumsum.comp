#version 460
// Cumulative sums of rows. A workgroup computes a row, in steps of as many columns as it has invocations.
#include "common.glsl"
#include "reduce.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uint columns, n_rows, ne1, ne2;
    uvec4 a_nb, d_nb;
} p;

// Sum of x over this invocation and those before it.
float up_to_here(float x) {
#ifdef SUBGROUP
    const float s = subgroupInclusiveAdd(x);
    if (ONE_SUBGROUP) { return s; }
    barrier();
    if (gl_SubgroupInvocationID == gl_SubgroupSize - 1) { reduce_room[gl_SubgroupID] = s; }
    barrier();
    float before = 0.0;
    for (uint i = 0; i < gl_SubgroupID; ++i) { before += reduce_room[i]; }
    return before + s;
#else
    const uint i = gl_LocalInvocationID.x;
    barrier();
    reduce_room[i] = x;
    for (uint step = 1; step < gl_WorkGroupSize.x; step *= 2) {
        barrier();
        const float other = i >= step ? reduce_room[i - step] : 0.0;
        barrier();
        reduce_room[i] += other;
    }
    return reduce_room[i];
#endif
}

void main() {
    const uint r = group_xyz();
    if (r >= p.n_rows) { return; }
    const uvec3 at3 = row_coords(r, p.ne1, p.ne2);
    F32s a = F32s(at(p.a, offset3(at3, p.a_nb.yzw), 4));
    F32s d = F32s(at(p.d, offset3(at3, p.d_nb.yzw), 4));
    const uint step = gl_WorkGroupSize.x;
    float before = 0.0;
    for (uint c0 = 0; c0 < p.columns; c0 += step) {
        const uint c = c0 + gl_LocalInvocationID.x;
        const float x = c < p.columns ? a.v[c * p.a_nb.x] : 0.0;
        const float sum = up_to_here(x);
        if (c < p.columns) { d.v[c * p.d_nb.x] = before + sum; }
        before += group_sum(x);
    }
}
