#version 460
// Gradients of attention, first step: a workgroup computes a query of a head. Recomputes its probabilities P (softmax
// of scale * q . k), and computes dS = P * (dP - P . dP) * scale, where dP = dy . v.
#include "common.glsl"
#include "reduce.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t q, k, v, dy;
    uint64_t p, s;          // rows of P and dS, of m floats each
    uint depth, n, m, heads, groups, n_rows; // queries, keys
    uint masked;            // whether a query sees only the keys up to its position; the queries are the last positions
    float scale;
    uvec3 q_nb, k_nb, v_nb; // dimensions 1 to 3; rows are contiguous, as those of dy
} p;

void main() {
    const uint r = group_xyz();
    if (r >= p.n_rows) { return; }
    const uint i = gl_LocalInvocationID.x;
    const uint step = gl_WorkGroupSize.x;
    const uvec3 at3 = row_coords(r, p.n, p.heads);
    const uint group = at3.y % p.groups;
    const uint64_t k = at(p.k, offset3(uvec3(0, group, at3.z), p.k_nb), 4);
    const uint64_t v = at(p.v, offset3(uvec3(0, group, at3.z), p.v_nb), 4);
    F32s q = F32s(at(p.q, offset3(at3, p.q_nb), 4));
    F32s dy = F32s(at(p.dy, uint64_t(r) * p.depth, 4));
    F32s prob = F32s(at(p.p, uint64_t(r) * p.m, 4));
    F32s grad = F32s(at(p.s, uint64_t(r) * p.m, 4));
    const uint seen = p.masked != 0 ? p.m - p.n + at3.x + 1 : p.m;
    float most = LOWEST;
    for (uint j = i; j < seen; j += step) {
        F32s key = F32s(at(k, uint64_t(j) * p.k_nb.x, 4));
        float x = 0.0;
        for (uint c = 0; c < p.depth; ++c) { x += q.v[c] * key.v[c]; }
        x *= p.scale;
        prob.v[j] = x; // each invocation reads what it wrote
        most = max(most, x);
    }
    most = group_max(most);
    float sum = 0.0;
    for (uint j = i; j < seen; j += step) {
        const float e = exp(prob.v[j] - most);
        prob.v[j] = e;
        sum += e;
    }
    sum = group_sum(sum);
    float along = 0.0;
    for (uint j = i; j < seen; j += step) {
        float x = 0.0;
        for (uint c = 0; c < p.depth; ++c) { x += dy.v[c] * F32s(at(v, uint64_t(c) * p.v_nb.x, 4)).v[j]; }
        const float y = prob.v[j] / sum;
        prob.v[j] = y;
        grad.v[j] = x;
        along += x * y;
    }
    along = group_sum(along);
    for (uint j = i; j < p.m; j += step) {
        grad.v[j] = j < seen ? (grad.v[j] - along) * prob.v[j] * p.scale : 0.0;
        if (j >= seen) { prob.v[j] = 0.0; }
    }
}
