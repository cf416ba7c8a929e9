#version 460
// Attention for many queries, on devices that load matrices of a workgroup straight from tensors in memory
// (VK_NV_cooperative_matrix2 with tensor addressing, block loads, reductions and conversions). A workgroup has ROWS
// queries of one head, and takes its keys in tiles of KEYS. Operands are F16, sums F32. Keys and values in blocks are
// decoded value by value. First bytes of matrices must be aligned to 16, and rows of F16 and of the queries, too.
//
// Scores are multiplied by log2(e), so that weights are powers of two. As in flash_attn_coop, exponents are relative to
// an older maximum as long as F16 has room for the weights: a tile then needs no maxima of rows, and sums need no
// factors. Each row is decided on its own: the other rows of a tile do not matter.
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common.glsl"
#define VALUES
#include "quant.glsl"
#define KINDS
#include "attention/attention.glsl"
#include "attention/kinds.glsl"

layout(constant_id = 3) const uint ROWS = 64;
layout(constant_id = 9) const uint KEYS = 64;

// The exponent of two that a score may exceed its row's older maximum by.
const float SLACK = 11.0;
const float LOG2_E = 1.44269504;
const float LN_2 = 0.69314718;
// Maxima start here. It is so far above LOWEST, the score of what is excluded, that such a weight is 0 even in a row
// without any other.
const float FLOOR = -1e38;

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Halves { float16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Queries { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Results { float v[]; };

#if FMT == FMT_F16
#define DECODED
#else
// A block; the alignment is what its size leaves of 16.
layout(buffer_reference, scalar, buffer_reference_align = BYTES & -BYTES) readonly buffer Block { uint8_t v[BYTES]; };

// Called for each value of keys and values: the row and the block, and the place in it.
float16_t decode(const in Block block, const in uint place[2], const in uint inside[2]) {
    return float16_t(value(uint64_t(block), inside[1]));
}
#define DECODED , decode
#endif

#define LAYOUT tensorLayoutNV<2>
#define EDGE tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV>
#define MATRIX_Q coopmat<float16_t, gl_ScopeWorkgroup, ROWS, D, gl_MatrixUseA>
#define MATRIX_K coopmat<float16_t, gl_ScopeWorkgroup, D, KEYS, gl_MatrixUseB>
#define MATRIX_V coopmat<float16_t, gl_ScopeWorkgroup, KEYS, DV, gl_MatrixUseB>
#define WEIGHTS coopmat<float16_t, gl_ScopeWorkgroup, ROWS, KEYS, gl_MatrixUseA>
#define SCORES coopmat<float, gl_ScopeWorkgroup, ROWS, KEYS, gl_MatrixUseAccumulator>
#define SUMS coopmat<float, gl_ScopeWorkgroup, ROWS, DV, gl_MatrixUseAccumulator>

// Whether a row of the tile has outgrown its older maximum. A tile sets one, while another is reset for the tile after
// the next.
shared uint outgrown[3];
// By how much scores of this invocation exceed the maxima of their rows.
float excess;

// Functions that are called for each element (i, j).
float limited(const in uint i, const in uint j, const in float s) { return capped(s) * LOG2_E; }
float masked(const in uint i, const in uint j, const in float s, const in float m, const in float bias) {
    return is_minus_infinity(m) ? LOWEST : s + bias * m; // whatever the key is
}
float existing(const in uint i, const in uint j, const in float s, const in uint left) { return j < left ? s : LOWEST; }
float weight(const in uint i, const in uint j, const in float s, const in float most) {
    const float e = s - most;
    excess = max(excess, e);
    return exp2(e);
}
float raised(const in uint i, const in uint j, const in float top, const in float most) {
    return top - most > SLACK ? top : most;
}
float factor(const in uint i, const in uint j, const in float most, const in float now) { return exp2(most - now); }
float finished(const in uint i, const in uint j, const in float x, const in float sum, const in float most, const in uint head) {
    return x * normal(head, most * LN_2, sum);
}

// For reductions.
float larger(const in float a, const in float b) { return max(a, b); }
float plus(const in float a, const in float b) { return a + b; }

// Keys `first` to `first` + KEYS - 1, with layouts of one kind.
#define TILE(of_k, of_v, whole) { \
    const uint kind = next; \
    if (MASK && first + KEYS < p.n_keys) { next = kinds.v[first / KEYS + 1]; } \
    if (kind != NONE) { \
        MATRIX_K mk; \
        MATRIX_V mv; \
        coopMatLoadTensorNV(mk, k.v, 0, sliceTensorLayoutNV(of_k, first, KEYS, 0, D), turned DECODED); \
        coopMatLoadTensorNV(mv, v.v, 0, sliceTensorLayoutNV(of_v, first, KEYS, 0, DV) DECODED); \
        SCORES s = SCORES(0.0); \
        s = coopMatMulAdd(mq, mk, s); \
        if (CAP) { coopMatPerElementNV(s, s, limited); } \
        if (MASK && kind == MIXED) { \
            coopmat<float16_t, gl_ScopeWorkgroup, ROWS, KEYS, gl_MatrixUseAccumulator> halves; \
            coopMatLoadTensorNV(halves, mask.v, 0, sliceTensorLayoutNV(lm, 0, ROWS, first, KEYS)); \
            SCORES m = SCORES(halves); \
            coopMatPerElementNV(s, s, masked, m, bias); \
        } \
        if (!MASK && !whole) { coopMatPerElementNV(s, s, existing, p.n_keys - first); } \
        SCORES w; \
        excess = 0.0; \
        coopMatPerElementNV(w, s, weight, most); \
        if (excess > SLACK) { atomicOr(outgrown[turn], 1); } \
        barrier(); \
        const bool rescales = outgrown[turn] != 0; \
        turn = turn == 2 ? 0 : turn + 1; \
        if (gl_LocalInvocationIndex == 0) { outgrown[turn == 2 ? 0 : turn + 1] = 0; } \
        if (rescales) { /* uniform */ \
            SCORES top, now, by; \
            SUMS wide; \
            coopMatReduceNV(top, s, gl_CooperativeMatrixReduceRowNV, larger); \
            coopMatPerElementNV(now, top, raised, most); \
            coopMatPerElementNV(by, most, factor, now); \
            most = now; \
            sums = sums * by; \
            coopMatReduceNV(wide, by, gl_CooperativeMatrixReduceRowNV, larger); \
            o = o * wide; \
            coopMatPerElementNV(w, s, weight, most); \
        } \
        sums = sums + w; \
        WEIGHTS mw = WEIGHTS(w); \
        o = coopMatMulAdd(mw, mv, o); \
    } \
    first += KEYS; \
}

void main() {
    const uint head = gl_WorkGroupID.x;
    // With a causal mask, the last queries have the most keys: they start first.
    const uint tile = gl_NumWorkGroups.y - 1 - gl_WorkGroupID.y;
    const uint batch = gl_WorkGroupID.z;
    const uint row0 = tile * ROWS;
    const uint m2 = head % (p.mask_ne & 0xffffu);
    const uint m3 = batch % (p.mask_ne >> 16);
    Queries q = Queries(at(p.q, offset3(uvec3(row0, head, batch), p.q_nb), 4));
    Halves k = Halves(at(p.k, offset3(uvec3(0, head / GROUP, batch), p.k_nb), BYTES));
    Halves v = Halves(at(p.v, offset3(uvec3(0, head / GROUP, batch), p.v_nb), BYTES));
    Halves mask = Halves(at(p.mask, offset3(uvec3(row0, m2, m3), p.mask_nb), 2));
    Results d = Results(at(p.d, ((uint64_t(batch) * p.n_queries + row0) * HEADS + head) * DV, 4));
    const uint key_tiles = (p.n_keys + KEYS - 1) / KEYS;
    const uint64_t row_of_tiles = (uint64_t(m3) * (p.mask_ne & 0xffffu) + m2) * gl_NumWorkGroups.y + tile;
    U32s kinds = U32s(at(p.kinds, row_of_tiles * key_tiles, 4));
    const float bias = slope(head) * LOG2_E;

    // The masks keep the strides, which are multiples of 8: the compiler derives the alignment of rows from them.
#if FMT == FMT_F16
    const uint k_stride = p.k_nb.x & ~7u;
    const uint v_stride = p.v_nb.x & ~7u;
#else
    const uint k_stride = p.k_nb.x;
    const uint v_stride = p.v_nb.x;
#endif
    const uint left = p.n_queries - row0;
    EDGE lq = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
    lq = setTensorLayoutDimensionNV(lq, left, D);
    lq = setTensorLayoutStrideNV(lq, p.q_nb.x & ~3u, 1);
    coopmat<float, gl_ScopeWorkgroup, ROWS, D, gl_MatrixUseAccumulator> exact;
    coopMatLoadTensorNV(exact, q.v, 0, sliceTensorLayoutNV(lq, 0, ROWS, 0, D));
    exact = exact * (CAP ? p.scale : p.scale * LOG2_E);
    MATRIX_Q mq = MATRIX_Q(exact);

    EDGE lm = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
    lm = setTensorLayoutDimensionNV(lm, left, p.n_keys);
    lm = setTensorLayoutStrideNV(lm, p.mask_nb.x, 1);
    lm = setTensorLayoutClampValueNV(lm, 0xfc00u); // minus infinity: keys that do not exist are excluded

    SUMS o = SUMS(0.0);
    SCORES sums = SCORES(0.0); // of weights, for each of KEYS columns
    SCORES most = SCORES(FLOOR); // the same in all columns
    if (gl_LocalInvocationIndex < 3) { outgrown[gl_LocalInvocationIndex] = 0; }
    barrier();
    uint turn = 0;
    uint first = 0;
    uint next = MASK ? kinds.v[0] : WHOLE;
    // Keys are contiguous in memory, and columns of their matrix.
    tensorViewNV<2, false, 1, 0> turned = createTensorViewNV(2, false, 1, 0);
    {
        LAYOUT lk = createTensorLayoutNV(2);
        LAYOUT lv = createTensorLayoutNV(2);
        lk = setTensorLayoutBlockSizeNV(lk, 1, BLOCK);
        lv = setTensorLayoutBlockSizeNV(lv, 1, BLOCK);
        lk = setTensorLayoutDimensionNV(lk, p.n_keys, D);
        lv = setTensorLayoutDimensionNV(lv, p.n_keys, DV);
        lk = setTensorLayoutStrideNV(lk, k_stride, 1);
        lv = setTensorLayoutStrideNV(lv, v_stride, 1);
        [[dont_unroll]] while (first + KEYS <= p.n_keys) TILE(lk, lv, true)
    }
    if (first < p.n_keys) { // uniform
        EDGE lk = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
        EDGE lv = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
        lk = setTensorLayoutBlockSizeNV(lk, 1, BLOCK);
        lv = setTensorLayoutBlockSizeNV(lv, 1, BLOCK);
        lk = setTensorLayoutDimensionNV(lk, p.n_keys, D);
        lv = setTensorLayoutDimensionNV(lv, p.n_keys, DV);
        lk = setTensorLayoutStrideNV(lk, k_stride, 1);
        lv = setTensorLayoutStrideNV(lv, v_stride, 1);
        TILE(lk, lv, false)
    }

    SUMS total, all;
    coopMatReduceNV(total, sums, gl_CooperativeMatrixReduceRowNV, plus);
    coopMatReduceNV(all, most, gl_CooperativeMatrixReduceRowNV, larger);
    coopMatPerElementNV(o, o, finished, total, all, head);
    // Queries that do not exist are left out.
    EDGE ld = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
    ld = setTensorLayoutDimensionNV(ld, left, DV);
    ld = setTensorLayoutStrideNV(ld, HEADS * DV, 1);
    coopMatStoreTensorNV(o, d.v, 0, sliceTensorLayoutNV(ld, 0, ROWS, 0, DV));
}
