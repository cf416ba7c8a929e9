// Q1_0: f16 scale, then 128 sign bits. 1 is positive.
#define BLOCK 128
#define BYTES 18

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 16) * BYTES;
    const float d = float(F16s(block).v[0]);
    const uint bits = uint(U16s(block).v[1 + (i & 15u) / 2]) >> ((i & 1u) * 8);
    [[unroll]] for (uint j = 0; j < 8; ++j) { y[j] = (bits >> j & 1u) != 0 ? d : -d; }
}
