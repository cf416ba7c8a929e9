// Q8_0: f16 scale, then 32 signed bytes.
#define BLOCK 32
#define BYTES 34

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 4) * BYTES;
    const float d = float(F16s(block).v[0]);
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const int q = int(uint(U16s(block).v[1 + (i & 3u) * 4 + j]));
        y[2 * j] = d * float(bitfieldExtract(q, 0, 8));
        y[2 * j + 1] = d * float(bitfieldExtract(q, 8, 8));
    }
}

#define HAS_DEQUANT64
void dequant64(uint64_t base, uint i, out float y[64]) {
    uint v[17];
    [[unroll]] for (uint j = 0; j < 17; ++j) { v[j] = U32s(base + uint64_t(i) * (2 * BYTES)).v[j]; }
    const float d[2] = { unpackHalf2x16(v[0]).x, unpackHalf2x16(v[8]).y };
    [[unroll]] for (uint j = 0; j < 16; ++j) {
        const int q = int(j < 8 ? (v[j] >> 16) | (v[j + 1] << 16) : v[j + 1]);
        [[unroll]] for (int l = 0; l < 4; ++l) { y[4 * j + l] = d[j / 8] * float(bitfieldExtract(q, 8 * l, 8)); }
    }
}

#ifdef VALUES
// Value i of a block.
float value(uint64_t block, uint i) {
    const int q = int(uint(U16s(block).v[1 + i / 2]));
    return float(F16s(block).v[0]) * float(bitfieldExtract(q, int(i & 1u) * 8, 8));
}
#endif
