// F32, F16, BF16 as formats with blocks of one value.
#define BLOCK 1
#if FMT == FMT_F32
#define BYTES 4
#else
#define BYTES 2
#endif

float value(uint64_t base, uint i) {
#if FMT == FMT_F32
    return F32s(base).v[i];
#elif FMT == FMT_F16
    return float(F16s(base).v[i]);
#else
    return bf16_to_f32(uint(U16s(base).v[i]));
#endif
}

#if FMT != FMT_F32
// Two values of a word.
vec2 halves(uint word) {
#if FMT == FMT_F16
    return unpackHalf2x16(word);
#else
    return vec2(uintBitsToFloat(word << 16), uintBitsToFloat(word & 0xffff0000u));
#endif
}

#define HAS_DEQUANT64
void dequant64(uint64_t base, uint i, out float y[64]) {
    [[unroll]] for (uint j = 0; j < 32; ++j) {
        const vec2 h = halves(U32s(base).v[32 * i + j]);
        y[2 * j] = h.x;
        y[2 * j + 1] = h.y;
    }
}
#endif

void dequant8(uint64_t base, uint i, out float y[8]) {
#if defined(ALIGNED4) && FMT != FMT_F32
    // Rows start at multiples of four bytes.
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const vec2 h = halves(U32s(base).v[4 * i + j]);
        y[2 * j] = h.x;
        y[2 * j + 1] = h.y;
    }
#else
    [[unroll]] for (uint j = 0; j < 8; ++j) { y[j] = value(base, 8 * i + j); }
#endif
}
