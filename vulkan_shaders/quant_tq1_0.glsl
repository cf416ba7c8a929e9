// TQ1_0: ternary digits, five in a byte (four in the last bytes) as a fixed-point fraction of 3^5, then the f16 scale.
// Values are in runs of bytes: 32 bytes for values 0 to 159, 16 bytes for 160 to 239, 4 bytes for the rest. A run has
// the first digits of all its bytes first.
#define BLOCK 256
#define BYTES 54

void dequant8(uint64_t base, uint i, out float y[8]) {
    const uint64_t block = base + uint64_t(i / 32) * BYTES;
    const float d = float(F16s(block).v[26]);
    const uint POWERS[5] = { 1, 3, 9, 27, 81 };
    [[unroll]] for (uint j = 0; j < 8; ++j) {
        const uint v = (i & 31u) * 8 + j;
        uint byte, digit;
        if (v < 160) { byte = v % 32; digit = v / 32; }
        else if (v < 240) { byte = 32 + (v - 160) % 16; digit = (v - 160) / 16; }
        else { byte = 48 + (v - 240) % 4; digit = (v - 240) / 4; }
        const uint q = (uint(U8s(block).v[byte]) * POWERS[digit]) & 255u;
        y[j] = d * (float((q * 3) >> 8) - 1.0);
    }
}
