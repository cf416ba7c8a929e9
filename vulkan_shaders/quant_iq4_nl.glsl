// IQ4_NL: f16 scale, then 16 bytes with the indices of levels; the low 4 bits are values 0 to 15, the high 4 bits 16 to
// 31.
#define BLOCK 32
#define BYTES 18
#include "quant_curve.glsl"

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 4) * BYTES;
    const float d = float(F16s(block).v[0]);
    const uint shift = (i & 2u) * 2u;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const uint q = uint(U16s(block).v[1 + (i & 1u) * 4 + j]) >> shift;
        y[2 * j] = d * CURVE[q & 15u];
        y[2 * j + 1] = d * CURVE[(q >> 8) & 15u];
    }
}
