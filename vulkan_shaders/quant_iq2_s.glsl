// IQ2_S: f16 scale; low bytes of 32 grid indices; 32 bytes of signs; 8 bytes with the high two bits of the indices; 8
// bytes of 4-bit scales for 16 values each.
#define BLOCK 256
#define BYTES 82
#include "quant_grid.glsl"

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 32) * BYTES;
    const uint k = i & 31u;
    const uint high = (uint(U8s(block).v[66 + k / 4]) >> ((k & 3u) * 2)) & 3u;
    const uint code = (uint(U8s(block).v[74 + k / 4]) >> ((k & 3u) / 2 * 4)) & 15u;
    const float scale = float(F16s(block).v[0]) * (0.5 + float(code)) * 0.25;
    eight_of_iq2(uint(U8s(block).v[2 + k]) | high << 8, uint(U8s(block).v[34 + k]), scale, y);
}
