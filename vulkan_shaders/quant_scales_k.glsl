// Scale and offset of group `g` of 32 values, from the first 16 bytes of a block. Both have six bits, packed into three
// words.
vec2 scale_and_offset(uvec4 head, uint g) {
    const vec2 dm = unpackHalf2x16(head.x);
    const uint shift = 8 * (g & 3u);
    const uint a = head.y >> shift;
    const uint b = head.z >> shift;
    const uint c = head.w >> shift;
    const uint scale = g < 4 ? a & 63u : (c & 15u) | ((a >> 6) & 3u) << 4;
    const uint offset = g < 4 ? b & 63u : ((c >> 4) & 15u) | ((b >> 6) & 3u) << 4;
    return dm * vec2(scale, offset);
}

vec2 scale_and_offset(uint64_t block, uint g) {
    return scale_and_offset(uvec4(U32s(block).v[0], U32s(block).v[1], U32s(block).v[2], U32s(block).v[3]), g);
}
