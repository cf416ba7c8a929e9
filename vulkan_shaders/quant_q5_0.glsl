// Q5_0: as Q4_0, with the fifth bits of the 32 codes after the scale. A value is (code - 16) * scale.
#define BLOCK 32
#define BYTES 22

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 4) * BYTES;
    const float d = float(F16s(block).v[0]);
    const uint r = i & 3u;
    const uint high = (uint(U16s(block).v[1 + r / 2]) >> ((r & 1u) * 8)) & 255u;
    const uint shift = (i & 2u) * 2u;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const uint q = uint(U16s(block).v[3 + (i & 1u) * 4 + j]) >> shift;
        y[2 * j] = d * (float((q & 15u) | ((high >> (2 * j)) & 1u) << 4) - 16.0);
        y[2 * j + 1] = d * (float(((q >> 8) & 15u) | ((high >> (2 * j + 1)) & 1u) << 4) - 16.0);
    }
}
