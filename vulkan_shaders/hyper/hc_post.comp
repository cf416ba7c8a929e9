#version 460
// For each stream of a token: the result x of a layer times a weight, plus the stream or (MIX) the streams mixed by a
// matrix.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const bool MIX = false;

layout(push_constant, scalar) uniform Push {
    uint64_t x, s, w, mix_, d;
    uint columns, n_rows, streams; // a row for each stream of each token
    uvec2 x_nb;
    uvec3 s_nb;
    uvec2 w_nb;
    uvec3 mix_nb;
    uvec3 d_nb;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uint token = r / p.streams;
    const uint stream = r - token * p.streams;
    F32s x = F32s(at(p.x, uint64_t(token) * p.x_nb.y, 4));
    const uint64_t s = at(p.s, uint64_t(token) * p.s_nb.z, 4);
    const float weight = F32s(at(p.w, uint64_t(token) * p.w_nb.y + uint64_t(stream) * p.w_nb.x, 4)).v[0];
    const uint64_t m = at(p.mix_, uint64_t(token) * p.mix_nb.z + uint64_t(stream) * p.mix_nb.x, 4);
    F32s d = F32s(at(p.d, uint64_t(token) * p.d_nb.z + uint64_t(stream) * p.d_nb.y, 4));
    for (uint c = first_column(); c < p.columns; c += column_step()) {
        float y = x.v[c * p.x_nb.x] * weight;
        if (MIX) {
            for (uint from = 0; from < p.streams; ++from) {
                const float factor = F32s(at(m, uint64_t(from) * p.mix_nb.y, 4)).v[0];
                y += factor * F32s(at(s, uint64_t(from) * p.s_nb.y, 4)).v[c * p.s_nb.x];
            }
        } else {
            y += F32s(at(s, uint64_t(stream) * p.s_nb.y, 4)).v[c * p.s_nb.x];
        }
        d.v[c * p.d_nb.x] = y;
    }
}
