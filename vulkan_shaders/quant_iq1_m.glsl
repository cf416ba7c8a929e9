// IQ1_M: low bytes of 32 grid indices; 16 bytes, each with three high bits and the sign of the shift for two indices;
// four 16-bit words, each with four 3-bit scales for 16 values. The top four bits of these words form the f16 scale of
// the block.
#define BLOCK 256
#define BYTES 56
#include "quant_iq1.glsl"

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 32) * BYTES;
    const uint r = i & 31u;
    const uint ab = U32s(block).v[12];
    const uint cd = U32s(block).v[13];
    const uint bits = (ab >> 12 & 0x000fu) | (ab >> 24 & 0x00f0u) | (cd >> 4 & 0x0f00u) | (cd >> 16 & 0xf000u);
    const uint g = r / 2;
    const uint word = g < 8 ? ab >> (g / 4 * 16) : cd >> ((g / 4 - 2) * 16);
    const float scale = unpackHalf2x16(bits).x * float(2 * ((word >> (3 * (g & 3u))) & 7u) + 1);
    const uint high = uint(U8s(block).v[32 + g]) >> ((r & 1u) * 4);
    eight_of_iq1(uint(U8s(block).v[r]) | (high & 7u) << 8, scale, (high & 8u) != 0, y);
}
