#version 460
// As mul_mat_coop, with NV's second version of cooperative matrices: one matrix is the whole tile, and the workgroup's; the driver cuts it.
// What it asks of the device: workgroup scope, flexible dimensions, functions for each element.
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common.glsl"
#include "quant.glsl"
#include "product.glsl"
#include "coop.glsl"

// Called with each element of the result.
float put(const in uint i, const in uint j, const in float x, const in Work w, const in uint row0) {
    if (row0 + i < p.m && w.first + j < w.end) { d_column(w, w.first + j).v[row0 + i] = x; }
    return x;
}

void main() {
    const uint row0 = gl_WorkGroupID.x * TILE;
    const Work w = work(TILE);
    if (w.first >= w.end) { return; } // the same for all
    coopmat<float, gl_ScopeWorkgroup, TILE, TILE, gl_MatrixUseAccumulator> sum =
        coopmat<float, gl_ScopeWorkgroup, TILE, TILE, gl_MatrixUseAccumulator>(0.0);
    for (uint k0 = 0; k0 < p.k; k0 += STRETCH) {
        barrier(); // the stretch before is done with
        stretch(w, row0, k0);
        barrier();
        coopmat<float16_t, gl_ScopeWorkgroup, TILE, STRETCH, gl_MatrixUseA> ma;
        coopmat<float16_t, gl_ScopeWorkgroup, STRETCH, TILE, gl_MatrixUseB> mb;
        coopMatLoad(ma, as, 0, PITCH, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(mb, bs, 0, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
        sum = coopMatMulAdd(ma, mb, sum);
    }
    coopMatPerElementNV(sum, sum, put, w, row0);
}
