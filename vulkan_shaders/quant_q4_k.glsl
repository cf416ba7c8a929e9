// Q4_K: f16 scale of the scales and of the offsets, 12 bytes of 6-bit scales and offsets for 32 values each, 128 bytes; of 32 bytes
// the low halves are one group, the high halves the next.
#define BLOCK 256
#define BYTES 144
#define HAS_DEQUANT32
#include "quant_scales_k.glsl"

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 32) * BYTES;
    const uint g = (i & 31u) / 4;
    const vec2 s = scale_and_offset(block, g);
    [[unroll]] for (uint j = 0; j < 2; ++j) {
        const uint q = U32s(block).v[4 + g / 2 * 8 + (i & 3u) * 2 + j] >> ((g & 1u) * 4);
        [[unroll]] for (uint k = 0; k < 4; ++k) { y[4 * j + k] = s.x * float((q >> (8 * k)) & 15u) - s.y; }
    }
}

void dequant32(uint64_t base, uint i, out float y[32]) {
    const uint64_t block = base + uint64_t(i / 8) * BYTES;
    const uint g = i & 7u;
    const vec2 s = scale_and_offset(block, g);
    [[unroll]] for (uint j = 0; j < 8; ++j) {
        const uint q = U32s(block).v[4 + g / 2 * 8 + j] >> ((g & 1u) * 4);
        [[unroll]] for (uint k = 0; k < 4; ++k) { y[4 * j + k] = s.x * float((q >> (8 * k)) & 15u) - s.y; }
    }
}
