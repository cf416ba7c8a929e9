#version 460
// dst = a * b in tiles of 64 rows by 64 columns through shared memory, for devices with real lanes. A workgroup has 256 invocations; each
// holds 4 by 4 results. Both operands are brought to F32 a stretch of 32 values at a time.
#include "common.glsl"
#include "quant.glsl"

layout(constant_id = 3) const uint B = 0; // type of b

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

const uint TILE = 64;
const uint STRETCH = 32;
// Padded, so that lanes of a subgroup meet different banks.
shared float as[STRETCH * (TILE + 1)];
shared float bs[STRETCH * (TILE + 1)];

void main() {
    const uint t = gl_LocalInvocationID.x;
    const uint row0 = gl_WorkGroupID.x * TILE;
    const uint column0 = gl_WorkGroupID.y * TILE;
    const uint i2 = gl_WorkGroupID.z % p.b_ne2;
    const uint i3 = gl_WorkGroupID.z / p.b_ne2;
    // What this invocation brings in: eight values of one row of a, and of one column of b.
    const uint line = t / 4;
    const uint eighth = t % 4;
    const uint64_t a = at(p.a, offset3(uvec3(min(row0 + line, p.m - 1), i2 / p.a_ne2, i3 / p.a_ne3), p.a_nb), BYTES);
    const uint64_t b = at(p.b, offset3(uvec3(min(column0 + line, p.n - 1), i2, i3), p.b_nb), type_size(B));
    const uint tx = t % 16;
    const uint ty = t / 16;
    float sum[4][4];
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        [[unroll]] for (uint j = 0; j < 4; ++j) { sum[i][j] = 0.0; }
    }
    for (uint k0 = 0; k0 < p.k; k0 += STRETCH) {
        const uint first = k0 + eighth * 8;
        float y[8];
        float x[8];
        if (first + 8 <= p.k) {
            dequant8(a, first / 8, y);
            [[unroll]] for (uint l = 0; l < 8; ++l) { x[l] = load(B, b, first + l); }
        } else {
            [[unroll]] for (uint l = 0; l < 8; ++l) {
                y[l] = 0.0;
                x[l] = 0.0;
#if BLOCK == 1
                if (first + l < p.k) {
                    y[l] = value(a, first + l);
                    x[l] = load(B, b, first + l);
                }
#endif
            }
        }
        barrier(); // the stretch before is done with
        [[unroll]] for (uint l = 0; l < 8; ++l) {
            as[(eighth * 8 + l) * (TILE + 1) + line] = y[l];
            bs[(eighth * 8 + l) * (TILE + 1) + line] = x[l];
        }
        barrier();
        for (uint l = 0; l < STRETCH; ++l) {
            float av[4];
            float bv[4];
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                av[i] = as[l * (TILE + 1) + tx + 16 * i];
                bv[i] = bs[l * (TILE + 1) + ty + 16 * i];
            }
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                [[unroll]] for (uint j = 0; j < 4; ++j) { sum[i][j] += av[i] * bv[j]; }
            }
        }
    }
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const uint column = column0 + ty + 16 * j;
        if (column < p.n) {
            F32s d = F32s(at(p.d, offset3(uvec3(column, i2, i3), p.d_nb), 4));
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                const uint row = row0 + tx + 16 * i;
                if (row < p.m) { d.v[row] = sum[i][j]; }
            }
        }
    }
}
