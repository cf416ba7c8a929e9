#version 460
// Softmax of rows: exp(x * scale + slope * mask), divided by the sum. With a mask (F32 or F16), slopes of heads
// (ALiBi), and sinks. A workgroup computes a row. A row that is minus infinity everywhere, and has no sink, becomes
// NaN, as on the CPU.
#include "common.glsl"
#include "reduce.glsl"

layout(constant_id = 4) const uint MASK = 0xffffffff; // type, or none
layout(constant_id = 5) const bool SINKS = false;

layout(push_constant, scalar) uniform Push {
    uint64_t a, mask, sinks, d;
    uint columns, n_rows, ne1, ne2;
    uvec3 a_nb, mask_nb, d_nb; // strides of dimensions 1 to 3; rows are contiguous
    uvec2 mask_ne;             // of dimensions 2 and 3
    float scale, max_bias, m0, m1;
    uint n_head_log2; // largest power of two that is at most the number of heads
} p;

float slope(uint head) {
    if (p.max_bias <= 0.0) { return 1.0; }
    return head < p.n_head_log2 ? pow(p.m0, float(head + 1)) : pow(p.m1, float(2 * (head - p.n_head_log2) + 1));
}

void main() {
    const uint r = group_xyz();
    if (r >= p.n_rows) { return; }
    const uint i = gl_LocalInvocationID.x;
    const uint step = gl_WorkGroupSize.x;
    const uvec3 at3 = row_coords(r, p.ne1, p.ne2);
    F32s a = F32s(at(p.a, offset3(at3, p.a_nb), 4));
    F32s d = F32s(at(p.d, offset3(at3, p.d_nb), 4));
    const bool masked = MASK != 0xffffffff;
    const uint64_t mask = masked
        ? at(p.mask, offset3(uvec3(at3.x, at3.yz % p.mask_ne), p.mask_nb), type_size(MASK)) : 0;
    const float m = masked ? slope(at3.y) : 0.0;
    // Scores by their bits: excluded ones are minus infinity.
    U32s scores = U32s(at(p.d, offset3(at3, p.d_nb), 4));
    const float sink = SINKS ? F32s(p.sinks).v[at3.y] : LOWEST;
    const bool sunk = SINKS && !is_minus_infinity(sink);
    float most = sunk ? sink : LOWEST;
    for (uint c = i; c < p.columns; c += step) {
        float x = a.v[c];
        bool none = is_minus_infinity(x);
        x *= p.scale;
        if (masked) {
            const float y = load(MASK, mask, c);
            none = none || is_minus_infinity(y);
            x += m * y;
        }
        scores.v[c] = none ? MINUS_INFINITY : floatBitsToUint(x);
        most = none ? most : max(most, x);
    }
    most = group_max(most);
    float sum = 0.0;
    for (uint c = i; c < p.columns; c += step) {
        const uint bits = scores.v[c];
        const float e = bits == MINUS_INFINITY ? 0.0 : exp(uintBitsToFloat(bits) - most);
        d.v[c] = e;
        sum += e;
    }
    sum = group_sum(sum);
    if (sunk) { sum += exp(sink - most); }
    // The greatest score adds 1, unless there is none.
    const float factor = sum == 0.0 ? uintBitsToFloat(0x7fc00000u) : 1.0 / sum;
    for (uint c = i; c < p.columns; c += step) { d.v[c] *= factor; }
}
