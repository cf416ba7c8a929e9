#version 460
// dst = a * b with cooperative matrices (KHR): tiles of 64 rows by 64 columns; four subgroups with 32 by 32 results each. Operands are brought
// to F16 in shared memory a stretch of 32 values at a time, sums are F32.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common.glsl"
#include "quant.glsl"

layout(constant_id = 3) const uint B = 0; // type of b
// Size of the device's matrices; 32 is a multiple of each.
layout(constant_id = 4) const uint CM = 16;
layout(constant_id = 5) const uint CN = 16;
layout(constant_id = 6) const uint CK = 16;

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
const uint PITCH = STRETCH + 8;
shared float16_t as[TILE * PITCH]; // rows of a
shared float16_t bs[TILE * PITCH]; // columns of b
shared float results[TILE * (TILE + 4)]; // columns of d

void main() {
    const uint t = gl_LocalInvocationIndex;
    const uint T = gl_WorkGroupSize.x;
    const uint row0 = gl_WorkGroupID.x * TILE;
    const uint column0 = gl_WorkGroupID.y * TILE;
    const uint i2 = gl_WorkGroupID.z % p.b_ne2;
    const uint i3 = gl_WorkGroupID.z / p.b_ne2;
    const uint64_t a = at(p.a, offset3(uvec3(0, i2 / p.a_ne2, i3 / p.a_ne3), p.a_nb), BYTES);
    const uint64_t b = at(p.b, offset3(uvec3(0, i2, i3), p.b_nb), type_size(B));
    const uint warp_row = (gl_SubgroupID & 1u) * 32;
    const uint warp_column = (gl_SubgroupID >> 1) * 32;
    const uint MS = 32 / CM;
    const uint NS = 32 / CN;
    coopmat<float, gl_ScopeSubgroup, CM, CN, gl_MatrixUseAccumulator> sum[MS * NS];
    [[unroll]] for (uint i = 0; i < MS * NS; ++i) {
        sum[i] = coopmat<float, gl_ScopeSubgroup, CM, CN, gl_MatrixUseAccumulator>(0.0);
    }
    for (uint k0 = 0; k0 < p.k; k0 += STRETCH) {
        barrier(); // the stretch before is done with
        for (uint i = t; i < TILE * 4; i += T) {
            const uint line = i / 4;
            const uint first = k0 + (i % 4) * 8;
            const uint64_t ar = at(a, uint64_t(min(row0 + line, p.m - 1)) * p.a_nb.x, BYTES);
            const uint64_t br = at(b, uint64_t(min(column0 + line, p.n - 1)) * p.b_nb.x, type_size(B));
            float y[8];
            float x[8];
            if (first + 8 <= p.k) {
                dequant8(ar, first / 8, y);
                [[unroll]] for (uint l = 0; l < 8; ++l) { x[l] = load(B, br, first + l); }
            } else {
                [[unroll]] for (uint l = 0; l < 8; ++l) {
                    y[l] = 0.0;
                    x[l] = 0.0;
#if BLOCK == 1
                    if (first + l < p.k) {
                        y[l] = value(ar, first + l);
                        x[l] = load(B, br, first + l);
                    }
#endif
                }
            }
            [[unroll]] for (uint l = 0; l < 8; ++l) {
                as[line * PITCH + (i % 4) * 8 + l] = float16_t(y[l]);
                bs[line * PITCH + (i % 4) * 8 + l] = float16_t(x[l]);
            }
        }
        barrier();
        [[unroll]] for (uint l = 0; l < STRETCH; l += CK) {
            [[unroll]] for (uint i = 0; i < MS; ++i) {
                coopmat<float16_t, gl_ScopeSubgroup, CM, CK, gl_MatrixUseA> ma;
                coopMatLoad(ma, as, (warp_row + i * CM) * PITCH + l, PITCH, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint j = 0; j < NS; ++j) {
                    coopmat<float16_t, gl_ScopeSubgroup, CK, CN, gl_MatrixUseB> mb;
                    coopMatLoad(mb, bs, (warp_column + j * CN) * PITCH + l, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
                    sum[i * NS + j] = coopMatMulAdd(ma, mb, sum[i * NS + j]);
                }
            }
        }
    }
    [[unroll]] for (uint i = 0; i < MS; ++i) {
        [[unroll]] for (uint j = 0; j < NS; ++j) {
            const uint to = (warp_column + j * CN) * (TILE + 4) + warp_row + i * CM;
            coopMatStore(sum[i * NS + j], results, to, TILE + 4, gl_CooperativeMatrixLayoutColumnMajor);
        }
    }
    barrier();
    for (uint i = t; i < TILE * TILE; i += T) {
        const uint row = row0 + i % TILE;
        const uint column = column0 + i / TILE;
        if (row < p.m && column < p.n) {
            F32s(at(p.d, offset3(uvec3(column, i2, i3), p.d_nb), 4)).v[row] = results[(i / TILE) * (TILE + 4) + i % TILE];
        }
    }
}
