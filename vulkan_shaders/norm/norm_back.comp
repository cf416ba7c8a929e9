#version 460
// Gradients of functions of rows, from the gradient dy of the result. RMS_NORM (OP 0): x is the argument. Softmax (1):
// x is the result. A workgroup computes a row.
#include "common.glsl"
#include "reduce.glsl"

layout(constant_id = 4) const uint OP = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t dy, x, d;
    uint columns, n_rows, ne1, ne2;
    uvec4 dy_nb, x_nb, d_nb;
    float param; // epsilon, or the scale of the softmax
} p;

void main() {
    const uint r = group_xyz();
    if (r >= p.n_rows) { return; }
    const uint i = gl_LocalInvocationID.x;
    const uint step = gl_WorkGroupSize.x;
    const uvec3 at3 = row_coords(r, p.ne1, p.ne2);
    F32s dy = F32s(at(p.dy, offset3(at3, p.dy_nb.yzw), 4));
    F32s x = F32s(at(p.x, offset3(at3, p.x_nb.yzw), 4));
    F32s d = F32s(at(p.d, offset3(at3, p.d_nb.yzw), 4));
    float squares = 0.0;
    float products = 0.0;
    for (uint c = i; c < p.columns; c += step) {
        const float v = x.v[c * p.x_nb.x];
        if (OP == 0) { squares += v * v; }
        products += v * dy.v[c * p.dy_nb.x];
    }
    products = group_sum(products);
    if (OP == 1) {
        for (uint c = i; c < p.columns; c += step) {
            d.v[c * p.d_nb.x] = (dy.v[c * p.dy_nb.x] - products) * x.v[c * p.x_nb.x] * p.param;
        }
        return;
    }
    squares = group_sum(squares);
    const float n = float(p.columns);
    const float factor = inversesqrt(squares / n + p.param);
    const float along = products / (squares + p.param * n);
    for (uint c = i; c < p.columns; c += step) {
        d.v[c * p.d_nb.x] = (dy.v[c * p.dy_nb.x] - x.v[c * p.x_nb.x] * along) * factor;
    }
}
