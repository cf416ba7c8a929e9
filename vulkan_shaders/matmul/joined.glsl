// Products of one column b with up to three matrices that have one format and rows of one length, and what follows
// them: sums with other columns, a rotation (RoPE), a row by index, or a gated function of two products. A workgroup
// computes two rows, which share what is read of b. The includer defines the sums of two rows:
//   void two_rows(uint64_t a0, uint64_t a1, uint t, uint T, out float sums[2])
#include "rope/turn.glsl"

const uint NO_GATE = 255;
layout(constant_id = 4) const uint B = 0;    // type of b, or blocks of `product_blocks`
layout(constant_id = 5) const uint ADDS = 0; // 1: each matrix has a summand; 2: the only matrix has two
// Number of the gated function. Its argument is the product of a0, its factor the product of a1.
layout(constant_id = 6) const uint GATE = NO_GATE;

// Bits of the matrices whose results go to rows by index (SET_ROWS): one or two.
layout(constant_id = 7) const uint ROWS = 0;
layout(constant_id = 8) const uint ROWS_TYPE = 0; // type of these rows
layout(constant_id = 9) const uint INDEX = 26;

// All rotated matrices share one rotation. It is that of the model, so its parameters are constants. Floats are passed
// as their bits.
// Bits of the matrices whose results are rotated. All matrices then have an even number of rows.
layout(constant_id = 10) const uint ROTATED = 0;
layout(constant_id = 11) const bool HALVES = false; // pairs are in two halves (NEOX), not neighbours
layout(constant_id = 12) const bool FACTORS = false;
layout(constant_id = 13) const uint HEAD = 2; // rows of a head
layout(constant_id = 14) const uint DIMS = 2; // rotated rows of a head
layout(constant_id = 15) const uint THETA_SCALE = 0;
layout(constant_id = 16) const uint FREQ_SCALE = 0;
layout(constant_id = 17) const uint EXT_FACTOR = 0;
layout(constant_id = 18) const uint ATTN_FACTOR = 0;
layout(constant_id = 19) const uint CORR_LOW = 0;
layout(constant_id = 20) const uint CORR_HIGH = 0;

layout(push_constant, scalar) uniform Joined {
    uint64_t b;
    uint64_t a0, a1, a2, d0, d1, d2; // matrices, results
    // ADDS: summands. GATE: s0 has two parameters of the gated function. Otherwise s0 has the FACTORS, and s1 the
    // second index.
    uint64_t s0, s1, s2;
    uint64_t index;        // ROWS: of the row of the first matrix of them
    uint64_t position;     // ROTATED
    uint k, a_nb;          // columns of the matrices; stride of their rows, in blocks
    uint end0, end1, end2; // rows of the first matrix, of the first two, of all three
    uint rows, rows_nb;    // ROWS: number of rows, stride in elements
} p;

uint64_t row_of(uint64_t a, uint row) { return at(a, uint64_t(row) * p.a_nb, BYTES); }

// The matrix that row `r` of all matrices belongs to, and the number of its first row.
uint matrix_of(uint r) { return r < p.end0 ? 0 : r < p.end1 ? 1 : 2; }
uint start_of(uint i) { return i == 0 ? 0 : i == 1 ? p.end0 : p.end1; }

// Row `r` of all matrices.
uint64_t joined_row(uint r) {
    if (r < p.end0) { return row_of(p.a0, r); }
    return r < p.end1 ? row_of(p.a1, r - p.end0) : row_of(p.a2, r - p.end1);
}

bool is_rotated(uint r) { return ROTATED != 0 && ((ROTATED >> matrix_of(r)) & 1u) != 0; }

// Rows of a workgroup: neighbours, or those of a rotated pair. The last may not exist.
uvec2 rows_of(uint group) {
    const uint r = 2 * group;
    if (HALVES && is_rotated(r)) {
        const uint i = (r - start_of(matrix_of(r))) % HEAD;
        if (i < DIMS) { return r - i + i / 2 + uvec2(0, DIMS / 2); }
    }
    return uvec2(r, r + 1);
}

float with_summands(uint r, float sum) {
    const uint i = matrix_of(r);
    const uint row = r - start_of(i);
    if (ADDS == 1) { sum += F32s(i == 0 ? p.s0 : i == 1 ? p.s1 : p.s2).v[row]; }
    if (ADDS == 2) { sum = sum + F32s(p.s0).v[row] + F32s(p.s1).v[row]; }
    return sum;
}

// Rotates the pair whose first row is `r`.
void rotate(uint r, inout float x0, inout float x1) {
    const uint i = (r - start_of(matrix_of(r))) % HEAD;
    const uint pair = HALVES ? i : i / 2;
    if (pair >= DIMS / 2) { return; }
    float angle = float(I32s(p.position).v[0]) * pow(uintBitsToFloat(THETA_SCALE), float(pair));
    if (FACTORS) { angle /= F32s(p.s0).v[pair]; }
    const vec2 corr = vec2(uintBitsToFloat(CORR_LOW), uintBitsToFloat(CORR_HIGH));
    const vec2 t = turn_by(angle, pair, uintBitsToFloat(FREQ_SCALE), uintBitsToFloat(EXT_FACTOR), uintBitsToFloat(ATTN_FACTOR), corr);
    const float y = x0 * t.x - x1 * t.y;
    x1 = x0 * t.y + x1 * t.x;
    x0 = y;
}

void store_row(uint r, float x) {
    const uint i = matrix_of(r);
    const uint row = r - start_of(i);
    const uint64_t d = i == 0 ? p.d0 : i == 1 ? p.d1 : p.d2;
    if (((ROWS >> i) & 1u) != 0) {
        // The first of them has p.index.
        const uint64_t from = (ROWS & ((1u << i) - 1u)) != 0 ? p.s1 : p.index;
        int64_t to;
        if (INDEX == I64) { to = I64s(from).v[0]; } else { to = int64_t(I32s(from).v[0]); }
        if (to >= 0 && to < int64_t(p.rows)) { store(ROWS_TYPE, at(d, uint64_t(to) * p.rows_nb, type_size(ROWS_TYPE)), row, x); }
        return;
    }
    F32s(d).v[row] = x;
}

void two_rows(uint64_t a0, uint64_t a1, uint t, uint T, out float sums[2]);

void main() {
    const uint t = gl_LocalInvocationID.x;
    const uint T = gl_WorkGroupSize.x;
    const uint group = group_xyz();
    float sums[2];
    if (GATE != NO_GATE) {
        if (group >= p.end0) { return; } // uniform
        two_rows(row_of(p.a0, group), row_of(p.a1, group), t, T, sums);
        group_sums(sums);
        const vec2 param = uintBitsToFloat(unpackUint2x32(p.s0));
        if (t == 0) { F32s(p.d0).v[group] = gated(GATE, sums[0], sums[1], param); }
    } else {
        if (2 * group >= p.end2) { return; } // uniform
        const uvec2 r = rows_of(group);
        two_rows(joined_row(r.x), joined_row(min(r.y, p.end2 - 1)), t, T, sums);
        group_sums(sums);
        if (t == 0) {
            float x0 = with_summands(r.x, sums[0]);
            float x1 = r.y < p.end2 ? with_summands(r.y, sums[1]) : 0.0;
            if (is_rotated(r.x)) { rotate(r.x, x0, x1); }
            store_row(r.x, x0);
            if (r.y < p.end2) { store_row(r.y, x1); }
        }
    }
}
