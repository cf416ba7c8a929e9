// Q4_K: f16 scales of the scales and of the offsets; 12 bytes of 6-bit scales and offsets for 32 values each; 128 bytes
// of codes. In each 32 bytes the low 4 bits are one group, the high 4 bits the next.
#define BLOCK 256
#define BYTES 144
#define HAS_DEQUANT32

uint codes(uint64_t block, uint g, uint j) {
    return (U32s(block).v[4 + g / 2 * 8 + j] >> ((g & 1u) * 4)) & 0x0f0f0f0fu;
}

#include "quant_groups_k.glsl"
