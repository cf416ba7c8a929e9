// For integer dot products: the integers of formats whose values are scale * integer + offset in groups of 16.
//   ints16(base, i, q, scale, offset): values 16*i to 16*i+15 of a row of blocks. A word has four signed bytes, the
//   first in the lowest bits.
// Include it after quant.glsl. The files of the formats describe the layout of blocks.
#extension GL_EXT_integer_dot_product : require

// The word at 16-bit word i.
uint word_at(uint64_t block, uint i) { return uint(U16s(block).v[i]) | uint(U16s(block).v[i + 1]) << 16; }

// Moves bits 0 to 3 of x to bit 4 of the four bytes.
uint fifth_bits(uint x) { return (x & 1u) << 4 | (x & 2u) << 11 | (x & 4u) << 18 | (x & 8u) << 25; }

#if FMT == FMT_IQ4_NL || FMT == FMT_IQ4_XS || FMT == FMT_MXFP4 || FMT == FMT_NVFP4
#if FMT == FMT_IQ4_NL || FMT == FMT_IQ4_XS
uint level(uint i) { return uint(int(CURVE[i])) & 255u; }
#else
uint level(uint i) { return uint(int(fp4_doubled(i))) & 255u; }
#endif
// Levels for the low 4 bits of each byte.
uint levels(uint x) {
    return level(x & 15u) | level((x >> 8) & 15u) << 8 | level((x >> 16) & 15u) << 16 | level((x >> 24) & 15u) << 24;
}
#endif

void ints16(uint64_t base, uint i, out int q[4], out float scale, out float offset) {
#if BLOCK == 32
    const uint64_t block = base + uint64_t(i / 2) * BYTES;
    const uint shift = (i & 1u) * 4;
#else
    const uint64_t block = base + uint64_t(i / (BLOCK / 16)) * BYTES;
    const uint g = i & (BLOCK / 16 - 1); // group of 16
#endif
#if FMT == FMT_Q4_0
    scale = float(F16s(block).v[0]);
    offset = -8.0 * scale;
    [[unroll]] for (uint j = 0; j < 4; ++j) { q[j] = int((word_at(block, 1 + 2 * j) >> shift) & 0x0f0f0f0fu); }
#elif FMT == FMT_Q4_1
    const vec2 dm = unpackHalf2x16(U32s(block).v[0]);
    scale = dm.x;
    offset = dm.y;
    [[unroll]] for (uint j = 0; j < 4; ++j) { q[j] = int((U32s(block).v[1 + j] >> shift) & 0x0f0f0f0fu); }
#elif FMT == FMT_Q5_0
    scale = float(F16s(block).v[0]);
    offset = -16.0 * scale;
    const uint high = uint(U16s(block).v[1 + (i & 1u)]);
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        q[j] = int(((word_at(block, 3 + 2 * j) >> shift) & 0x0f0f0f0fu) | fifth_bits(high >> (4 * j)));
    }
#elif FMT == FMT_Q5_1
    const vec2 dm = unpackHalf2x16(U32s(block).v[0]);
    scale = dm.x;
    offset = dm.y;
    const uint high = U32s(block).v[1] >> ((i & 1u) * 16);
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        q[j] = int(((U32s(block).v[2 + j] >> shift) & 0x0f0f0f0fu) | fifth_bits(high >> (4 * j)));
    }
#elif FMT == FMT_Q8_0
    scale = float(F16s(block).v[0]);
    offset = 0.0;
    [[unroll]] for (uint j = 0; j < 4; ++j) { q[j] = int(word_at(block, 1 + (i & 1u) * 8 + 2 * j)); }
#elif FMT == FMT_IQ4_NL
    scale = float(F16s(block).v[0]);
    offset = 0.0;
    [[unroll]] for (uint j = 0; j < 4; ++j) { q[j] = int(levels(word_at(block, 1 + 2 * j) >> shift)); }
#elif FMT == FMT_MXFP4
    const uint e = uint(U8s(block).v[0]);
    scale = uintBitsToFloat(e < 2 ? 0x00200000u << e : (e - 1) << 23); // half of the scale, because levels are doubled
    offset = 0.0;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        uint w = 0;
        [[unroll]] for (uint k = 0; k < 4; ++k) { w |= uint(U8s(block).v[1 + 4 * j + k]) << (8 * k); }
        q[j] = int(levels(w >> shift));
    }
#elif FMT == FMT_NVFP4
    scale = ue4m3_half((U32s(block).v[0] >> (8 * g)) & 255u);
    offset = 0.0;
    [[unroll]] for (uint j = 0; j < 4; ++j) { q[j] = int(levels(U32s(block).v[1 + g * 2 + (j & 1u)] >> (j / 2 * 4))); }
#elif FMT == FMT_Q2_K
    const vec2 dm = unpackHalf2x16(U32s(block).v[20]);
    const uint s = U32s(block).v[g / 4] >> (8 * (g & 3u));
    scale = dm.x * float(s & 15u);
    offset = -dm.y * float((s >> 4) & 15u);
    const uint word = 4 + g / 8 * 8 + (g & 1u) * 4;
    [[unroll]] for (uint j = 0; j < 4; ++j) { q[j] = int((U32s(block).v[word + j] >> ((g & 7u) / 2 * 2)) & 0x03030303u); }
#elif FMT == FMT_Q3_K
    const uint low = uint(U8s(block).v[96 + (g & 7u)]) >> (g / 8 * 4);
    const uint high = uint(U8s(block).v[104 + (g & 3u)]) >> (g / 4 * 2);
    scale = float(F16s(block).v[54]) * (float((low & 15u) | (high & 3u) << 4) - 32.0);
    offset = -4.0 * scale;
    const uint first = (g & 1u) * 8; // in 16-bit words
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const uint two = (word_at(block, 16 + g / 8 * 16 + first + 2 * j) >> ((g & 7u) / 2 * 2)) & 0x03030303u;
        const uint third = (word_at(block, first + 2 * j) >> (g / 2)) & 0x01010101u;
        q[j] = int(two | third << 2);
    }
#elif FMT == FMT_Q4_K
    const vec2 s = scale_and_offset(block, g / 2);
    scale = s.x;
    offset = -s.y;
    const uint word = 4 + g / 4 * 8 + (g & 1u) * 4;
    [[unroll]] for (uint j = 0; j < 4; ++j) { q[j] = int((U32s(block).v[word + j] >> ((g & 2u) * 2)) & 0x0f0f0f0fu); }
#elif FMT == FMT_Q5_K
    const vec2 s = scale_and_offset(block, g / 2);
    scale = s.x;
    offset = -s.y;
    const uint word = 12 + g / 4 * 8 + (g & 1u) * 4;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const uint fifth = (U32s(block).v[4 + (g & 1u) * 4 + j] >> (g / 2)) & 0x01010101u;
        q[j] = int(((U32s(block).v[word + j] >> ((g & 2u) * 2)) & 0x0f0f0f0fu) | fifth << 4);
    }
#elif FMT == FMT_Q6_K
    const uint n = (g & 7u) / 2; // run of 32 within a half of the block
    scale = float(F16s(block).v[104]) * float(int(I8s(block).v[192 + g]));
    offset = -32.0 * scale;
    const uint first = (g & 1u) * 8; // in 16-bit words
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const uint low = (word_at(block, g / 8 * 32 + (n & 1u) * 16 + first + 2 * j) >> (n / 2 * 4)) & 0x0f0f0f0fu;
        const uint high = (word_at(block, 64 + g / 8 * 16 + first + 2 * j) >> (2 * n)) & 0x03030303u;
        q[j] = int(low | high << 4);
    }
#elif FMT == FMT_IQ4_XS
    const uint head = U32s(block).v[0];
    const uint low = U32s(block).v[1] >> (4 * (g / 2));
    scale = unpackHalf2x16(head).x * (float((low & 15u) | ((head >> (16 + g / 2 * 2)) & 3u) << 4) - 32.0);
    offset = 0.0;
    [[unroll]] for (uint j = 0; j < 4; ++j) { q[j] = int(levels(U32s(block).v[2 + g / 2 * 4 + j] >> ((g & 1u) * 4))); }
#endif
}

// Scale of a block of `product_blocks`, and sum of the integers in its half h.
vec2 scale_and_sum(uint64_t block, uint h) {
    return vec2(F32s(block).v[0], float(bitfieldExtract(int(U32s(block).v[1]), int(16 * h), 16)));
}
