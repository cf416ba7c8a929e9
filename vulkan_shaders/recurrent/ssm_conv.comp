#version 460
// Convolution of each channel over the tokens of a sequence: y[channel, token] = sum over i of x[token + i, channel] *
// w[i, channel]. Fused: adds a bias for each channel (BIAS); SiLU of the result (SILU).
#include "common.glsl"
#include "rows.glsl"
#include "functions.glsl"

layout(constant_id = 3) const bool BIAS = false;
layout(constant_id = 4) const bool SILU = false;

layout(push_constant, scalar) uniform Push {
    uint64_t x, w, bias, d;
    uint channels, tokens, n_rows, width; // a row for each token of each sequence
    uvec2 x_nb;  // channels, sequences; rows are contiguous
    uint w_nb;
    uvec2 d_nb;  // tokens, sequences
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uint sequence = r / p.tokens;
    const uint token = r - sequence * p.tokens;
    F32s d = F32s(at(p.d, uint64_t(token) * p.d_nb.x + uint64_t(sequence) * p.d_nb.y, 4));
    for (uint c = first_column(); c < p.channels; c += column_step()) {
        F32s x = F32s(at(p.x, uint64_t(c) * p.x_nb.x + uint64_t(sequence) * p.x_nb.y + token, 4));
        F32s w = F32s(at(p.w, uint64_t(c) * p.w_nb, 4));
        float sum = 0.0;
        for (uint i = 0; i < p.width; ++i) { sum += x.v[i] * w.v[i]; }
        if (BIAS) { sum += F32s(p.bias).v[c]; }
        d.v[c] = SILU ? silu(sum) : sum;
    }
}
