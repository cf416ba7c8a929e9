#version 460
// For each timestep, the cosines and then the sines of step * period^(-j / half). Other elements of the row are 0.
#include "common.glsl"
#include "rows.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uint columns, n_rows, half_;
    uint a_nb;
    uvec2 d_nb;
    float log_period;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const float step = F32s(p.a).v[r * p.a_nb];
    F32s d = F32s(at(p.d, uint64_t(r) * p.d_nb.y, 4));
    for (uint c = first_column(); c < p.columns; c += column_step()) {
        float y = 0.0;
        if (c < 2 * p.half_) {
            const float angle = step * exp(-p.log_period * float(c % p.half_) / float(p.half_));
            // Drivers need to be precise only from -pi to pi. 2 pi in two parts.
            precise const float turns = roundEven(angle * 0.15915494309);
            precise const float rest = (angle - turns * 6.28125) - turns * 0.00193530717958647;
            y = c < p.half_ ? cos(rest) : sin(rest);
        }
        d.v[c * p.d_nb.x] = y;
    }
}
