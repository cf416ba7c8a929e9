#version 460
// Scores of keys for a token: the sum over heads of weight * max(q . k, 0), plus a mask. A workgroup of 64 invocations
// computes 64 keys for a token, 16 heads at a time, in steps of 32 columns through shared memory.
#include "common.glsl"

layout(constant_id = 3) const uint K = 0; // type of the keys

layout(push_constant, scalar) uniform Push {
    uint64_t q, k, w, mask, d;
    uint columns, heads, keys, tokens, n_groups; // a group for each token of each stream
    uvec3 q_nb;        // head, token, stream; rows are contiguous
    uvec2 k_nb;        // key, stream
    uvec3 w_nb;        // head, token, stream
    uvec3 mask_nb;     // key, token, stream
    uint mask_ne3;
    uvec3 d_nb;
} p;

const uint KEYS = 64;
const uint HEADS = 16;
const uint BK = 32;
// Padded to avoid bank conflicts.
shared float ks[KEYS * (BK + 1)];
shared float qs[HEADS * BK];

void main() {
    const uint group = group_yz();
    if (group >= p.n_groups) { return; } // uniform
    const uint t = gl_LocalInvocationID.x;
    const uint token = group % p.tokens;
    const uint stream = group / p.tokens;
    const uint key0 = gl_WorkGroupID.x * KEYS;
    const uint64_t q = at(p.q, uint64_t(token) * p.q_nb.y + uint64_t(stream) * p.q_nb.z, 4);
    const uint64_t k = at(p.k, uint64_t(stream) * p.k_nb.y, type_size(K));
    const uint64_t w = at(p.w, uint64_t(token) * p.w_nb.y + uint64_t(stream) * p.w_nb.z, 4);
    float score = 0.0;
    for (uint head0 = 0; head0 < p.heads; head0 += HEADS) {
        float sum[HEADS];
        [[unroll]] for (uint h = 0; h < HEADS; ++h) { sum[h] = 0.0; }
        for (uint c0 = 0; c0 < p.columns; c0 += BK) {
            barrier(); // the last step has been read
            for (uint e = t; e < KEYS * BK; e += KEYS) {
                const uint c = c0 + e % BK;
                const uint key = key0 + e / BK;
                float x = 0.0;
                if (c < p.columns && key < p.keys) { x = load(K, at(k, uint64_t(key) * p.k_nb.x, type_size(K)), c); }
                ks[e / BK * (BK + 1) + e % BK] = x;
            }
            for (uint e = t; e < HEADS * BK; e += KEYS) {
                const uint c = c0 + e % BK;
                const uint head = head0 + e / BK;
                float x = 0.0;
                if (c < p.columns && head < p.heads) { x = F32s(at(q, uint64_t(head) * p.q_nb.x, 4)).v[c]; }
                qs[e] = x;
            }
            barrier();
            for (uint c = 0; c < BK; ++c) {
                const float x = ks[t * (BK + 1) + c];
                [[unroll]] for (uint h = 0; h < HEADS; ++h) { sum[h] += x * qs[h * BK + c]; }
            }
        }
        [[unroll]] for (uint h = 0; h < HEADS; ++h) {
            if (head0 + h < p.heads) { score += (is_nan(sum[h]) ? sum[h] : max(sum[h], 0.0)) * F32s(at(w, uint64_t(head0 + h) * p.w_nb.x, 4)).v[0]; }
        }
    }
    const uint key = key0 + t;
    if (key < p.keys) {
        const uvec3 i = uvec3(key, token, stream % p.mask_ne3);
        const float mask = float(F16s(at(p.mask, offset3(i, p.mask_nb), 2)).v[0]);
        const uint bits = is_minus_infinity(mask) ? MINUS_INFINITY : floatBitsToUint(score + mask);
        U32s(at(p.d, offset3(uvec3(key, token, stream), p.d_nb), 4)).v[0] = bits;
    }
}
