#version 460
// A matrix product with cooperative matrices (KHR), in tiles of 64 rows by 64 columns. Each of four subgroups computes 32 by 32 results, in
// matrices of a size that the device supports. Operands are F16, sums F32.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common.glsl"
#include "quant.glsl"
#include "matmul/product.glsl"
#include "matmul/coop.glsl"

// Size of the device's matrices. 32 is a multiple of each.
layout(constant_id = 5) const uint CM = 16;
layout(constant_id = 6) const uint CN = 16;
layout(constant_id = 7) const uint CK = 16;
// Rows of a and columns of b begin at multiples of 16 bytes.
layout(constant_id = 8) const bool ALIGNED = false;
#include "matmul/ahead.glsl"

// Groups of eight values of a row, and of a column, that an invocation loads in each step.
const uint EIGHTS = TILE * 4 / gl_WorkGroupSize.x;

const uint SUBGROUPS = 4;
const uint ONE = CM * CN;
shared float results[SUBGROUPS * ONE]; // a matrix of each subgroup, before it is written to d

void main() {
    const uint row0 = gl_WorkGroupID.x * TILE;
    const Work w = work(TILE);
    if (w.first >= w.end) { return; } // uniform
    const uint warp_row = (gl_SubgroupID & 1u) * 32;
    const uint warp_column = (gl_SubgroupID >> 1) * 32;
    const uint MS = 32 / CM;
    const uint NS = 32 / CN;
    coopmat<float, gl_ScopeSubgroup, CM, CN, gl_MatrixUseAccumulator> sum[MS * NS];
    [[unroll]] for (uint i = 0; i < MS * NS; ++i) {
        sum[i] = coopmat<float, gl_ScopeSubgroup, CM, CN, gl_MatrixUseAccumulator>(0.0);
    }
    // The values of the next step are loaded while those of this step are multiplied.
    uint64_t a[EIGHTS];
    uint64_t b[EIGHTS];
    uint y[EIGHTS][8];
    uint x[EIGHTS][8];
    [[unroll]] for (uint e = 0; e < EIGHTS; ++e) {
        const uint line = (gl_LocalInvocationIndex + e * gl_WorkGroupSize.x) / 4;
        a[e] = a_row(w, min(row0 + line, p.m - 1));
        b[e] = b_column(w, w.first + line);
    }
    // Workgroups have a multiple of four invocations, so these are the same values of each line.
    const uint eighth = gl_LocalInvocationIndex % 4 * 8;
    [[unroll]] for (uint e = 0; e < EIGHTS; ++e) { fetch(a[e], b[e], true, eighth, y[e], x[e]); }
    for (uint k0 = 0; k0 < p.k; k0 += BK) {
        barrier(); // the last step has been read
        [[unroll]] for (uint e = 0; e < EIGHTS; ++e) {
            const uint to = (gl_LocalInvocationIndex + e * gl_WorkGroupSize.x) / 4 * PITCH + eighth;
            [[unroll]] for (uint l = 0; l < 8; ++l) {
                as[to + l] = float16_t(of_words(A, y[e], l));
                bs[to + l] = float16_t(of_words(B, x[e], l));
            }
        }
        barrier();
        if (k0 + BK < p.k) {
            [[unroll]] for (uint e = 0; e < EIGHTS; ++e) { fetch(a[e], b[e], true, k0 + BK + eighth, y[e], x[e]); }
        }
        [[unroll]] for (uint l = 0; l < BK; l += CK) {
            coopmat<float16_t, gl_ScopeSubgroup, CK, CN, gl_MatrixUseB> mb[NS];
            [[unroll]] for (uint j = 0; j < NS; ++j) {
                coopMatLoad(mb[j], bs, (warp_column + j * CN) * PITCH + l, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
            }
            [[unroll]] for (uint i = 0; i < MS; ++i) {
                coopmat<float16_t, gl_ScopeSubgroup, CM, CK, gl_MatrixUseA> ma;
                coopMatLoad(ma, as, (warp_row + i * CM) * PITCH + l, PITCH, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint j = 0; j < NS; ++j) { sum[i * NS + j] = coopMatMulAdd(ma, mb[j], sum[i * NS + j]); }
            }
        }
    }
    [[unroll]] for (uint i = 0; i < MS; ++i) {
        [[unroll]] for (uint j = 0; j < NS; ++j) {
            subgroupBarrier(); // the last matrix has been written
            coopMatStore(sum[i * NS + j], results, gl_SubgroupID * ONE, CM, gl_CooperativeMatrixLayoutColumnMajor);
            subgroupBarrier();
            for (uint e = gl_SubgroupInvocationID; e < ONE; e += gl_SubgroupSize) {
                const uint row = row0 + warp_row + i * CM + e % CM;
                const uint column = w.first + warp_column + j * CN + e / CM;
                if (row < p.m && column < w.end) { d_column(w, column).v[row] = results[gl_SubgroupID * ONE + e]; }
            }
        }
    }
}
