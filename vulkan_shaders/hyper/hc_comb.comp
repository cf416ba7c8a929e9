#version 460
// A doubly stochastic matrix of four streams for each token, by Sinkhorn iteration: columns, then rows and columns in
// turn, are divided by their sums. An invocation computes a token.
#include "common.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t mixes, scale, base, d;
    uint tokens;
    uvec2 mixes_nb;
    uint scale_nb, base_nb;
    uvec3 d_nb;
    float eps;
    uint iterations;
} p;

void main() {
    // They are the same for all tokens. All invocations read them: a software driver may read what is the same for all
    // even where no invocation is left.
    const float scale = F32s(p.scale).v[2 * p.scale_nb];
    vec4 base[4];
    [[unroll]] for (uint k = 0; k < 16; ++k) { base[k / 4][k % 4] = F32s(p.base).v[(8 + k) * p.base_nb]; }
    const uint token = group_xyz() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (token >= p.tokens) { return; }
    F32s mixes = F32s(at(p.mixes, uint64_t(token) * p.mixes_nb.y, 4));
    vec4 m[4];
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        [[unroll]] for (uint j = 0; j < 4; ++j) {
            m[i][j] = mixes.v[(8 + 4 * i + j) * p.mixes_nb.x] * scale + base[i][j];
        }
        const float most = max(max(m[i].x, m[i].y), max(m[i].z, m[i].w));
        m[i] = exp(m[i] - most);
        m[i] = m[i] * (1.0 / dot(m[i], vec4(1.0))) + p.eps;
    }
    for (uint k = 0; k < p.iterations; ++k) {
        if (k > 0) {
            [[unroll]] for (uint i = 0; i < 4; ++i) { m[i] *= 1.0 / (p.eps + dot(m[i], vec4(1.0))); }
        }
        const vec4 factor = 1.0 / (p.eps + (m[0] + m[1] + m[2] + m[3]));
        [[unroll]] for (uint i = 0; i < 4; ++i) { m[i] *= factor; }
    }
    const uint64_t d = at(p.d, uint64_t(token) * p.d_nb.z, 4);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        F32s row = F32s(at(d, uint64_t(i) * p.d_nb.y, 4));
        [[unroll]] for (uint j = 0; j < 4; ++j) { row.v[j * p.d_nb.x] = m[i][j]; }
    }
}
