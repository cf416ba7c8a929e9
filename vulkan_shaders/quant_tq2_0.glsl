// TQ2_0: 64 bytes of 2-bit codes, then the f16 scale. In each 32 bytes, each pair of bits has 32 values. A value is
// (code - 1) * scale.
#define BLOCK 256
#define BYTES 66

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 32) * BYTES;
    const float d = float(F16s(block).v[32]);
    const uint r = i & 31u;
    const uint shift = (r & 15u) / 4 * 2;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const uint q = uint(U16s(block).v[r / 16 * 16 + (r & 3u) * 4 + j]) >> shift;
        y[2 * j] = d * (float(q & 3u) - 1.0);
        y[2 * j + 1] = d * (float((q >> 8) & 3u) - 1.0);
    }
}
