#version 460
// The experts of tokens and their weights. A workgroup computes a token: values of all experts by a gating function,
// the K experts that are first in the descending order of what they are selected by (as argsort.comp orders it), and
// weights, which are the values of these.
#include "common.glsl"
#include "reduce.glsl"
#define BEST_ROOM 256
#include "order.glsl"

layout(constant_id = 4) const uint COLUMNS = 1024; // experts
layout(constant_id = 5) const uint K = 64;
layout(constant_id = 6) const uint GATING = 0; // 0: a has the values; 1: softmax; 2: sigmoid; 3: root of softplus
// What experts are selected by: 0 the values, 1 the values plus a bias for each expert, 2 another tensor.
layout(constant_id = 7) const uint SELECT = 0;
layout(constant_id = 8) const bool LATE = false; // softmax of the weights
layout(constant_id = 9) const uint NORM = 0; // weights are divided by 1: their sum; 2: the same, clamped
layout(constant_id = 10) const bool SCALED = false;

layout(push_constant, scalar) uniform Push {
    uint64_t a, by, ids, d;
    uint n_rows;
    uint a_nb, by_nb, ids_nb, d_nb; // of rows, which are contiguous
    float low, high;     // NORM
    float scale, offset; // SCALED
} p;

shared float values[COLUMNS];
shared uint keys[COLUMNS]; // larger ones are first
shared float weights[K];

// The softmax of n numbers, as soft_max.comp computes it. Each invocation reads and writes numbers of its own.
#define SOFTMAX(x, n)                                                          \
    {                                                                          \
        float most = LOWEST;                                                   \
        for (uint c = i; c < (n); c += T) { most = is_minus_infinity(x[c]) ? most : max(most, x[c]); } \
        most = group_max(most);                                                \
        float sum = 0.0;                                                       \
        for (uint c = i; c < (n); c += T) {                                    \
            const float e = is_minus_infinity(x[c]) ? 0.0 : exp(x[c] - most);  \
            x[c] = e;                                                          \
            sum += e;                                                          \
        }                                                                      \
        sum = group_sum(sum);                                                  \
        const float factor = sum == 0.0 ? uintBitsToFloat(0x7fc00000u) : 1.0 / sum; \
        for (uint c = i; c < (n); c += T) { x[c] *= factor; }                  \
    }

void main() {
    const uint r = group_xyz();
    if (r >= p.n_rows) { return; }
    const uint i = gl_LocalInvocationID.x;
    const uint T = gl_WorkGroupSize.x;
    F32s a = F32s(at(p.a, uint64_t(r) * p.a_nb, 4));
    F32s by = F32s(at(p.by, SELECT == 2 ? uint64_t(r) * p.by_nb : 0, 4));
    I32s ids = I32s(at(p.ids, uint64_t(r) * p.ids_nb, 4));
    F32s d = F32s(at(p.d, uint64_t(r) * p.d_nb, 4));
    for (uint c = i; c < COLUMNS; c += T) {
        float x = a.v[c];
        if (GATING == 2) { x = 1.0 / (1.0 + exp(-x)); }
        if (GATING == 3) { x = sqrt(x > 20.0 ? x : log(1.0 + exp(x))); }
        values[c] = x;
    }
    if (GATING == 1) { SOFTMAX(values, COLUMNS) }
    for (uint c = i; c < COLUMNS; c += T) {
        const float x = values[c];
        keys[c] = order_key(SELECT == 0 ? x : SELECT == 1 ? x + by.v[c] : by.v[c]);
    }
    // With one row, the results may have the memory of what is read: everything has been read now.
    barrier();
    uvec2 last = uvec2(NONE, 0);
    for (uint j = 0; j < K; ++j) {
        uvec2 best = uvec2(0, NONE);
        for (uint c = i; c < COLUMNS; c += T) {
            const uint x = keys[c];
            // The order is strict, so what is after the last one was not chosen yet.
            const bool left = j == 0 || x < last.x || (x == last.x && c > last.y);
            if (left && (best.y == NONE || x > best.x)) { best = uvec2(x, c); }
        }
        last = group_best(best);
        if (i == 0) {
            const uint c = min(last.y, COLUMNS - 1);
            ids.v[j] = int(c);
            weights[j] = values[c];
        }
    }
    barrier();
    if (LATE) { SOFTMAX(weights, K) }
    float sum = 1.0;
    if (NORM > 0) {
        sum = 0.0;
        for (uint j = i; j < K; j += T) { sum += weights[j]; }
        sum = group_sum(sum);
        if (NORM == 2 && !is_nan(sum)) {
            sum = sum < p.high ? sum : p.high;
            sum = sum > p.low ? sum : p.low;
        }
    }
    for (uint j = i; j < K; j += T) {
        float x = weights[j];
        if (NORM > 0) { x = x / sum; }
        if (SCALED) { x = x * p.scale + p.offset; }
        d.v[j] = x;
    }
}
