#version 460
// A matrix product on devices that load matrices of a workgroup straight from tensors in memory
// (VK_NV_cooperative_matrix2 with tensor addressing and block loads). The driver stages them, so the tile can be large.
// Operands are F16, but a may have blocks, which a function decodes value by value. The tensors start at the corner of
// the tile, so that offsets fit into 32 bits. Their first bytes, and those of all matrices, must be aligned to 16; rows
// of F16 too.
// LIST: for MUL_MAT_ID, a workgroup has a tile of `product_lists`: columns of b with the same expert, a matrix of a.
// `product_gather` has put the columns in this order. Those of d are anywhere, so that each value is stored on its own.
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common.glsl"
#define VALUES
#include "quant.glsl"

layout(constant_id = 3) const uint ROWS = 128;
layout(constant_id = 4) const uint WIDTH = 128;
layout(constant_id = 5) const uint DEPTH = 64;
// GROUP_SCALES: the scales of a block of all rows are computed once, for all values.
layout(constant_id = 6) const bool SHARED = false;

layout(push_constant, scalar) uniform Tensors {
    uint64_t a, b, d;
    uint64_t pairs, tiles; // LIST: numbers of pairs, sorted by expert; and expert, first, end
    uint k, m, n;          // LIST: n is the number of slots
    uint readable;         // columns of b that may be read, n or more; LIST: WIDTH or more from the first of each tile
    uvec2 repeat;          // matrices of b for each of a, dimensions 2 and 3
    uint b_ne2;
    uvec3 a_nb; // dimensions 1 to 3, in blocks
    uvec3 b_nb;
    uvec3 d_nb;
} p;

// What loads and stores start from. The elements of Halves may be parts of blocks.
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Halves { float16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Results { float v[]; };

#if BLOCK == 1
#define DECODED
#else
// A block; the alignment is what its size leaves of 16.
layout(buffer_reference, scalar, buffer_reference_align = BYTES & -BYTES) readonly buffer Block { uint8_t v[BYTES]; };

#ifdef GROUP_SCALES
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Head { uvec4 v; };

const uint GROUPS = BLOCK / 32;
const uint PITCH = ROWS + 2;
shared vec2 scales[SHARED ? GROUPS * PITCH : 1];

// Each row has some invocations, with a group or several. ROWS divides the number of invocations, and that divides
// GROUPS * ROWS.
uint share() { return gl_WorkGroupSize.x / ROWS; }

// The head of the block with value k0 of the row of this invocation.
uvec4 head(uint64_t a, uint stride, uint rows, uint k0) {
    const uint row = min(gl_LocalInvocationIndex / share(), rows - 1);
    return Head(at(a, uint64_t(row) * stride + min(k0, p.k - 1) / BLOCK, BYTES)).v;
}

// Writes the scales of a head.
void spread(uvec4 head) {
    const uint row = gl_LocalInvocationIndex / share();
    const uint each = GROUPS / share();
    const uint first = gl_LocalInvocationIndex % share() * each;
    barrier(); // those of the last block have been read
    [[unroll]] for (uint g = 0; g < each; ++g) { scales[(first + g) * PITCH + row] = scale_and_offset(head, first + g); }
    barrier();
}
#endif

// Called for each value of the tensor of a: the row within the tile and the block, and the place in it.
float16_t decode(const in Block block, const in uint place[2], const in uint inside[2]) {
    const uint i = inside[1];
#ifdef GROUP_SCALES
    if (SHARED) { return float16_t(value(uint64_t(block), i, scales[i / 32 * PITCH + place[0]])); }
#endif
    return float16_t(value(uint64_t(block), i));
}
#define DECODED , decode
#endif

#ifdef LIST
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Numbers { uint v[]; };

shared uint64_t places[WIDTH]; // columns of d, 0 for those after the last of the tile

// Called for each element (i, j) of the results. The first has this row of d.
float put(const in uint i, const in uint j, const in float x, const in uint row) {
    const uint64_t to = places[j];
    if (to != 0 && row + i < p.m) { F32s(to).v[row + i] = x; }
    return x;
}
#endif

#define LAYOUT tensorLayoutNV<2>
#define EDGE tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV>
#define MATRIX_A coopmat<float16_t, gl_ScopeWorkgroup, ROWS, DEPTH, gl_MatrixUseA>
#define MATRIX_B coopmat<float16_t, gl_ScopeWorkgroup, DEPTH, WIDTH, gl_MatrixUseB>
#define SUM coopmat<float, gl_ScopeWorkgroup, ROWS, WIDTH, gl_MatrixUseAccumulator>
#ifdef GROUP_SCALES
// Scales of the next values, and the head of those after them, which arrives meanwhile.
#define SCALES if (SHARED) { \
    spread(next); \
    next = head(from_a, a_stride, p.m - row0, k0 + BLOCK); \
}
#else
#define SCALES
#endif

// Values k0 to k0 + DEPTH - 1 of all rows and columns, with layouts of one kind.
#define STEP(of_a, of_b) { \
    MATRIX_A ma; \
    MATRIX_B mb; \
    coopMatLoadTensorNV(ma, a.v, 0, sliceTensorLayoutNV(of_a, 0, ROWS, k0, DEPTH) DECODED); \
    coopMatLoadTensorNV(mb, b.v, 0, sliceTensorLayoutNV(of_b, 0, WIDTH, k0, DEPTH), turned); \
    sum = coopMatMulAdd(ma, mb, sum); \
    k0 += DEPTH; \
}

// All values of k. Blocks of 256 have no remainder.
#define WALK(of_a, of_b) \
    while (k0 < whole) { \
        SCALES \
        [[unroll]] for (uint j = 0; j < UNROLLED; ++j) STEP(of_a, of_b) \
    } \
    [[dont_unroll]] while (k0 < p.k) STEP(of_a, of_b)

const uint UNROLLED = 256 / DEPTH; // steps

void main() {
    // Neighbours have the same rows of a, which are read from memory only once then.
    const uint row0 = gl_WorkGroupID.y * ROWS;
#ifdef LIST
    Numbers tile = Numbers(at(p.tiles, uint64_t(gl_WorkGroupID.x) * 3, 4));
    const uint column0 = tile.v[1];
    const uint end = tile.v[2];
    if (column0 >= end) { return; } // uniform
    for (uint j = gl_LocalInvocationIndex; j < WIDTH; j += gl_WorkGroupSize.x) {
        uint64_t to = 0;
        if (column0 + j < end) {
            const uint pair = Numbers(at(p.pairs, column0 + j, 4)).v[0];
            to = at(p.d, offset3(uvec3(pair % p.n, pair / p.n, 0), p.d_nb), 4);
        }
        places[j] = to;
    }
    barrier();
    const uvec3 of_a = uvec3(row0, tile.v[0], 0);
    const uvec3 of_b = uvec3(column0, 0, 0);
#else
    const uint column0 = gl_WorkGroupID.x * WIDTH;
    const uint i2 = gl_WorkGroupID.z % p.b_ne2;
    const uint i3 = gl_WorkGroupID.z / p.b_ne2;
    const uvec3 of_a = uvec3(row0, i2 / p.repeat.x, i3 / p.repeat.y);
    const uvec3 of_b = uvec3(column0, i2, i3);
    Results d = Results(at(p.d, offset3(of_b, p.d_nb) + row0, 4));
#endif
    const uint64_t from_a = at(p.a, offset3(of_a, p.a_nb), BYTES);
    Halves a = Halves(from_a);
    Halves b = Halves(at(p.b, offset3(of_b, p.b_nb), 2));

    // The masks keep the strides, which are multiples of 8: the compiler derives the alignment of rows from them.
#if BLOCK == 1
    const uint a_stride = p.a_nb.x & ~7u;
#else
    const uint a_stride = p.a_nb.x;
#endif
    const uint b_stride = p.b_nb.x & ~7u;

    // In memory, values of k are contiguous in both operands, and rows in columns of the result.
    tensorViewNV<2, false, 1, 0> turned = createTensorViewNV(2, false, 1, 0);
    SUM sum = SUM(0.0);
    uint k0 = 0;
    const uint whole = p.k - p.k % (UNROLLED * DEPTH);
#ifdef GROUP_SCALES
    uvec4 next = uvec4(0);
    if (SHARED) { next = head(from_a, a_stride, p.m - row0, 0); }
#endif
    if (row0 + ROWS <= p.m && column0 + WIDTH <= p.readable && p.k % DEPTH == 0) { // uniform
        LAYOUT la = createTensorLayoutNV(2);
        LAYOUT lb = createTensorLayoutNV(2);
        la = setTensorLayoutBlockSizeNV(la, 1, BLOCK);
        la = setTensorLayoutDimensionNV(la, p.m - row0, p.k);
        lb = setTensorLayoutDimensionNV(lb, p.readable - column0, p.k);
        la = setTensorLayoutStrideNV(la, a_stride, 1);
        lb = setTensorLayoutStrideNV(lb, b_stride, 1);
        WALK(la, lb)
    } else {
        EDGE la = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
        EDGE lb = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
        la = setTensorLayoutBlockSizeNV(la, 1, BLOCK);
        la = setTensorLayoutDimensionNV(la, p.m - row0, p.k);
        lb = setTensorLayoutDimensionNV(lb, p.readable - column0, p.k);
        la = setTensorLayoutStrideNV(la, a_stride, 1);
        lb = setTensorLayoutStrideNV(lb, b_stride, 1);
        WALK(la, lb)
    }
#ifdef LIST
    coopMatPerElementNV(sum, sum, put, row0);
#else
    // Rows and columns that do not exist are left out.
    EDGE ld = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
    ld = setTensorLayoutDimensionNV(ld, p.n - column0, p.m - row0);
    ld = setTensorLayoutStrideNV(ld, p.d_nb.x, 1);
    coopMatStoreTensorNV(sum, d.v, 0, sliceTensorLayoutNV(ld, 0, WIDTH, 0, ROWS), turned);
#endif
}
