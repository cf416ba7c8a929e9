#version 460
// Converts rows of floats to blocks: a copy, or (IDS) into rows of d that are selected by indices. Rows with an index
// out of range are skipped. An invocation writes whole blocks. Rounding is the same as on the CPU: to nearest, or
// floor(x + 0.5).
#include "common.glsl"
#include "rows.glsl"
#include "quant.glsl"

layout(constant_id = 3) const uint A = 0;
layout(constant_id = 4) const bool IDS = false;
layout(constant_id = 5) const uint INDEX = 26;

#include "rows_by_index.glsl"
#include "divide.glsl"

// x * s, rounded to nearest, ties to even. Without fused operations, so that ties are the same as on the CPU.
float nearest(float x, float s) {
    precise const float t = x * s;
    return roundEven(t);
}

uint half_bits(float x) { return packHalf2x16(vec2(x, 0.0)); }

void put16(uint64_t block, uint i, uint x) { U16s(block).v[i] = uint16_t(x); }

// The value with the largest magnitude. The first one if there are several. NaN is ignored, as on the CPU.
float extreme(float x[32]) {
    float most = 0.0, value = 0.0;
    for (uint j = 0; j < 32; ++j) {
        if (!is_nan(x[j]) && abs(x[j]) > most) { most = abs(x[j]); value = x[j]; }
    }
    return value;
}

void encode(uint64_t block, float x[32]) {
#if FMT == FMT_Q8_0
    // By bits, of which those of NaN are the greatest. A scale that is not finite makes the values NaN.
    uint size = 0;
    for (uint j = 0; j < 32; ++j) { size = max(size, floatBitsToUint(x[j]) & 0x7fffffffu); }
    if (size >= 0x7f800000u) {
        put16(block, 0, size > 0x7f800000u ? 0x7e00 : 0x7c00);
        for (uint j = 0; j < 16; ++j) { put16(block, 1 + j, 0); }
        return;
    }
    const float most = uintBitsToFloat(size);
    const float d = divide(most, 127.0);
    const float factor = most != 0.0 ? divide(127.0, most) : 0.0;
    put16(block, 0, half_bits(d));
    for (uint j = 0; j < 16; ++j) {
        const int low = int(nearest(x[2 * j], factor)), high = int(nearest(x[2 * j + 1], factor));
        put16(block, 1 + j, uint(low & 255) | uint(high & 255) << 8);
    }
#elif FMT == FMT_IQ4_NL
    const float d = divide(extreme(x), CURVE[0]);
    const float inverse = d != 0.0 ? divide(1.0, d) : 0.0;
    float qx = 0.0, q2 = 0.0;
    uint level[32];
    for (uint j = 0; j < 32; ++j) {
        const float t = x[j] * inverse;
        // The levels around t, without a loop. A loop would keep the compiler from unrolling the outer one, and the
        // arrays would be in scratch memory.
        uint best = 0;
        float below = CURVE[0], above = CURVE[1];
        [[unroll]] for (uint i = 1; i < 15; ++i) {
            if (t > CURVE[i]) { best = i; below = CURVE[i]; above = CURVE[i + 1]; }
        }
        const bool up = t - below >= above - t;
        level[j] = up ? best + 1 : best;
        const float value = up ? above : below;
        const float w = x[j] * x[j];
        qx += w * value * x[j];
        q2 += w * value * value;
    }
    put16(block, 0, half_bits(q2 > 0.0 ? divide(qx, q2) : 0.0));
    for (uint j = 0; j < 8; ++j) {
        put16(block, 1 + j, level[2 * j] | level[2 * j + 16] << 4 | level[2 * j + 1] << 8 | level[2 * j + 17] << 12);
    }
#else
#if FMT == FMT_Q4_0 || FMT == FMT_Q4_1
    const float top = 15.0;
#else
    const float top = 31.0;
#endif
#if FMT == FMT_Q4_0 || FMT == FMT_Q5_0
    const float d = extreme(x) * -(2.0 / (top + 1.0)); // a power of two
    const float offset = (top + 1.0) / 2.0 + 0.5;
    const float low = 0.0;
#else
    // NaN is ignored, as on the CPU.
    float low = -LOWEST, high = LOWEST;
    for (uint j = 0; j < 32; ++j) {
        if (!is_nan(x[j])) { low = min(low, x[j]); high = max(high, x[j]); }
    }
    const float d = divide(high - low, top);
    const float offset = 0.5;
#endif
    const bool infinite = (floatBitsToUint(d) & 0x7fffffffu) >= 0x7f800000u;
    const float inverse = d != 0.0 && !infinite ? divide(1.0, d) : 0.0;
    uint q[32];
    for (uint j = 0; j < 32; ++j) {
        precise const float t = (x[j] - low) * inverse;
        precise const float u = t + offset;
        q[j] = is_nan(u) ? 0u : uint(clamp(floor(u), 0.0, top));
    }
    uint at = 1;
    put16(block, 0, half_bits(d));
#if FMT == FMT_Q4_1 || FMT == FMT_Q5_1
    put16(block, at++, half_bits(low));
#endif
#if FMT == FMT_Q5_0 || FMT == FMT_Q5_1
    uint fifth = 0;
    for (uint j = 0; j < 32; ++j) { fifth |= (q[j] >> 4) << j; }
    put16(block, at++, fifth & 0xffffu);
    put16(block, at++, fifth >> 16);
#endif
    for (uint j = 0; j < 8; ++j) {
        const uint a = (q[2 * j] & 15u) | (q[2 * j + 16] & 15u) << 4;
        const uint b = (q[2 * j + 1] & 15u) | (q[2 * j + 17] & 15u) << 4;
        put16(block, at + j, a | b << 8);
    }
#endif
}

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    uint64_t row = uint64_t(i.x);
    if (IDS) {
        const uint64_t ids = at(p.ids, offset3(uvec3(i.x, i.yz % p.ids_ne), p.ids_nb), INDEX == I64 ? 8 : 4);
        int64_t id;
        if (INDEX == I64) { id = I64s(ids).v[0]; } else { id = int64_t(I32s(ids).v[0]); }
        if (id < 0 || id >= int64_t(p.d_ne1)) { return; }
        row = uint64_t(id);
    }
    const uint64_t a = at(p.a, offset3(i, p.a_nb.yzw), type_size(A));
    const uint64_t d = at(p.d, row * p.d_nb.x + uint64_t(i.y) * p.d_nb.y + uint64_t(i.z) * p.d_nb.z, BYTES);
    for (uint c = first_column(); c < p.ne.x / 32; c += column_step()) {
        float x[32];
        for (uint j = 0; j < 32; ++j) { x[j] = load(A, a, (32 * c + j) * p.a_nb.x); }
        encode(d + uint64_t(c) * BYTES, x);
    }
}
