#version 460
// Weighted sum of the streams of a token, times a factor. The weight of a stream is a number, or (GATED) the sigmoid of
// a number for each element.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const bool GATED = false;

layout(push_constant, scalar) uniform Push {
    uint64_t x, w, d;
    uint columns, n_rows, streams; // a row for each token
    uvec3 x_nb, w_nb;
    uvec2 d_nb;
    float scale;
} p;

void main() {
    const uint token = my_row();
    if (token >= p.n_rows) { return; }
    const uint64_t x = at(p.x, uint64_t(token) * p.x_nb.z, 4);
    const uint64_t w = at(p.w, uint64_t(token) * (GATED ? p.w_nb.z : p.w_nb.y), 4);
    F32s d = F32s(at(p.d, uint64_t(token) * p.d_nb.y, 4));
    for (uint c = first_column(); c < p.columns; c += column_step()) {
        float sum = 0.0;
        for (uint s = 0; s < p.streams; ++s) {
            const float value = F32s(at(x, uint64_t(s) * p.x_nb.y, 4)).v[c * p.x_nb.x];
            if (GATED) {
                const float gate = F32s(at(w, uint64_t(s) * p.w_nb.y, 4)).v[c * p.w_nb.x];
                sum += value / (1.0 + exp(-gate));
            } else {
                sum += value * F32s(w).v[s * p.w_nb.x];
            }
        }
        d.v[c * p.d_nb.x] = sum * p.scale;
    }
}
