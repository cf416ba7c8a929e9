// Q2_0: f16 scale, then 64 2-bit codes. A value is (code - 1) * scale.
#define BLOCK 64
#define BYTES 18

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 8) * BYTES;
    const float d = float(F16s(block).v[0]);
    const uint bits = uint(U16s(block).v[1 + (i & 7u)]);
    [[unroll]] for (uint j = 0; j < 8; ++j) { y[j] = d * (float((bits >> (2 * j)) & 3u) - 1.0); }
}
