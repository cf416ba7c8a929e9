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
