// The type of the operands of cooperative matrices: BF16 if a has it, because F16 has a smaller range, otherwise F16.
// Include it before anything else.
#if FMT == FMT_BF16
#extension GL_EXT_bfloat16 : require
#define HALF bfloat16_t
#define HALF_TYPE BF16
#define two_halves(x, y) (f32_to_bf16(x) | f32_to_bf16(y) << 16)
#else
#define HALF float16_t
#define HALF_TYPE F16
#define two_halves(x, y) packFloat2x16(f16vec2(x, y))
#endif

// HALF_SUMS: CHUNK products in the order of k are added in F16, which takes half the time on some cards, and their sums
// in F32. So rows may be long, and large values overflow no sooner than in CHUNK products. Sums of BF16 are always F32,
// because F16 has a smaller range.
#if defined(HALF_SUMS) && FMT != FMT_BF16
#define CHUNKS
#define ADDED part // where products are added
#else
#define ADDED sum
#endif
const uint CHUNK = 128;
