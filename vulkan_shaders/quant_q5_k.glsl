// Q5_K: as Q4_K, with 32 bytes of fifth bits before the codes. Bit g of byte l belongs to value l of group g.
#define BLOCK 256
#define BYTES 176
#define HAS_DEQUANT32

uint codes(uint64_t block, uint g, uint j) {
    const uint low = (U32s(block).v[12 + g / 2 * 8 + j] >> ((g & 1u) * 4)) & 0x0f0f0f0fu;
    const uint high = (U32s(block).v[4 + j] >> g) & 0x01010101u;
    return low | high << 4;
}

#include "quant_groups_k.glsl"
