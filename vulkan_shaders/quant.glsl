// Block formats. One macro, FMT, says which: FMT_Q4_0 and so on. For each there are
//   BLOCK    values in a block
//   BYTES    bytes of a block
//   dequant8(base, i, y): values 8*i to 8*i+7 of an array of blocks at `base`, i counted over the whole row
// and, where it pays, dequant32 (values 32*i ...), from which dequant8 is not derived, and dequant64 (values 64*i ...; HAS_DEQUANT64), which
// reads whole words: rows must begin at multiples of 4 bytes. LONG: what decodes is so much code that it is better there once only.
// Plain formats are there too, so that what reads rows needs no cases.

#define FMT_F32 0
#define FMT_F16 1
#define FMT_Q4_0 2
#define FMT_Q4_1 3
#define FMT_Q5_0 6
#define FMT_Q5_1 7
#define FMT_Q8_0 8
#define FMT_Q2_K 10
#define FMT_Q3_K 11
#define FMT_Q4_K 12
#define FMT_Q5_K 13
#define FMT_Q6_K 14
#define FMT_IQ2_XXS 16
#define FMT_IQ2_XS 17
#define FMT_IQ3_XXS 18
#define FMT_IQ1_S 19
#define FMT_IQ4_NL 20
#define FMT_IQ3_S 21
#define FMT_IQ2_S 22
#define FMT_IQ4_XS 23
#define FMT_IQ1_M 29
#define FMT_BF16 30
#define FMT_TQ1_0 34
#define FMT_TQ2_0 35
#define FMT_MXFP4 39
#define FMT_NVFP4 40
#define FMT_Q1_0 41
#define FMT_Q2_0 42
#define FMT_F8_E4M3 43

// A format has a file of its own, quant_NAME.glsl, so that several people can work on them.
#if FMT == FMT_F32 || FMT == FMT_F16 || FMT == FMT_BF16 || FMT == FMT_F8_E4M3
#include "quant_plain.glsl"
#elif FMT == FMT_Q4_0
#include "quant_q4_0.glsl"
#elif FMT == FMT_Q8_0
#include "quant_q8_0.glsl"
#elif FMT == FMT_Q4_1
#include "quant_q4_1.glsl"
#elif FMT == FMT_Q5_0
#include "quant_q5_0.glsl"
#elif FMT == FMT_Q5_1
#include "quant_q5_1.glsl"
#elif FMT == FMT_Q2_K
#include "quant_q2_k.glsl"
#elif FMT == FMT_Q3_K
#include "quant_q3_k.glsl"
#elif FMT == FMT_Q4_K
#include "quant_q4_k.glsl"
#elif FMT == FMT_Q5_K
#include "quant_q5_k.glsl"
#elif FMT == FMT_Q6_K
#include "quant_q6_k.glsl"
#elif FMT == FMT_IQ2_XXS
#include "quant_iq2_xxs.glsl"
#elif FMT == FMT_IQ2_XS
#include "quant_iq2_xs.glsl"
#elif FMT == FMT_IQ3_XXS
#include "quant_iq3_xxs.glsl"
#elif FMT == FMT_IQ1_S
#include "quant_iq1_s.glsl"
#elif FMT == FMT_IQ4_NL
#include "quant_iq4_nl.glsl"
#elif FMT == FMT_IQ3_S
#include "quant_iq3_s.glsl"
#elif FMT == FMT_IQ2_S
#include "quant_iq2_s.glsl"
#elif FMT == FMT_IQ4_XS
#include "quant_iq4_xs.glsl"
#elif FMT == FMT_IQ1_M
#include "quant_iq1_m.glsl"
#elif FMT == FMT_TQ1_0
#include "quant_tq1_0.glsl"
#elif FMT == FMT_TQ2_0
#include "quant_tq2_0.glsl"
#elif FMT == FMT_MXFP4
#include "quant_mxfp4.glsl"
#elif FMT == FMT_NVFP4
#include "quant_nvfp4.glsl"
#elif FMT == FMT_Q1_0
#include "quant_q1_0.glsl"
#elif FMT == FMT_Q2_0
#include "quant_q2_0.glsl"
#endif

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
