// IQ3_XXS: f16 scale; 64 grid indices for four values each; for each 32 values a word with 28 sign bits and a scale in
// the top four bits.
#define BLOCK 256
#define BYTES 98
#include "quant_grid.glsl"

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 32) * BYTES;
    const uint r = i & 31u;
    const uint pair = uint(U16s(block).v[1 + r]);
    const uint word = uint(U16s(block).v[33 + r / 4 * 2]) | uint(U16s(block).v[34 + r / 4 * 2]) << 16;
    const float scale = float(F16s(block).v[0]) * (0.5 + float(word >> 28)) * 0.5;
    const uint signs = even_signs(word >> (7 * (r & 3u)));
    const uint p = (point(pair & 255u) & 4095u) | (point(pair >> 8) & 4095u) << 12;
    [[unroll]] for (uint j = 0; j < 8; ++j) {
        const uint l = (p >> (3 * j)) & 7u;
        y[j] = signed_by(scale * float(4 + 8 * l + (l == 7 ? 2 : 0)), signs, j);
    }
}
