// Scale and offset of group `g` of 32 values. Both have six bits, packed into three words.
vec2 scale_and_offset(uint64_t block, uint g) {
    const vec2 dm = unpackHalf2x16(U32s(block).v[0]);
    const uint shift = 8 * (g & 3u);
    const uint a = U32s(block).v[1] >> shift;
    const uint b = U32s(block).v[2] >> shift;
    const uint c = U32s(block).v[3] >> shift;
    const uint scale = g < 4 ? a & 63u : (c & 15u) | ((a >> 6) & 3u) << 4;
    const uint offset = g < 4 ? b & 63u : ((c >> 4) & 15u) | ((b >> 6) & 3u) << 4;
    return dm * vec2(scale, offset);
}
