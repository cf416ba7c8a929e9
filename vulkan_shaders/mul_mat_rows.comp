#version 460
// dst = a * b for any device, without shared memory: an invocation takes one row of a and N columns of b over all of K. What it reads
// of b is the same for the whole workgroup, so drivers that run lanes on a CPU load it once. The rung for such drivers, and the
// fallback. IDS: MUL_MAT_ID, where the columns of a workgroup belong to one (token, expert) pair each.
#include "common.glsl"
#include "quant.glsl"

#ifndef N
#define N 8
#endif

layout(constant_id = 3) const uint B = 0; // type of b
layout(constant_id = 4) const bool IDS = false;
layout(constant_id = 5) const uint COLUMNS = N; // columns a group computes, at most N

layout(push_constant, scalar) uniform Push {
    uint64_t a, b, d, ids;
    uint k, m, n;         // n: columns of b in a matrix
    uint a_ne2, a_ne3;    // IDS: experts, -
    uint b_ne2;           // matrices of d in dimension 2; IDS: of b's dimension 1 (tokens share or not)
    uvec3 a_nb;           // in blocks
    uvec3 b_nb;           // dimensions 1 to 3
    uvec3 d_nb;
    uvec2 ids_nb;
} p;

void main() {
    const uint row_ = gl_GlobalInvocationID.x;
    const uint row = min(row_, p.m - 1); // all invocations stay: what is uniform stays so
    const uint column = gl_WorkGroupID.y * COLUMNS;
    uint64_t a, d;
    uint64_t b[N];
    if (IDS) {
        // y: slot of the expert, z: token
        const uint slot = gl_WorkGroupID.y;
        const uint token = gl_WorkGroupID.z;
        const int id = I32s(at(p.ids, uint64_t(token) * p.ids_nb.y + uint64_t(slot) * p.ids_nb.x, 4)).v[0];
        if (id < 0 || uint(id) >= p.a_ne2) { return; }
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
    const uint whole = p.k / 32;
    for (uint kb = 0; kb < whole; ++kb) {
        float y[32];
        dequant32(a, kb, y);
        [[unroll]] for (uint j = 0; j < N; ++j) {
            if (j < COLUMNS) {
                float s = 0.0;
                [[unroll]] for (uint l = 0; l < 32; ++l) { s += y[l] * load(B, b[j], kb * 32 + l); }
                sum[j] += s;
            }
        }
    }
#if BLOCK == 1
    for (uint l = whole * 32; l < p.k; ++l) {
        const float y = value(a, l);
        [[unroll]] for (uint j = 0; j < N; ++j) {
            if (j < COLUMNS) { sum[j] += y * load(B, b[j], l); }
        }
    }
#endif
    if (row_ < p.m) {
        [[unroll]] for (uint j = 0; j < N; ++j) {
            if (j < COLUMNS && (IDS || column + j < p.n)) { F32s(d + uint64_t(j) * p.d_nb.x * 4).v[row] = sum[j]; }
        }
    }
}
