// Number formats. The macro FMT selects one: FMT_Q4_0 and so on. Each format defines
//   BLOCK    values of a block
//   BYTES    bytes of a block
//   dequant8(base, i, y): values 8*i to 8*i+7 of the row of blocks at `base`
// Some formats also define a faster dequant32 (values 32*i ...; HAS_DEQUANT32) and dequant64 (values 64*i ...;
// HAS_DEQUANT64), which reads words, so that rows must be aligned to 4 bytes. Those in the list `tensors` define
// value(block, i), one value of a block, if the shader defines VALUES; GROUP_SCALES: another value(block, i, s) takes
// what scale_and_offset(head, i / 32) gives for the first 16 bytes of the block. LONG: decoding is so much code that a
// shader should contain it only once. Plain formats have blocks of one value, so that shaders need no special cases.

// The manifest lists the formats. Each format of blocks has a file, quant_NAME.glsl. `make shaders` includes that of
// FMT here.
#include "quant_FMT.glsl"

#ifndef HAS_DEQUANT32
// Values 32*i to 32*i+31 of a row.
void dequant32(uint64_t base, uint i, out float y[32]) {
    [[unroll]] for (uint k = 0; k < 4; ++k) {
        float t[8];
        dequant8(base, 4 * i + k, t);
        [[unroll]] for (uint j = 0; j < 8; ++j) { y[8 * k + j] = t[j]; }
    }
}
#endif
