#version 460
// A matrix product with cooperative matrices (KHR), in tiles of TM rows by TN columns. Each subgroup computes SM by SN
// results, in matrices of a size that the device supports. Operands are F16, and sums F32, or F16 of some values each
// (HALF_SUMS).
//
// Each result is the sum of its products in the order of k, CK at a time, whatever the tile is: it has the same bits in
// every tile.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common.glsl"
#include "quant.glsl"
#include "matmul/product.glsl"

// HALF_SUMS: CHUNK products in the order of k are added in F16, which takes half the time on some cards, and their sums
// in F32. So rows may be long, and large values overflow no sooner than in CHUNK products.
#ifdef HALF_SUMS
#define ADDED part // where products are added
#else
#define ADDED sum
#endif
const uint CHUNK = 128;

// Size of the device's matrices. 32 is a multiple of each, and CK one of 8.
layout(constant_id = 5) const uint CM = 16;
layout(constant_id = 6) const uint CN = 16;
layout(constant_id = 7) const uint CK = 16;
// Rows of a and columns of b begin at multiples of 16 bytes, and k is a multiple of BK.
layout(constant_id = 8) const bool ALIGNED = false;
layout(constant_id = 9) const uint TM = 64;
layout(constant_id = 10) const uint TN = 64;
layout(constant_id = 11) const uint SM = 32;
layout(constant_id = 12) const uint SN = 32;
#include "matmul/ahead.glsl"

// Values of a row, and of a column, in a step.
const uint BK = 32;
// A step in shared memory, as F16: rows of a, then columns of b, in pieces of eight values. A row has one piece more
// than values, so that eight rows begin in different banks. There is room for two steps: one is written while the other
// is read, so that a step needs one barrier.
const uint PITCH = BK / 8 + 1;
const uint STEP = (TM + TN) * PITCH;
shared uvec4 steps[2 * STEP];

// Pieces of rows of a, and of columns of b, that an invocation loads in each step.
const uint PIECES_A = TM * 4 / gl_WorkGroupSize.x;
const uint PIECES_B = TN * 4 / gl_WorkGroupSize.x;

const uint SUBGROUPS_DOWN = TM / SM;
// Matrices of a subgroup.
const uint MS = SM / CM;
const uint NS = SN / CN;
const uint ONE = CM * CN;

// Eight values as they are in memory. Those after the last are 0.
void piece(uint type, uint64_t base, uint first, out uint w[8]) {
    if (ALIGNED) {
        words8(type, base, first, w);
    } else {
        [[unroll]] for (uint l = 0; l < 8; ++l) { w[l] = first + l < p.k ? word(type, base, first + l) : 0; }
    }
}

// The same values as F16.
uvec4 halves(uint type, uint w[8]) {
    if (type == F16 && ALIGNED) { return uvec4(w[0], w[1], w[2], w[3]); }
    uvec4 h;
    [[unroll]] for (uint l = 0; l < 4; ++l) { h[l] = packFloat2x16(f16vec2(of_words(type, w, 2 * l), of_words(type, w, 2 * l + 1))); }
    return h;
}

uvec4 piece_of_a(uint64_t a, uint first) {
#if BLOCK == 1
    uint w[8];
    piece(A, a, first, w);
    return halves(A, w);
#else
    // Decoded at once: blocks are smaller than their values, but take more registers until they are decoded.
    float y[8];
    dequant8(a, first / 8, y);
    uvec4 h;
    [[unroll]] for (uint l = 0; l < 4; ++l) { h[l] = packFloat2x16(f16vec2(y[2 * l], y[2 * l + 1])); }
    return h;
#endif
}

#define FETCH(k) \
    [[unroll]] for (uint e = 0; e < PIECES_A; ++e) { y[e] = piece_of_a(a[e], (k) + eighth * 8); } \
    [[unroll]] for (uint e = 0; e < PIECES_B; ++e) { piece(B, b[e], (k) + eighth * 8, x[e]); }

#define SUM coopmat<float, gl_ScopeSubgroup, CM, CN, gl_MatrixUseAccumulator>
#ifdef HALF_SUMS
#define PART coopmat<float16_t, gl_ScopeSubgroup, CM, CN, gl_MatrixUseAccumulator>
#endif

// Invocations of a subgroup.
const uint LANES = gl_WorkGroupSize.x / (SUBGROUPS_DOWN * (TN / SN));

void main() {
    const uint row0 = gl_WorkGroupID.x * TM;
    const Work w = work(TN);
    if (w.first >= w.end) { return; } // uniform
    const uint sub_row = gl_SubgroupID % SUBGROUPS_DOWN * SM;
    const uint sub_column = gl_SubgroupID / SUBGROUPS_DOWN * SN;
    SUM sum[MS * NS];
    [[unroll]] for (uint i = 0; i < MS * NS; ++i) { sum[i] = SUM(0.0); }
#ifdef HALF_SUMS
    PART part[MS * NS];
    [[unroll]] for (uint i = 0; i < MS * NS; ++i) { part[i] = PART(0.0); }
#endif
    // Workgroups have a multiple of four invocations, so these are the same values of each line.
    const uint line = gl_LocalInvocationIndex / 4;
    const uint lines = gl_WorkGroupSize.x / 4;
    const uint eighth = gl_LocalInvocationIndex % 4;
    uint64_t a[PIECES_A];
    uint64_t b[PIECES_B];
    [[unroll]] for (uint e = 0; e < PIECES_A; ++e) { a[e] = a_row(w, min(row0 + line + e * lines, p.m - 1)); }
    [[unroll]] for (uint e = 0; e < PIECES_B; ++e) { b[e] = b_column(w, w.first + line + e * lines); }
    uvec4 y[PIECES_A];
    uint x[PIECES_B][8];
    uint to = 0;
    const uint last = (max(p.k, 1) - 1) / BK * BK;
    if (p.k > 0) { FETCH(0) } // uniform
    for (uint k0 = 0; k0 < p.k; k0 += BK) {
        // The last barrier came after the products of the step in this place, so it may be overwritten.
        const uint place = to + line * PITCH + eighth;
        [[unroll]] for (uint e = 0; e < PIECES_A; ++e) { steps[place + e * lines * PITCH] = y[e]; }
        [[unroll]] for (uint e = 0; e < PIECES_B; ++e) { steps[place + (TM + e * lines) * PITCH] = halves(B, x[e]); }
        barrier();
        // The values of the next step are loaded while those of this step are multiplied. The last step is loaded
        // twice, because compilers move nothing past a branch.
        FETCH(min(k0 + BK, last))
        const uint from_a = to + sub_row * PITCH;
        const uint from_b = to + (TM + sub_column) * PITCH;
        [[unroll]] for (uint l = 0; l < BK; l += CK) {
            coopmat<float16_t, gl_ScopeSubgroup, CK, CN, gl_MatrixUseB> mb[NS];
            [[unroll]] for (uint j = 0; j < NS; ++j) {
                coopMatLoad(mb[j], steps, from_b + j * CN * PITCH + l / 8, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
            }
            [[unroll]] for (uint i = 0; i < MS; ++i) {
                coopmat<float16_t, gl_ScopeSubgroup, CM, CK, gl_MatrixUseA> ma;
                coopMatLoad(ma, steps, from_a + i * CM * PITCH + l / 8, PITCH, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint j = 0; j < NS; ++j) { ADDED[i * NS + j] = coopMatMulAdd(ma, mb[j], ADDED[i * NS + j]); }
            }
        }
#ifdef HALF_SUMS
        if ((k0 + BK) % CHUNK == 0 || k0 == last) { // uniform
            [[unroll]] for (uint i = 0; i < MS * NS; ++i) {
                sum[i] += SUM(part[i]);
                part[i] = PART(0.0);
            }
        }
#endif
        to = STEP - to;
    }
    // A tile within d is stored as it is, if its columns begin at multiples of 16 bytes, as such a store needs. The
    // condition is uniform: llvmpipe ends all subgroups of a workgroup where some return and others wait in a
    // subgroup's barrier.
    const uint row = row0 + sub_row;
    const uint column = w.first + sub_column;
    const bool whole = row0 + TM <= p.m && w.first + TN <= w.end;
    if (COLUMNS == ALL && whole && ((unpackUint2x32(w.d).x | p.d_nb.x * 4) & 15u) == 0) {
        [[unroll]] for (uint j = 0; j < NS; ++j) {
            F32s d = d_column(w, column + j * CN);
            [[unroll]] for (uint i = 0; i < MS; ++i) {
                coopMatStore(sum[i * NS + j], d.v, row + i * CM, p.d_nb.x, gl_CooperativeMatrixLayoutColumnMajor);
            }
        }
        return;
    }
    // Other tiles go through the memory of a step that has been multiplied, which has room for a matrix of each
    // subgroup (`policy/method.rs`). All loops have constant numbers of iterations: Mesa does not unroll a loop around
    // any other, and the matrices that such a loop indexes would be in scratch memory.
    const uint room = to + gl_SubgroupID * (ONE / 4);
    [[unroll]] for (uint j = 0; j < NS; ++j) {
        [[unroll]] for (uint i = 0; i < MS; ++i) {
            subgroupBarrier(); // the last matrix has been written
            coopMatStore(sum[i * NS + j], steps, room, CM / 4, gl_CooperativeMatrixLayoutColumnMajor);
            subgroupBarrier();
            [[unroll]] for (uint first = 0; first < ONE; first += LANES) {
                const uint e = first + gl_SubgroupInvocationID;
                const uint r = row + i * CM + e % CM;
                const uint c = column + j * CN + e / CM;
                if (e < ONE && r < p.m && c < w.end) { d_column(w, c).v[r] = uintBitsToFloat(steps[room + e / 4][e % 4]); }
            }
        }
    }
}
