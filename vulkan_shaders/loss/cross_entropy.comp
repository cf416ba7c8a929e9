#version 460
// Cross entropy of softmax(a) and the targets t: factor * sum(t * log(softmax(a))) for each row, or (BACK) the gradient
// with respect to a, (softmax(a) - t) * factor * grad. A workgroup computes a row.
#include "common.glsl"
#include "reduce.glsl"

layout(constant_id = 4) const bool BACK = false;

layout(push_constant, scalar) uniform Push {
    uint64_t a, t, grad, d; // without BACK, d has a float for each row
    uint columns, n_rows, ne1, ne2;
    uvec4 a_nb, t_nb, d_nb;
    float factor;
} p;

void main() {
    const uint r = group_xyz();
    if (r >= p.n_rows) { return; }
    const uint i = gl_LocalInvocationID.x;
    const uint step = gl_WorkGroupSize.x;
    const uvec3 at3 = row_coords(r, p.ne1, p.ne2);
    F32s a = F32s(at(p.a, offset3(at3, p.a_nb.yzw), 4));
    F32s t = F32s(at(p.t, offset3(at3, p.t_nb.yzw), 4));
    float most = LOWEST;
    for (uint c = i; c < p.columns; c += step) { most = max(most, a.v[c * p.a_nb.x]); }
    most = group_max(most);
    float sum = 0.0;
    for (uint c = i; c < p.columns; c += step) { sum += exp(a.v[c * p.a_nb.x] - most); }
    sum = group_sum(sum);
    if (BACK) {
        const float factor = p.factor * F32s(p.grad).v[0];
        F32s d = F32s(at(p.d, offset3(at3, p.d_nb.yzw), 4));
        for (uint c = i; c < p.columns; c += step) {
            d.v[c * p.d_nb.x] = (exp(a.v[c * p.a_nb.x] - most) / sum - t.v[c * p.t_nb.x]) * factor;
        }
        return;
    }
    const float shift = most + log(sum);
    float loss = 0.0;
    for (uint c = i; c < p.columns; c += step) { loss += (a.v[c * p.a_nb.x] - shift) * t.v[c * p.t_nb.x]; }
    loss = group_sum(loss);
    if (i == 0) { F32s(p.d).v[r] = loss * p.factor; }
}
