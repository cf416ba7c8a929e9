#version 460
// Attention in one pass over keys and values, with the running maximum and sum of the softmax (arXiv:2205.14135). FMT
// is the format of keys and values. A workgroup computes R queries (heads that share keys are adjacent). For each tile
// of keys, each invocation computes the scores of one key, then accumulates chunks of eight columns of the values.
// LANES (see mul_mat_rows.comp): a workgroup is one subgroup of eight invocations, which broadcast the queries that
// they load, and the weights.
#include "common.glsl"
#define ALIGNED4
#include "quant.glsl"

#ifndef R
#define R 1
#endif
#define REDUCE R
#include "reduce.glsl"

#include "attention/attention.glsl"

layout(constant_id = 9) const uint CHUNKS = 1; // chunks of eight columns of v for each invocation

#ifdef LANES
#extension GL_KHR_shader_subgroup_ballot : require
#else
shared float weights[R * 256];
#endif

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
    const Keys keys = my_keys();
    const uint first_query = gl_WorkGroupID.x * R;
    uint64_t q[R];
    uint64_t mask[R];
    float bias[R];
    float most[R];
    float sum[R];
    [[unroll]] for (uint r = 0; r < R; ++r) {
        const Query mine = query(keys, first_query + r);
        q[r] = query_row(keys, mine);
        mask[r] = MASK ? mask_row(keys, mine) : 0;
        bias[r] = slope(mine.head);
        most[r] = LOWEST;
        sum[r] = 0.0;
    }
    const uint64_t k = at(p.k, offset3(uvec3(0, keys.head, keys.batch), p.k_nb), BYTES);
    const uint64_t v = at(p.v, offset3(uvec3(0, keys.head, keys.batch), p.v_nb), BYTES);
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
            float s = capped(score[r] * p.scale);
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
        if (first_query + r < p.n_queries * GROUP) {
            const Query mine = query(keys, first_query + r);
            const float factor = normal(mine.head, most[r], sum[r]);
            F32s d = F32s(result_row(keys, mine));
            [[unroll]] for (uint e = 0; e < CHUNKS; ++e) {
                if (t + e * T < DV / 8) {
                    [[unroll]] for (uint c = 0; c < 8; ++c) { d.v[8 * (t + e * T) + c] = acc[r][8 * e + c] * factor; }
                }
            }
        }
    }
}
