// Q5_1: as Q4_1, with the fifth bits of the 32 codes after the offset.
#define BLOCK 32
#define BYTES 24

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 4) * BYTES;
    const vec2 dm = unpackHalf2x16(U32s(block).v[0]);
    const uint high = U32s(block).v[1] >> ((i & 3u) * 8);
    const uint shift = (i & 2u) * 2u;
    [[unroll]] for (uint j = 0; j < 2; ++j) {
        const uint q = U32s(block).v[2 + (i & 1u) * 2 + j] >> shift;
        [[unroll]] for (uint k = 0; k < 4; ++k) {
            y[4 * j + k] = dm.x * float(((q >> (8 * k)) & 15u) | ((high >> (4 * j + k)) & 1u) << 4) + dm.y;
        }
    }
}
