// IQ2_XS: f16 scale; for each eight values, a 9-bit grid index and 7 sign bits; 8 bytes of 4-bit scales, one for 16
// values.
#define BLOCK 256
#define BYTES 74
#include "quant_grid.glsl"

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 32) * BYTES;
    const uint k = i & 31u;
    const uint q = uint(U16s(block).v[1 + k]);
    const uint code = (uint(U8s(block).v[66 + k / 4]) >> ((k & 3u) / 2 * 4)) & 15u;
    eight_of_iq2(q & 511u, even_signs(q >> 9), float(F16s(block).v[0]) * (0.5 + float(code)) * 0.25, y);
}
