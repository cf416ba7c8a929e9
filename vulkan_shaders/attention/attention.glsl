// For attention: constants, queries, keys and masks. On GPUs, the keys are divided into parts, and a workgroup computes
// some queries with one part. Heads that share keys are adjacent queries. If there are several parts (PARTIAL),
// flash_attn_join joins their results.

layout(constant_id = 4) const uint D = 64;      // columns of q and k
layout(constant_id = 5) const uint DV = 64;     // columns of v
layout(constant_id = 6) const uint GROUP = 1;   // heads that share keys
layout(constant_id = 7) const uint HEADS = 1;
layout(constant_id = 8) const uint FLAGS = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t q, k, v, mask, sinks;
    uint64_t d; // PARTIAL: the room of the parts
#ifdef KINDS
    uint64_t kinds; // of the mask's tiles, from flash_attn_kinds
    uint n_queries, n_keys;
#else
    uint n_queries, n_keys;
    uint part;  // keys of a part
#endif
    uvec3 q_nb, k_nb, v_nb, mask_nb; // dimensions 1 to 3
    uint mask_ne; // of dimensions 2 and 3, 16 bits each
    float scale, max_bias, cap;
} p;

const bool MASK = (FLAGS & 1u) != 0;
const bool SINKS = (FLAGS & 2u) != 0;
const bool CAP = (FLAGS & 4u) != 0;
const bool BIAS = (FLAGS & 8u) != 0;
const bool PARTIAL = (FLAGS & 16u) != 0;
const bool ALIGNED = (FLAGS & 32u) != 0; // rows of keys and values begin at multiples of 16 bytes

// The result of a part of the keys for a query, in floats: DV columns, the maximum, the sum.
const uint PART = DV + 8;

// The part of this workgroup: its keys are `begin` to `end` - 1.
struct Keys {
    uint head, batch, parts, index, begin, end;
};

#ifndef KINDS
Keys my_keys() {
    Keys keys;
    keys.parts = (p.n_keys + p.part - 1) / p.part;
    keys.head = gl_WorkGroupID.y / keys.parts;
    keys.batch = gl_WorkGroupID.z;
    keys.index = gl_WorkGroupID.y % keys.parts;
    keys.begin = keys.index * p.part;
    keys.end = min(keys.begin + p.part, p.n_keys);
    return keys;
}
#endif

// A query of a head.
struct Query {
    uint position, head;
};

// Query i of those that share keys. Surplus queries repeat the last one.
Query query(Keys keys, uint i) {
    const uint known = min(i, p.n_queries * GROUP - 1);
    return Query(known / GROUP, keys.head * GROUP + known % GROUP);
}

uint64_t query_row(Keys keys, Query q) { return at(p.q, offset3(uvec3(q.position, q.head, keys.batch), p.q_nb), 4); }

uint64_t mask_row(Keys keys, Query q) {
    const uint m2 = p.mask_ne & 0xffffu;
    const uint m3 = p.mask_ne >> 16;
    return at(p.mask, offset3(uvec3(q.position, q.head % m2, keys.batch % m3), p.mask_nb), 2);
}

float slope(uint head) {
    if (!BIAS) { return 1.0; }
    const uint whole = 1u << findMSB(HEADS);
    const float base = head < whole ? exp2(-p.max_bias / float(whole)) : exp2(-p.max_bias / 2.0 / float(whole));
    return pow(base, head < whole ? float(head + 1) : float(2 * (head - whole) + 1));
}

float capped(float s) {
    if (!CAP) { return s; }
    const float e = exp(-2.0 * abs(s));
    return p.cap * sign(s) * (1.0 - e) / (1.0 + e);
}

// Values 8*i to 8*i+7 of a row of keys or values.
void read8(uint64_t row, uint i, out float y[8]) {
#if FMT == FMT_F16
    if (ALIGNED) {
        const uvec4 words = floatBitsToUint(F32x4s(at(row, i, 16)).v[0]);
        [[unroll]] for (uint j = 0; j < 4; ++j) {
            const vec2 two = unpackHalf2x16(words[j]);
            y[2 * j] = two.x;
            y[2 * j + 1] = two.y;
        }
        return;
    }
#endif
    dequant8(row, i, y);
}

// Factor of a query's result, of which the keys have the maximum `most` and the sum `sum`.
float normal(uint head, float most, float sum) {
    float factor = 1.0;
    if (SINKS) {
        const float sink = F32s(p.sinks).v[head];
        const bool none = is_minus_infinity(sink);
        const float now = none ? most : max(most, sink);
        factor = exp(most - now);
        sum = sum * factor + (none ? 0.0 : exp(sink - now));
    }
    return sum == 0.0 ? 0.0 : factor / sum;
}

// The result of a query, or of its part.
uint64_t result_row(Keys keys, Query q) {
    const uint64_t row = (uint64_t(keys.batch) * p.n_queries + q.position) * HEADS + q.head;
    return PARTIAL ? at(p.d, (row * keys.parts + keys.index) * PART, 4) : at(p.d, row * DV, 4);
}
