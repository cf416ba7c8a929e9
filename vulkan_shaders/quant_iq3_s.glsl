// IQ3_S: f16 scale; low bytes of 64 grid indices for four values each; 8 bytes with their ninth bits; 32 bytes of
// signs; 4 bytes of 4-bit scales for 32 values each.
#define BLOCK 256
#define BYTES 110
#include "quant_grid.glsl"

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 32) * BYTES;
    const uint r = i & 31u;
    const uint pair = uint(U16s(block).v[1 + r]);
    const uint ninth = uint(U8s(block).v[66 + r / 4]) >> ((r & 3u) * 2);
    const uint signs = uint(U8s(block).v[74 + r]);
    const uint code = (uint(U8s(block).v[106 + r / 8]) >> ((r & 7u) / 4 * 4)) & 15u;
    const float scale = float(F16s(block).v[0]) * float(1 + 2 * code);
    const uint a = (pair & 255u) | (ninth & 1u) << 8;
    const uint b = (pair >> 8) | (ninth >> 1 & 1u) << 8;
    const uint p = (point(a) & 4095u) | (point(b) & 4095u) << 12;
    [[unroll]] for (uint j = 0; j < 8; ++j) {
        y[j] = signed_by(scale * float(2 * ((p >> (3 * j)) & 7u) + 1), signs, j);
    }
}
