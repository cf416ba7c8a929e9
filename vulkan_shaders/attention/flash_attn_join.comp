#version 460
// Joins the parts of attention (attention.glsl). A workgroup computes a row of d.
#include "common.glsl"

layout(constant_id = 3) const uint DV = 64;
layout(constant_id = 4) const uint HEADS = 1;
layout(constant_id = 5) const bool SINKS = false;

layout(push_constant, scalar) uniform Push {
    uint64_t from, sinks, d;
    uint n_rows, parts;
} p;

// There are at most so many parts as invocations.
const uint MOST = 128;
shared float maxima[MOST];
shared float factors[MOST];

void main() {
    const uint t = gl_LocalInvocationID.x;
    const uint T = gl_WorkGroupSize.x;
    const uint row = group_yz();
    if (row >= p.n_rows) { return; } // uniform
    const uint PART = DV + 8;
    const uint64_t from = at(p.from, uint64_t(row) * p.parts * PART, 4);
    float sum = 0.0;
    if (t < p.parts) {
        F32s part = F32s(at(from, uint64_t(t) * PART + DV, 4));
        maxima[t] = part.v[0];
        sum = part.v[1];
    }
    barrier();
    float most = LOWEST;
    for (uint i = 0; i < p.parts; ++i) { most = max(most, maxima[i]); }
    float sink = 0.0;
    if (SINKS) {
        const float s = F32s(p.sinks).v[row % HEADS];
        if (!is_minus_infinity(s)) {
            const float now = max(most, s);
            sink = exp(s - now);
            most = now;
        }
    }
    const float mine = t < p.parts ? exp(maxima[t] - most) : 0.0;
    barrier(); // the maxima have been read
    if (t < p.parts) {
        factors[t] = mine;
        maxima[t] = sum * mine;
    }
    barrier();
    float all = sink;
    for (uint i = 0; i < p.parts; ++i) { all += maxima[i]; }
    const float factor = all == 0.0 ? 0.0 : 1.0 / all;
    F32s d = F32s(at(p.d, uint64_t(row) * DV, 4));
    for (uint c = t; c < DV; c += T) {
        float x = 0.0;
        for (uint i0 = 0; i0 < p.parts; i0 += 4) {
            float read[4]; // before any of them is needed
            [[unroll]] for (uint a = 0; a < 4; ++a) {
                read[a] = F32s(at(from, uint64_t(min(i0 + a, p.parts - 1)) * PART, 4)).v[c];
            }
            [[unroll]] for (uint a = 0; a < 4; ++a) {
                if (i0 + a < p.parts) { x += read[a] * factors[i0 + a]; }
            }
        }
        d.v[c] = x * factor;
    }
}
