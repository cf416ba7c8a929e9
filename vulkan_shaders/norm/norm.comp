#version 460
// Normalises rows to mean 0 and variance 1 (NORM), mean square 1 (RMS_NORM), or length 1 (L2_NORM). A workgroup computes a row.
// Fused: normalises a + b instead of a, and writes the sum (ADD); multiplies the result by w (MUL). b has the shape of a, and w repeats.
#include "common.glsl"
#include "reduce.glsl"

layout(constant_id = 4) const uint OP = 1; // 0 NORM, 1 RMS_NORM, 2 L2_NORM
layout(constant_id = 5) const bool MUL = false;
layout(constant_id = 6) const bool ADD = false;

layout(push_constant, scalar) uniform Push {
    uint64_t a, d, w, b, sum;
    uint columns, n_rows, ne1, ne2;
    uvec3 a_nb, d_nb, b_nb, sum_nb; // strides of dimensions 1 to 3; rows are contiguous, except for a without ADD
    uint w_columns, w_ne1, w_nb1;
    float eps;
    uint a_step;
} p;

void main() {
    const uint r = group_xyz();
    if (r >= p.n_rows) { return; }
    const uint i = gl_LocalInvocationID.x;
    const uint step = gl_WorkGroupSize.x;
    const uvec3 at3 = row_coords(r, p.ne1, p.ne2);
    F32s a = F32s(at(p.a, offset3(at3, p.a_nb), 4));
    F32s d = F32s(at(p.d, offset3(at3, p.d_nb), 4));
    if (ADD) {
        F32s b = F32s(at(p.b, offset3(at3, p.b_nb), 4));
        F32s s = F32s(at(p.sum, offset3(at3, p.sum_nb), 4));
        for (uint c = i; c < p.columns; c += step) { s.v[c] = a.v[c] + b.v[c]; }
        a = s; // each invocation reads what it wrote
    }
    const uint gap = p.a_step;
    const float n = float(p.columns);
    float mean = 0.0;
    if (OP == 0) {
        float sum = 0.0;
        for (uint c = i; c < p.columns; c += step) { sum += a.v[c * gap]; }
        mean = group_sum(sum) / n;
    }
    float squares = 0.0;
    float rest = 0.0;
    for (uint c = i; c < p.columns; c += step) {
        const float x = a.v[c * gap] - mean;
        squares += x * x;
        rest += x;
    }
    squares = group_sum(squares);
    if (OP == 0) {
        // Corrects the rounding error of the mean.
        rest = group_sum(rest) / n;
        mean += rest;
        squares = max(squares - rest * rest * n, 0.0);
    }
    const float factor = OP == 2 ? 1.0 / max(sqrt(squares), p.eps) : inversesqrt(squares / n + p.eps);
    if (MUL) {
        F32s w = F32s(at(p.w, uint64_t(at3.x % p.w_ne1) * p.w_nb1, 4));
        for (uint c = i; c < p.columns; c += step) {
            d.v[c] = (a.v[c * gap] - mean) * factor * w.v[p.w_columns == 1 ? 0 : c];
        }
    } else {
        for (uint c = i; c < p.columns; c += step) { d.v[c] = (a.v[c * gap] - mean) * factor; }
    }
}
