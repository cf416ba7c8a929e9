// Q4_K and Q5_K: eight groups of 32 codes. A value is code * scale - offset of its group. The format defines
//   codes(block, g, j)   codes 4*j to 4*j+3 of group g, in the bytes of a word
#include "quant_scales_k.glsl"

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 32) * BYTES;
    const uint g = (i & 31u) / 4;
    const vec2 s = scale_and_offset(block, g);
    [[unroll]] for (uint j = 0; j < 2; ++j) {
        const uint q = codes(block, g, (i & 3u) * 2 + j);
        [[unroll]] for (uint k = 0; k < 4; ++k) { y[4 * j + k] = s.x * float((q >> (8 * k)) & 31u) - s.y; }
    }
}

void dequant32(uint64_t base, uint i, out float y[32]) {
    const uint64_t block = base + uint64_t(i / 8) * BYTES;
    const uint g = i & 7u;
    const vec2 s = scale_and_offset(block, g);
    [[unroll]] for (uint j = 0; j < 8; ++j) {
        const uint q = codes(block, g, j);
        [[unroll]] for (uint k = 0; k < 4; ++k) { y[4 * j + k] = s.x * float((q >> (8 * k)) & 31u) - s.y; }
    }
}

#ifdef VALUES
#define GROUP_SCALES
// Value i of a block, with scale and offset of its group.
float value(uint64_t block, uint i, vec2 s) {
    return s.x * float((codes(block, i / 32, (i & 31u) / 4) >> (8 * (i & 3u))) & 31u) - s.y;
}

float value(uint64_t block, uint i) { return value(block, i, scale_and_offset(block, i / 32)); }
#endif
