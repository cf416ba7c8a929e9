// MXFP4: an 8-bit exponent, then 16 bytes of 4-bit floats; the low 4 bits are values 0 to 15, the high 4 bits 16 to 31.
// Blocks are not aligned.
#define BLOCK 32
#define BYTES 17
#include "quant_fp4.glsl"

// 2^(e - 128): half of the scale, because levels are doubled.
float scale_of(uint64_t block) {
    const uint e = uint(U8s(block).v[0]);
    return uintBitsToFloat(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 4) * BYTES;
    const float d = scale_of(block);
    const uint shift = (i & 2u) * 2u;
    [[unroll]] for (uint j = 0; j < 8; ++j) {
        y[j] = d * fp4_doubled((uint(U8s(block).v[1 + (i & 1u) * 8 + j]) >> shift) & 15u);
    }
}

#ifdef VALUES
// Value i of a block.
float value(uint64_t block, uint i) {
    const uint q = uint(U8s(block).v[1 + (i & 15u)]) >> ((i & 16u) / 4);
    return scale_of(block) * fp4_doubled(q & 15u);
}
#endif
