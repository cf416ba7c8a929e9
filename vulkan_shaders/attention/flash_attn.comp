#version 460
// Attention in one pass over keys and values, with the running maximum and sum of the softmax (arXiv:2205.14135). FMT is the format of keys
// and values. A workgroup computes R queries (heads that share keys are adjacent). For each tile of keys, each invocation computes the scores
// of one key, then accumulates chunks of eight columns of the values. LANES (see mul_mat_rows.comp): a workgroup is one subgroup of eight
// invocations, which broadcast the queries that they load, and the weights.
#include "common.glsl"
#define ALIGNED4
#include "quant.glsl"

#ifndef R
#define R 1
#endif
#define REDUCE R
#include "reduce.glsl"

layout(constant_id = 4) const uint D = 64;   // columns of q and k
layout(constant_id = 5) const uint DV = 64;  // columns of v
layout(constant_id = 6) const uint CHUNKS = 1; // chunks of eight columns of v for each invocation
layout(constant_id = 7) const uint GROUP = 1; // heads that share keys
layout(constant_id = 8) const uint HEADS = 1;
layout(constant_id = 9) const uint FLAGS = 0; // 1 mask, 2 sinks, 4 cap, 8 position biases

layout(push_constant, scalar) uniform Push {
    uint64_t q, k, v, mask, sinks, d;
    uint n_queries, n_keys;
    uvec3 q_nb, k_nb, v_nb, mask_nb; // dimensions 1 to 3
    uint mask_ne; // of dimensions 2 and 3, 16 bits each
    float scale, max_bias, cap;
} p;

#ifdef LANES
#extension GL_KHR_shader_subgroup_ballot : require
#else
shared float weights[R * 256];
#endif

const bool MASK = (FLAGS & 1u) != 0;
const bool SINKS = (FLAGS & 2u) != 0;
const bool CAP = (FLAGS & 4u) != 0;
const bool BIAS = (FLAGS & 8u) != 0;

float slope(uint head) {
    const uint whole = 1u << findMSB(HEADS);
    const float base = head < whole ? exp2(-p.max_bias / float(whole)) : exp2(-p.max_bias / 2.0 / float(whole));
    return pow(base, head < whole ? float(head + 1) : float(2 * (head - whole) + 1));
}

// Barrier for shared memory.
void meet() {
#ifdef LANES
    return;
#elif defined(SUBGROUP)
    if (ONE_SUBGROUP) {
        subgroupBarrier();
        return;
    }
#endif
    barrier();
}

void main() {
#ifdef LANES
    const uint t = gl_SubgroupInvocationID;
    const uint T = 8;
#else
    const uint t = gl_LocalInvocationID.x;
    const uint T = gl_WorkGroupSize.x;
#endif
    const uint kv_head = gl_WorkGroupID.y;
    const uint batch = gl_WorkGroupID.z;
    const uint n = p.n_queries * GROUP;
    uint position[R];
    uint head[R];
    uint64_t q[R];
    uint64_t mask[R];
    float bias[R];
    float most[R];
    float sum[R];
    [[unroll]] for (uint r = 0; r < R; ++r) {
        const uint i = min(gl_WorkGroupID.x * R + r, n - 1); // surplus queries repeat the last one
        position[r] = i / GROUP;
        head[r] = kv_head * GROUP + i % GROUP;
        q[r] = at(p.q, offset3(uvec3(position[r], head[r], batch), p.q_nb), 4);
        const uint m2 = p.mask_ne & 0xffffu;
        const uint m3 = p.mask_ne >> 16;
        mask[r] = MASK ? at(p.mask, offset3(uvec3(position[r], head[r] % m2, batch % m3), p.mask_nb), 2) : 0;
        bias[r] = BIAS ? slope(head[r]) : 1.0;
        most[r] = LOWEST;
        sum[r] = 0.0;
    }
    const uint64_t k = at(p.k, offset3(uvec3(0, kv_head, batch), p.k_nb), BYTES);
    const uint64_t v = at(p.v, offset3(uvec3(0, kv_head, batch), p.v_nb), BYTES);
    float acc[R][CHUNKS * 8];
    [[unroll]] for (uint r = 0; r < R; ++r) {
        [[unroll]] for (uint c = 0; c < CHUNKS * 8; ++c) { acc[r][c] = 0.0; }
    }
    for (uint first = 0; first < p.n_keys; first += T) {
        const uint key = min(first + t, p.n_keys - 1);
        const uint64_t row = at(k, uint64_t(key) * p.k_nb.x, BYTES);
        float score[R];
        [[unroll]] for (uint r = 0; r < R; ++r) { score[r] = 0.0; }
        for (uint c = 0; c < D / 8; ++c) {
            float x[8];
            dequant8(row, c, x);
            [[unroll]] for (uint r = 0; r < R; ++r) {
#ifdef LANES
                const float mine = F32s(at(q[r], c, 32)).v[t];
                [[unroll]] for (uint j = 0; j < 8; ++j) { score[r] += x[j] * subgroupBroadcast(mine, j); }
#else
                F32s y = F32s(at(q[r], c, 32));
                [[unroll]] for (uint j = 0; j < 8; ++j) { score[r] += x[j] * y.v[j]; }
#endif
            }
        }
        float rescale[R];
        float weight[R];
        float tops[R];
        bool masked[R];
        [[unroll]] for (uint r = 0; r < R; ++r) {
            float s = score[r] * p.scale;
            if (CAP) {
                const float e = exp(-2.0 * abs(s));
                s = p.cap * sign(s) * (1.0 - e) / (1.0 + e);
            }
            masked[r] = first + t >= p.n_keys;
            if (MASK) {
                const float m = float(F16s(mask[r]).v[key]);
                masked[r] = masked[r] || is_minus_infinity(m);
                s += bias[r] * m;
            }
            score[r] = masked[r] ? LOWEST : s; // whatever the key is
            tops[r] = score[r];
        }
        group_maxima(tops);
        [[unroll]] for (uint r = 0; r < R; ++r) {
            const float now = max(most[r], tops[r]);
            rescale[r] = exp(most[r] - now);
            weight[r] = masked[r] ? 0.0 : exp(score[r] - now);
            most[r] = now;
            sum[r] = sum[r] * rescale[r] + weight[r];
#ifndef LANES
            weights[r * T + t] = weight[r];
#endif
        }
        meet();
        [[unroll]] for (uint r = 0; r < R; ++r) {
            [[unroll]] for (uint c = 0; c < CHUNKS * 8; ++c) { acc[r][c] *= rescale[r]; }
        }
        const uint tile = min(T, p.n_keys - first);
        for (uint j = 0; j < tile; ++j) {
            const uint64_t value_row = at(v, uint64_t(first + j) * p.v_nb.x, BYTES);
            float w[R];
            [[unroll]] for (uint r = 0; r < R; ++r) {
#ifdef LANES
                w[r] = subgroupBroadcast(weight[r], j);
#else
                w[r] = weights[r * T + j];
#endif
            }
            [[unroll]] for (uint e = 0; e < CHUNKS; ++e) {
                float x[8];
                dequant8(value_row, min(t + e * T, DV / 8 - 1), x);
                [[unroll]] for (uint r = 0; r < R; ++r) {
                    [[unroll]] for (uint c = 0; c < 8; ++c) { acc[r][8 * e + c] += w[r] * x[c]; }
                }
            }
        }
        meet();
    }
    group_sums(sum);
    [[unroll]] for (uint r = 0; r < R; ++r) {
        float all = sum[r];
        float factor = 1.0;
        if (SINKS) {
            const float sink = F32s(p.sinks).v[head[r]];
            const bool none = is_minus_infinity(sink);
            const float now = none ? most[r] : max(most[r], sink);
            factor = exp(most[r] - now);
            all = all * factor + (none ? 0.0 : exp(sink - now));
        }
        factor = all == 0.0 ? 0.0 : factor / all;
        if (gl_WorkGroupID.x * R + r < n) {
            const uint64_t row = (uint64_t(batch) * p.n_queries + position[r]) * HEADS + head[r];
            F32s d = F32s(p.d + row * DV * 4);
            [[unroll]] for (uint e = 0; e < CHUNKS; ++e) {
                if (t + e * T < DV / 8) {
                    [[unroll]] for (uint c = 0; c < 8; ++c) { d.v[8 * (t + e * T) + c] = acc[r][8 * e + c] * factor; }
                }
            }
        }
    }
}
