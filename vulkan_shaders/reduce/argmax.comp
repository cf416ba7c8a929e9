#version 460
// Index of the maximum of a row, the last one of equal elements; 0 if all are NaN. A workgroup computes a row.
#include "common.glsl"
#include "reduce.glsl"
#define BEST_ROOM 1024
#include "order.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uint columns, n_rows, ne1, ne2;
    uvec3 a_nb;
} p;

void main() {
    const uint r = group_xyz();
    if (r >= p.n_rows) { return; }
    F32s a = F32s(at(p.a, offset3(row_coords(r, p.ne1, p.ne2), p.a_nb), 4));
    // The key, and the index with its bits inverted: of equal keys, the least of these is the last element.
    uvec2 best = uvec2(0, NONE);
    for (uint c = gl_LocalInvocationID.x; c < p.columns; c += gl_WorkGroupSize.x) {
        const uint key = order_key(a.v[c]);
        if (key > 0 && key >= best.x) { best = uvec2(key, ~c); }
    }
    best = group_best(best);
    if (gl_LocalInvocationID.x == 0) { I32s(p.d).v[r] = int(~best.y); }
}
