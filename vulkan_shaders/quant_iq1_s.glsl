// IQ1_S: f16 scale; low bytes of 32 grid indices; 16 bits for 32 values: three high bits of four indices, a 3-bit
// scale, sign of the shift.
#define BLOCK 256
#define BYTES 50
#include "quant_iq1.glsl"

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 32) * BYTES;
    const uint r = i & 31u;
    const uint h = uint(U16s(block).v[17 + r / 4]);
    const uint index = uint(U8s(block).v[2 + r]) | ((h >> (3 * (r & 3u))) & 7u) << 8;
    eight_of_iq1(index, float(F16s(block).v[0]) * float(2 * ((h >> 12) & 7u) + 1), (h & 0x8000u) != 0, y);
}
