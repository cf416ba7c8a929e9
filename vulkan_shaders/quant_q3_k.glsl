// Q3_K: 32 bytes with the third bits of the codes; 64 bytes with the low two bits; 12 bytes of 6-bit scales for 16
// values each; f16 scale of the scales. A value is (code - 4) * scale.
#define BLOCK 256
#define BYTES 110

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 32) * BYTES;
    const uint g = (i & 31u) / 2;
    const uint low = uint(U8s(block).v[96 + (g & 7u)]) >> (g / 8 * 4);
    const uint high = uint(U8s(block).v[104 + (g & 3u)]) >> (g / 4 * 2);
    const float scale = float(F16s(block).v[54]) * (float((low & 15u) | (high & 3u) << 4) - 32.0);
    const uint at = (g & 1u) * 8 + (i & 1u) * 4; // in 16-bit words
    const uint shift = (g & 7u) / 2 * 2;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const uint q = uint(U16s(block).v[16 + g / 8 * 16 + at + j]) >> shift;
        const uint h = uint(U16s(block).v[at + j]) >> (g / 2);
        y[2 * j] = scale * (float(q & 3u) - ((h & 1u) != 0 ? 0.0 : 4.0));
        y[2 * j + 1] = scale * (float((q >> 8) & 3u) - ((h & 256u) != 0 ? 0.0 : 4.0));
    }
}
