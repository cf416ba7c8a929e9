// For products that read eight values of a row of a and of a column of b at once, some of them a step ahead. The
// includer defines ALIGNED: rows and columns begin at multiples of 16 bytes.

// Eight values as they are in memory, so that nothing waits for them before they are written to shared memory: 16
// bytes, or a word for each value.
uint word(uint type, uint64_t base, uint i) {
    if (type == F16 || type == BF16) { return uint(U16s(base).v[i]); }
    if (type == F8) { return uint(U8s(base).v[i]); }
    return floatBitsToUint(F32s(base).v[i]);
}
bool is_half(uint type) { return type == F16 || type == BF16; }

void words8(uint type, uint64_t base, uint first, out uint w[8]) {
    const uint64_t from = at(base, first, type_size(type));
    if (ALIGNED && (is_half(type) || type == F32)) {
        const uvec4 low = floatBitsToUint(F32x4s(from).v[0]);
        [[unroll]] for (uint l = 0; l < 4; ++l) { w[l] = low[l]; }
        if (type == F32) {
            const uvec4 high = floatBitsToUint(F32x4s(from).v[1]);
            [[unroll]] for (uint l = 0; l < 4; ++l) { w[4 + l] = high[l]; }
        }
    } else {
        [[unroll]] for (uint l = 0; l < 8; ++l) { w[l] = word(type, from, l); }
    }
}

// Value l of the eight.
float of_words(uint type, uint w[8], uint l) {
    if (is_half(type)) {
        const uint bits = ALIGNED ? (w[l / 2] >> (16 * (l & 1u))) & 0xffffu : w[l];
        return type == F16 ? unpackHalf2x16(bits).x : bf16_to_f32(bits);
    }
    return type == F8 ? f8_to_f32(w[l]) : uintBitsToFloat(w[l]);
}

#if FMT == FMT_F16
const uint A = F16;
#elif FMT == FMT_BF16
const uint A = BF16;
#elif FMT == FMT_F8_E4M3
const uint A = F8;
#else
const uint A = F32; // blocks are decoded when they are read
#endif

// Values 8*i to 8*i+7 of an array.
void eight_of(uint type, uint64_t base, uint i, out float y[8]) {
    uint w[8];
    words8(type, base, 8 * i, w);
    [[unroll]] for (uint l = 0; l < 8; ++l) { y[l] = of_words(type, w, l); }
}

// The same of a row of a.
void eight_of_row(uint64_t a, uint i, out float y[8]) {
#if BLOCK == 1
    eight_of(A, a, i, y);
#else
    dequant8(a, i, y);
#endif
}

// Values `first` to `first` + 7 of a row of a and of a column of b. Those after the last are 0.
void fetch(uint64_t a, uint64_t b, bool brings_b, uint first, out uint y[8], out uint x[8]) {
    if (first + 8 <= p.k) {
#if BLOCK == 1
        words8(A, a, first, y);
#else
        float decoded[8];
        dequant8(a, first / 8, decoded);
        [[unroll]] for (uint l = 0; l < 8; ++l) { y[l] = floatBitsToUint(decoded[l]); }
#endif
        if (brings_b) { words8(B, b, first, x); }
        return;
    }
    [[unroll]] for (uint l = 0; l < 8; ++l) {
        y[l] = 0;
        x[l] = 0;
    }
#if BLOCK == 1
    [[unroll]] for (uint l = 0; l < 8; ++l) {
        if (first + l < p.k) {
            const uint to = ALIGNED && is_half(A) ? l / 2 : l;
            const uint shift = ALIGNED && is_half(A) ? 16 * (l & 1u) : 0;
            y[to] |= word(A, a, first + l) << shift;
            const uint to_b = ALIGNED && is_half(B) ? l / 2 : l;
            const uint shift_b = ALIGNED && is_half(B) ? 16 * (l & 1u) : 0;
            x[to_b] |= word(B, b, first + l) << shift_b;
        }
    }
#endif
}
