#version 460
// Number of equal elements of two tensors of 32-bit integers: a workgroup counts those of a row. TOTAL: one workgroup
// adds the counts of the rows and writes 64 bits.
#include "common.glsl"
#include "reduce.glsl"

layout(constant_id = 4) const bool TOTAL = false;

layout(push_constant, scalar) uniform Push {
    uint64_t a, b, d; // TOTAL: a has the counts
    uint columns, n_rows, ne1, ne2;
    uvec4 a_nb, b_nb;
} p;

// Sum over the workgroup. F32 represents both halves exactly.
uint count(uint n) {
    const float low = group_sum(float(n & 4095u));
    return uint(low) + 4096u * uint(group_sum(float(n >> 12)));
}

void main() {
    const uint i = gl_LocalInvocationID.x;
    const uint step = gl_WorkGroupSize.x;
    uint n = 0;
    if (TOTAL) {
        for (uint r = i; r < p.n_rows; r += step) { n += U32s(p.a).v[r]; }
        n = count(n);
        if (i == 0) {
            U32s(p.d).v[0] = n;
            U32s(p.d).v[1] = 0;
        }
        return;
    }
    const uint r = group_xyz();
    if (r >= p.n_rows) { return; } // uniform
    const uvec3 at3 = row_coords(r, p.ne1, p.ne2);
    I32s a = I32s(at(p.a, offset3(at3, p.a_nb.yzw), 4));
    I32s b = I32s(at(p.b, offset3(at3, p.b_nb.yzw), 4));
    for (uint c = i; c < p.columns; c += step) { n += uint(a.v[c * p.a_nb.x] == b.v[c * p.b_nb.x]); }
    n = count(n);
    if (i == 0) { U32s(p.d).v[r] = n; }
}
