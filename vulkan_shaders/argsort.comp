#version 460
// Places of elements in the order of their values; of equals the first comes first. TOP_K: only the first k of the descending order.
// Each invocation counts what comes before its element: no shared memory, and every lane reads the same element at a time. NaN has its
// place in the order of bits, so the result is a permutation whatever the values are.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const bool DESCENDING = false;

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uint columns, n_rows, ne1, ne2;
    uvec3 a_nb, d_nb;
    uint k; // elements written
} p;

uint key(float x) {
    const uint u = floatBitsToUint(x == 0.0 ? 0.0 : x);
    const uint up = (u & 0x80000000u) != 0 ? ~u : u | 0x80000000u;
    return DESCENDING ? ~up : up;
}

void main() {
    const uint r = group_yz();
    if (r >= p.n_rows) { return; }
    const uvec3 at3 = row_coords(r, p.ne1, p.ne2);
    F32s a = F32s(at(p.a, offset3(at3, p.a_nb), 4));
    I32s d = I32s(at(p.d, offset3(at3, p.d_nb), 4));
    for (uint c_ = gl_GlobalInvocationID.x; c_ - gl_LocalInvocationID.x < p.columns; c_ += column_step()) {
        const uint c = min(c_, p.columns - 1);
        const uint mine = key(a.v[c]);
        uint before = 0;
        for (uint j = 0; j < p.columns; ++j) {
            const uint other = key(a.v[j]);
            before += uint(other < mine || (other == mine && j < c));
        }
        if (c_ < p.columns && before < p.k) { d.v[before] = int(c); }
    }
}
