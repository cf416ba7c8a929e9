// Q6_K: 128 bytes with the low four bits of the codes; 64 bytes with the high two bits; 16 signed scales for 16 values
// each; f16 scale of the scales.
#define BLOCK 256
#define BYTES 210

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 32) * BYTES;
    const uint g = (i & 31u) / 2;
    const uint n = (g & 7u) / 2; // run of 32 within a half of the block
    const float scale = float(F16s(block).v[104]) * float(int(I8s(block).v[192 + g]));
    const uint at = (g & 1u) * 8 + (i & 1u) * 4; // in 16-bit words
    const uint low = g / 8 * 32 + (n & 1u) * 16 + at;
    const uint high = 64 + g / 8 * 16 + at;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const uint l = uint(U16s(block).v[low + j]) >> (n / 2 * 4);
        const uint h = uint(U16s(block).v[high + j]) >> (2 * n);
        y[2 * j] = scale * (float((l & 15u) | (h & 3u) << 4) - 32.0);
        y[2 * j + 1] = scale * (float(((l >> 8) & 15u) | ((h >> 8) & 3u) << 4) - 32.0);
    }
}

#ifdef VALUES
// Value i of a block.
float value(uint64_t block, uint i) {
    const uint n = (i / 32) & 3u;
    const uint at = (i & 31u) / 2; // in 16-bit words
    const uint odd = (i & 1u) * 8;
    const float scale = float(F16s(block).v[104]) * float(int(I8s(block).v[192 + i / 16]));
    const uint l = uint(U16s(block).v[i / 128 * 32 + (n & 1u) * 16 + at]) >> (n / 2 * 4 + odd);
    const uint h = uint(U16s(block).v[64 + i / 128 * 16 + at]) >> (2 * n + odd);
    return scale * (float((l & 15u) | (h & 3u) << 4) - 32.0);
}
#endif
