// IQ4_XS: f16 scale; 16 bits with the high two bits, and 4 bytes with the low four bits, of a scale for each 32 values;
// 128 bytes with the indices of levels.
#define BLOCK 256
#define BYTES 136
#include "quant_curve.glsl"

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 32) * BYTES;
    const uint g = (i & 31u) / 4;
    const uint head = U32s(block).v[0];
    const uint low = U32s(block).v[1] >> (4 * g);
    const float d = unpackHalf2x16(head).x * (float((low & 15u) | ((head >> (16 + 2 * g)) & 3u) << 4) - 32.0);
    [[unroll]] for (uint j = 0; j < 2; ++j) {
        const uint q = U32s(block).v[2 + g * 4 + (i & 1u) * 2 + j] >> ((i & 2u) * 2);
        [[unroll]] for (uint k = 0; k < 4; ++k) { y[4 * j + k] = d * CURVE[(q >> (8 * k)) & 15u]; }
    }
}
