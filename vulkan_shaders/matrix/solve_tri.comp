#version 460
// Solves lower triangular systems a x = b by substitution. A workgroup solves some columns of a matrix; an invocation
// solves one. Rows of a are read through shared memory.
#include "common.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t a, b, d;
    uint n, columns, n_groups;
    uint ne2;
    uint parts;     // workgroups of a matrix
    uvec3 a_nb;     // dimensions 1 to 3; rows are contiguous
    uvec4 b_nb, d_nb;
} p;

const uint ROOM = 256;
shared float row[ROOM];

void main() {
    const uint group = group_xyz();
    if (group >= p.n_groups) { return; } // uniform
    const uint matrix = group / p.parts;
    const uint column = (group - matrix * p.parts) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const bool live = column < p.columns;
    const uvec2 at2 = uvec2(matrix % p.ne2, matrix / p.ne2);
    const uint64_t a = at(p.a, offset3(uvec3(0, at2), p.a_nb), 4);
    const uint c = live ? column : 0;
    const uint64_t b = at(p.b, offset3(uvec3(c, at2), p.b_nb.xzw), 4);
    const uint64_t d = at(p.d, offset3(uvec3(c, at2), p.d_nb.xzw), 4);
    for (uint i = 0; i < p.n; ++i) {
        F32s weights = F32s(at(a, uint64_t(i) * p.a_nb.x, 4));
        float sum = 0.0;
        for (uint k0 = 0; k0 < i; k0 += ROOM) {
            const uint count = min(i - k0, ROOM);
            barrier(); // the last part has been read
            for (uint k = gl_LocalInvocationID.x; k < count; k += gl_WorkGroupSize.x) { row[k] = weights.v[k0 + k]; }
            barrier();
            if (live) {
                // Each invocation reads what it wrote.
                for (uint k = 0; k < count; ++k) { sum += row[k] * F32s(at(d, uint64_t(k0 + k) * p.d_nb.y, 4)).v[0]; }
            }
        }
        if (live) {
            const float x = F32s(at(b, uint64_t(i) * p.b_nb.y, 4)).v[0];
            F32s(at(d, uint64_t(i) * p.d_nb.y, 4)).v[0] = (x - sum) / weights.v[i];
        }
    }
}
