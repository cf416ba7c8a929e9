#version 460
// As mul_mat_coop, with VK_NV_cooperative_matrix2: the driver splits large matrices. Depending on the driver, a matrix
// is the whole tile and belongs to the workgroup, or a quarter of the tile and belongs to a subgroup.
// Needs flexible dimensions and functions that are called for each element.
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common.glsl"
#include "quant.glsl"
#include "matmul/product.glsl"
#include "matmul/coop.glsl"

// Eight values of a row of a and of a column of b, from index `first` on. Values after the last are 0.
void operands8(uint64_t a, uint64_t b, uint first, out float y[8], out float x[8]) {
    if (first + 8 <= p.k) {
        dequant8(a, first / 8, y);
        const uint64_t from = at(b, first, type_size(B));
        [[unroll]] for (uint l = 0; l < 8; ++l) { x[l] = load(B, from, l); }
        return;
    }
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

void load_step(Work w, uint row0, uint k0) {
    for (uint i = gl_LocalInvocationIndex; i < TILE * 4; i += gl_WorkGroupSize.x) {
        const uint line = i / 4;
        float y[8];
        float x[8];
        operands8(a_row(w, min(row0 + line, p.m - 1)), b_column(w, w.first + line), k0 + (i % 4) * 8, y, x);
        [[unroll]] for (uint l = 0; l < 8; ++l) {
            as[line * PITCH + (i % 4) * 8 + l] = float16_t(y[l]);
            bs[line * PITCH + (i % 4) * 8 + l] = float16_t(x[l]);
        }
    }
}

layout(constant_id = 5) const uint SCOPE = gl_ScopeWorkgroup;
layout(constant_id = 6) const uint SIDE = TILE; // rows and columns of a matrix of results

// Called for each element (i, j) of the results. The first element has this row and this column of d. The parameters
// are numbers, because Mesa 26 crashes if there are structs.
float put(const in uint i, const in uint j, const in float x, const in uint64_t d, const in uint end, const in uint row, const in uint column) {
    if (row + i < p.m && column + j < end) {
        Work w;
        w.d = d;
        w.end = end;
        d_column(w, column + j).v[row + i] = x;
    }
    return x;
}

void main() {
    const uint row0 = gl_WorkGroupID.x * TILE;
    const Work w = work(TILE);
    if (w.first >= w.end) { return; } // uniform
    const uvec2 corner = SIDE == TILE ? uvec2(0) : SIDE * uvec2(gl_SubgroupID & 1u, gl_SubgroupID >> 1);
    coopmat<float, SCOPE, SIDE, SIDE, gl_MatrixUseAccumulator> sum = coopmat<float, SCOPE, SIDE, SIDE, gl_MatrixUseAccumulator>(0.0);
    for (uint k0 = 0; k0 < p.k; k0 += BK) {
        barrier(); // the last step has been read
        load_step(w, row0, k0);
        barrier();
        coopmat<float16_t, SCOPE, SIDE, BK, gl_MatrixUseA> ma;
        coopmat<float16_t, SCOPE, BK, SIDE, gl_MatrixUseB> mb;
        coopMatLoad(ma, as, corner.x * PITCH, PITCH, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(mb, bs, corner.y * PITCH, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
        sum = coopMatMulAdd(ma, mb, sum);
    }
    coopMatPerElementNV(sum, sum, put, w.d, w.end, row0 + corner.x, w.first + corner.y);
}
