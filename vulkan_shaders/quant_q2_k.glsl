// Q2_K: 16 bytes of 4-bit scales and offsets for 16 values each; 64 bytes of 2-bit codes; f16 scales of the scales and
// of the offsets.
#define BLOCK 256
#define BYTES 84

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 32) * BYTES;
    const uint g = (i & 31u) / 2; // group of 16
    const vec2 dm = unpackHalf2x16(U32s(block).v[20]);
    const uint s = U32s(block).v[g / 4] >> (8 * (g & 3u));
    const float scale = dm.x * float(s & 15u);
    const float offset = dm.y * float((s >> 4) & 15u);
    const uint word = 4 + g / 8 * 8 + (g & 1u) * 4 + (i & 1u) * 2;
    const uint shift = (g & 7u) / 2 * 2;
    [[unroll]] for (uint j = 0; j < 2; ++j) {
        const uint q = U32s(block).v[word + j] >> shift;
        [[unroll]] for (uint k = 0; k < 4; ++k) { y[4 * j + k] = scale * float((q >> (8 * k)) & 3u) - offset; }
    }
}
