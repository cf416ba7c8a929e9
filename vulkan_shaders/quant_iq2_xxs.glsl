// IQ2_XXS: f16 scale; for each 32 values four 8-bit grid indices, then a word with 28 sign bits and a scale in the top
// four bits.
#define BLOCK 256
#define BYTES 66
#include "quant_grid.glsl"

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 32) * BYTES;
    const uint g = (i & 31u) / 4;
    const uint k = i & 3u;
    const uint index = (uint(U16s(block).v[1 + g * 4 + k / 2]) >> (8 * (k & 1u))) & 255u;
    const uint word = uint(U16s(block).v[3 + g * 4]) | uint(U16s(block).v[4 + g * 4]) << 16;
    const float scale = float(F16s(block).v[0]) * (0.5 + float(word >> 28)) * 0.25;
    eight_of_iq2(index, even_signs(word >> (7 * k)), scale, y);
}
