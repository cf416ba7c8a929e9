#version 460
// dst = a * b for few columns of b on devices with real lanes: a workgroup takes one row of a and N columns; its invocations take blocks of
// 32 values in turn and their sums are added at the end.
#include "common.glsl"
#include "quant.glsl"
#include "reduce.glsl"

#ifndef N
#define N 1
#endif

layout(constant_id = 4) const uint B = 0; // type of b
layout(constant_id = 5) const bool IDS = false;

layout(push_constant, scalar) uniform Push {
    uint64_t a, b, d, ids;
    uint k, m, n;
    uint a_ne2, a_ne3;
    uint b_ne2;
    uvec3 a_nb;
    uvec3 b_nb;
    uvec3 d_nb;
    uvec2 ids_nb;
} p;

void main() {
    const uint row = gl_WorkGroupID.x;
    const uint column = gl_WorkGroupID.y * N;
    const uint t = gl_LocalInvocationID.x;
    const uint T = gl_WorkGroupSize.x;
    uint64_t a, d;
    uint64_t b[N];
    if (IDS) {
        const uint slot = gl_WorkGroupID.y;
        const uint token = gl_WorkGroupID.z;
        const int id = I32s(at(p.ids, uint64_t(token) * p.ids_nb.y + uint64_t(slot) * p.ids_nb.x, 4)).v[0];
        if (id < 0 || uint(id) >= p.a_ne2) { return; } // the same for all
        a = at(p.a, offset3(uvec3(row, uint(id), 0), p.a_nb), BYTES);
        b[0] = at(p.b, uint64_t(slot % p.b_ne2) * p.b_nb.x + uint64_t(token) * p.b_nb.y, type_size(B));
        d = at(p.d, uint64_t(slot) * p.d_nb.x + uint64_t(token) * p.d_nb.y, 4);
    } else {
        const uint i2 = gl_WorkGroupID.z % p.b_ne2;
        const uint i3 = gl_WorkGroupID.z / p.b_ne2;
        a = at(p.a, offset3(uvec3(row, i2 / p.a_ne2, i3 / p.a_ne3), p.a_nb), BYTES);
        [[unroll]] for (uint j = 0; j < N; ++j) {
            b[j] = at(p.b, offset3(uvec3(min(column + j, p.n - 1), i2, i3), p.b_nb), type_size(B));
        }
        d = at(p.d, offset3(uvec3(column, i2, i3), p.d_nb), 4);
    }
    float sum[N];
    [[unroll]] for (uint j = 0; j < N; ++j) { sum[j] = 0.0; }
    const uint eights = p.k / 8;
    for (uint e = t; e < eights; e += T) {
        float y[8];
        dequant8(a, e, y);
        [[unroll]] for (uint j = 0; j < N; ++j) {
            [[unroll]] for (uint l = 0; l < 8; ++l) { sum[j] += y[l] * load(B, b[j], e * 8 + l); }
        }
    }
#if BLOCK == 1
    for (uint l = eights * 8 + t; l < p.k; l += T) {
        const float y = value(a, l);
        [[unroll]] for (uint j = 0; j < N; ++j) { sum[j] += y * load(B, b[j], l); }
    }
#endif
    [[unroll]] for (uint j = 0; j < N; ++j) {
        const float all = group_sum(sum[j]);
        if (t == 0 && (IDS || column + j < p.n)) { F32s(d + uint64_t(j) * p.d_nb.x * 4).v[row] = all; }
    }
}
