// NVFP4: four scales (8-bit floats with four exponent bits and three fraction bits) for 16 values each, then 32 bytes
// of 4-bit floats. In the 8 bytes of a group the low 4 bits are values 0 to 7, the high 4 bits 8 to 15.
#define BLOCK 64
#define BYTES 36
#include "quant_fp4.glsl"

// Half of an unsigned E4M3 number.
float ue4m3_half(uint x) {
    if (x == 0x7fu) { return 0.0; }
    const uint e = (x >> 3) & 15u;
    if (e == 0) { return float(x & 7u) * uintBitsToFloat(117u << 23); }
    return uintBitsToFloat((e + 119u) << 23 | (x & 7u) << 20);
}

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 8) * BYTES;
    const uint g = (i & 7u) / 2;
    const float d = ue4m3_half((U32s(block).v[0] >> (8 * g)) & 255u);
    [[unroll]] for (uint j = 0; j < 2; ++j) {
        const uint q = U32s(block).v[1 + g * 2 + j] >> ((i & 1u) * 4);
        [[unroll]] for (uint k = 0; k < 4; ++k) { y[4 * j + k] = d * fp4_doubled((q >> (8 * k)) & 15u); }
    }
}
