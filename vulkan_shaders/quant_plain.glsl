// F32, F16, BF16, F8_E4M3 as formats with blocks of one value.
#define BLOCK 1
#if FMT == FMT_F32
#define BYTES 4
#elif FMT == FMT_F8_E4M3
#define BYTES 1
#else
#define BYTES 2
#endif

float value(uint64_t base, uint i) {
#if FMT == FMT_F32
    return F32s(base).v[i];
#elif FMT == FMT_F16
    return float(F16s(base).v[i]);
#elif FMT == FMT_F8_E4M3
    return f8_to_f32(uint(U8s(base).v[i]));
#else
    return bf16_to_f32(uint(U16s(base).v[i]));
#endif
}

#if FMT != FMT_F32
const uint PER_WORD = 4 / BYTES;

// Value l of a word.
float of_word(uint word, uint l) {
#if FMT == FMT_F16
    return unpackHalf2x16(word)[l];
#elif FMT == FMT_F8_E4M3
    return f8_to_f32((word >> (8 * l)) & 255u);
#else
    return uintBitsToFloat(l == 0 ? word << 16 : word & 0xffff0000u);
#endif
}

#define HAS_DEQUANT64
void dequant64(uint64_t base, uint i, out float y[64]) {
    [[unroll]] for (uint j = 0; j < 64 / PER_WORD; ++j) {
        const uint word = U32s(base).v[64 / PER_WORD * i + j];
        [[unroll]] for (uint l = 0; l < PER_WORD; ++l) { y[PER_WORD * j + l] = of_word(word, l); }
    }
}
#endif

void dequant8(uint64_t base, uint i, out float y[8]) {
    // One address for the eight values: an index with 32 bits may wrap, so drivers do not combine loads by indices.
    const uint64_t first = at(base, i, 8 * BYTES);
#if defined(ALIGNED4) && FMT != FMT_F32
    // Rows are aligned to four bytes.
    [[unroll]] for (uint j = 0; j < 8 / PER_WORD; ++j) {
        const uint word = U32s(first).v[j];
        [[unroll]] for (uint l = 0; l < PER_WORD; ++l) { y[PER_WORD * j + l] = of_word(word, l); }
    }
#else
    [[unroll]] for (uint j = 0; j < 8; ++j) { y[j] = value(first, j); }
#endif
}
