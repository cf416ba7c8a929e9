// Q4_0: f16 scale, then 16 bytes; the low 4 bits are codes 0 to 15, the high 4 bits 16 to 31. A value is (code - 8) *
// scale.
#define BLOCK 32
#define BYTES 18
#define HAS_DEQUANT32

float scale_of(uint64_t block) { return float(F16s(block).v[0]); }

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 4) * BYTES;
    const float d = scale_of(block);
    const uint shift = (i & 2u) * 2u;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const uint q = uint(U16s(block).v[1 + (i & 1u) * 4 + j]) >> shift;
        y[2 * j] = d * (float(q & 15u) - 8.0);
        y[2 * j + 1] = d * (float((q >> 8) & 15u) - 8.0);
    }
}

void dequant32(uint64_t base, uint i, out float y[32]) {
    const uint64_t block = base + uint64_t(i) * BYTES;
    const float d = scale_of(block);
    [[unroll]] for (uint j = 0; j < 8; ++j) {
        const uint q = uint(U16s(block).v[1 + j]);
        y[2 * j] = d * (float(q & 15u) - 8.0);
        y[2 * j + 16] = d * (float((q >> 4) & 15u) - 8.0);
        y[2 * j + 1] = d * (float((q >> 8) & 15u) - 8.0);
        y[2 * j + 17] = d * (float(q >> 12) - 8.0);
    }
}

#define HAS_DEQUANT64
void dequant64(uint64_t base, uint i, out float y[64]) {
    uint v[9];
    [[unroll]] for (uint j = 0; j < 9; ++j) { v[j] = U32s(base + uint64_t(i) * (2 * BYTES)).v[j]; }
    const float d[2] = { unpackHalf2x16(v[0]).x, unpackHalf2x16(v[4]).y };
    [[unroll]] for (uint j = 0; j < 8; ++j) {
        const uint q = j < 4 ? (v[j] >> 16) | (v[j + 1] << 16) : v[j + 1];
        const uint first = j / 4 * 32 + j % 4 * 4;
        [[unroll]] for (uint l = 0; l < 4; ++l) {
            y[first + l] = d[j / 4] * (float((q >> (8 * l)) & 15u) - 8.0);
            y[first + l + 16] = d[j / 4] * (float((q >> (8 * l + 4)) & 15u) - 8.0);
        }
    }
}

#ifdef VALUES
// Value i of a block.
float value(uint64_t block, uint i) {
    const uint q = uint(U16s(block).v[1 + (i & 15u) / 2]) >> ((i & 1u) * 8 + (i & 16u) / 4);
    return scale_of(block) * (float(q & 15u) - 8.0);
}
#endif
