// MXFP4: an 8-bit exponent, then 16 bytes of 4-bit floats; the low 4 bits are values 0 to 15, the high 4 bits 16 to 31. Blocks are not aligned.
#define BLOCK 32
#define BYTES 17
#include "quant_fp4.glsl"

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 4) * BYTES;
    const uint e = uint(U8s(block).v[0]);
    // 2^(e - 128): half of the scale, because levels are doubled.
    const float d = uintBitsToFloat(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    const uint shift = (i & 2u) * 2u;
    [[unroll]] for (uint j = 0; j < 8; ++j) {
        y[j] = d * fp4_doubled((uint(U8s(block).v[1 + (i & 1u) * 8 + j]) >> shift) & 15u);
    }
}
