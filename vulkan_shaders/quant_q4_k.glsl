// Q4_K: f16 scale of the scales and of the offsets, 12 bytes of 6-bit scales and offsets for 32 values each, 128 bytes; of 32 bytes
// the low halves are one group, the high halves the next.
#define BLOCK 256
#define BYTES 144
#define HAS_DEQUANT32

uint codes(uint64_t block, uint g, uint j) {
    return (U32s(block).v[4 + g / 2 * 8 + j] >> ((g & 1u) * 4)) & 0x0f0f0f0fu;
}

#include "quant_groups_k.glsl"
