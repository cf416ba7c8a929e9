#version 460
// Attention in one pass over keys and values (see flash_attn.comp), for GPUs: a workgroup computes R queries with a
// part of the keys, in tiles of KEYS. Neighbouring invocations share the columns of a key for the scores, and the keys
// of a column for the sums of values, so that they read what is side by side. A query's result has the same bits in
// every workgroup, whatever the other queries are.
#include "common.glsl"
#define ALIGNED4
#include "quant.glsl"
#define REDUCE R
#include "reduce.glsl"
#include "attention/attention.glsl"

const uint KEYS = 64;
// Invocations for each key: each has every LANES-th eight of the columns.
const uint LANES = 2;
const uint T = KEYS * LANES;
// Invocations for each key's values, and keys at once.
const uint EIGHTS = DV / 8;
const uint AT_ONCE = T / EIGHTS;
// What an invocation reads before it waits for any of it: it takes registers.
layout(constant_id = 9) const uint AHEAD = 2;

shared vec4 queries[R * D / 4];
shared float weights[R * KEYS];
shared float room[8 * T]; // R is at most 8

void main() {
    const uint t = gl_LocalInvocationID.x;
    const Keys keys = my_keys();
    const uint64_t k = at(p.k, offset3(uvec3(0, keys.head, keys.batch), p.k_nb), BYTES);
    const uint64_t v = at(p.v, offset3(uvec3(0, keys.head, keys.batch), p.v_nb), BYTES);
    const uint first_query = gl_WorkGroupID.x * R;
    for (uint i = t; i < R * D / 4; i += T) {
        F32s q = F32s(at(query_row(keys, query(keys, first_query + i / (D / 4))), i % (D / 4), 16));
        queries[i] = vec4(q.v[0], q.v[1], q.v[2], q.v[3]);
    }
    uint64_t mask[R];
    float bias[R];
    float most[R];
    float sum[R];
    [[unroll]] for (uint r = 0; r < R; ++r) {
        const Query q = query(keys, first_query + r);
        mask[r] = MASK ? mask_row(keys, q) : 0;
        bias[r] = slope(q.head);
        most[r] = LOWEST;
        sum[r] = 0.0;
    }
    float acc[R * 8];
    [[unroll]] for (uint i = 0; i < R * 8; ++i) { acc[i] = 0.0; }
    const uint lane = t % LANES;
    const uint eighth = t % EIGHTS;
    const uint turn = t / EIGHTS;
    barrier(); // the queries are there
    for (uint first = keys.begin; first < keys.end; first += KEYS) {
        const uint key = first + t / LANES;
        float position[R]; // what the mask adds
        bool masked[R];
        bool wanted = false;
        [[unroll]] for (uint r = 0; r < R; ++r) {
            position[r] = 0.0;
            masked[r] = key >= keys.end;
            if (MASK && !masked[r]) {
                const float m = float(F16s(mask[r]).v[key]);
                masked[r] = is_minus_infinity(m);
                position[r] = bias[r] * m;
            }
            wanted = wanted || !masked[r];
        }
        float score[R];
        [[unroll]] for (uint r = 0; r < R; ++r) { score[r] = 0.0; }
        if (wanted) {
            const uint64_t row = at(k, uint64_t(key) * p.k_nb.x, BYTES);
            for (uint c0 = lane; c0 < D / 8; c0 += LANES * AHEAD) {
                float x[AHEAD][8];
                [[unroll]] for (uint a = 0; a < AHEAD; ++a) { read8(row, min(c0 + a * LANES, D / 8 - 1), x[a]); }
                [[unroll]] for (uint a = 0; a < AHEAD; ++a) {
                    const uint c = c0 + a * LANES;
                    if (c < D / 8) {
                        [[unroll]] for (uint r = 0; r < R; ++r) {
                            const vec4 low = queries[r * (D / 4) + 2 * c];
                            const vec4 high = queries[r * (D / 4) + 2 * c + 1];
                            [[unroll]] for (uint j = 0; j < 4; ++j) { score[r] += x[a][j] * low[j]; }
                            [[unroll]] for (uint j = 0; j < 4; ++j) { score[r] += x[a][4 + j] * high[j]; }
                        }
                    }
                }
            }
        }
        [[unroll]] for (uint r = 0; r < R; ++r) { room[r * T + t] = score[r]; }
        barrier();
        float tops[R];
        [[unroll]] for (uint r = 0; r < R; ++r) {
            const uint from = r * T + t / LANES * LANES;
            const float s = capped((room[from] + room[from + 1]) * p.scale) + position[r];
            score[r] = masked[r] ? LOWEST : s; // whatever the key is
            tops[r] = score[r];
        }
        group_maxima(tops);
        bool none = true;
        float rescale[R];
        [[unroll]] for (uint r = 0; r < R; ++r) {
            none = none && tops[r] == LOWEST;
            const float now = max(most[r], tops[r]);
            const float weight = masked[r] ? 0.0 : exp(score[r] - now);
            rescale[r] = exp(most[r] - now);
            most[r] = now;
            sum[r] = sum[r] * rescale[r] + (lane == 0 ? weight : 0.0);
            if (lane == 0) { weights[r * KEYS + t / LANES] = weight; }
        }
        barrier();
        if (none) { continue; } // all invocations have the same maxima
        [[unroll]] for (uint r = 0; r < R; ++r) {
            [[unroll]] for (uint j = 0; j < 8; ++j) { acc[8 * r + j] *= rescale[r]; }
        }
        if (turn < AT_ONCE) {
            const uint n = min(KEYS, keys.end - first);
            for (uint j0 = turn; j0 < n; j0 += AT_ONCE * AHEAD) {
                float x[AHEAD][8];
                [[unroll]] for (uint a = 0; a < AHEAD; ++a) {
                    read8(at(v, uint64_t(first + min(j0 + a * AT_ONCE, n - 1)) * p.v_nb.x, BYTES), eighth, x[a]);
                }
                [[unroll]] for (uint a = 0; a < AHEAD; ++a) {
                    const uint j = j0 + a * AT_ONCE;
                    if (j < n) {
                        [[unroll]] for (uint r = 0; r < R; ++r) {
                            const float w = weights[r * KEYS + j];
                            [[unroll]] for (uint c = 0; c < 8; ++c) { acc[8 * r + c] += w * x[a][c]; }
                        }
                    }
                }
            }
        }
    }
    group_sums(sum);
    [[unroll]] for (uint r = 0; r < R; ++r) {
        barrier(); // the room has been read
        if (turn < AT_ONCE) {
            [[unroll]] for (uint c = 0; c < 8; ++c) { room[c * T + t] = acc[8 * r + c]; }
        }
        barrier();
        if (first_query + r < p.n_queries * GROUP) {
            const Query q = query(keys, first_query + r);
            const float factor = PARTIAL ? 1.0 : normal(q.head, most[r], sum[r]);
            F32s d = F32s(result_row(keys, q));
            for (uint c = t; c < DV; c += T) {
                float all = 0.0;
                for (uint i = 0; i < AT_ONCE; ++i) { all += room[c % 8 * T + i * EIGHTS + c / 8]; }
                d.v[c] = all * factor;
            }
            if (PARTIAL && t == 0) {
                d.v[DV] = most[r];
                d.v[DV + 1] = sum[r];
            }
        }
    }
}
