// Block formats. One macro, FMT, says which: FMT_Q4_0 and so on. For each there are
//   BLOCK    values in a block
//   BYTES    bytes of a block
//   dequant8(base, i, y): values 8*i to 8*i+7 of an array of blocks at `base`, i counted over the whole row
// and, where it pays, dequant32 (values 32*i ...), from which dequant8 is not derived, and dequant64 (values 64*i ...; HAS_DEQUANT64), which
// reads whole words: rows must begin at multiples of 4 bytes. LONG: decoding is so much code that a shader should contain it once only.
// Plain formats are there too, so that what reads rows needs no cases.

// The manifest lists the formats. Each has a file of its own, quant_NAME.glsl, so that several people can work on them; make shaders
// includes that of FMT here.
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
