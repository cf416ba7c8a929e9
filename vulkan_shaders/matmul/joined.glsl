// Products of one column b with up to three matrices that have one format and rows of one length, and what follows them: sums with other columns, or
// a gated function of two products, or a row by index. A workgroup computes two rows, which share what is read of b. The includer defines the sum of two rows:
//   void two_rows(uint64_t a0, uint64_t a1, uint t, uint T, out float sums[2])

const uint NO_GATE = 255;
layout(constant_id = 4) const uint B = 0;    // type of b, or blocks of `product_blocks`
layout(constant_id = 5) const uint ADDS = 0; // 1: each matrix has a summand; 2: the only matrix has two
layout(constant_id = 6) const uint GATE = NO_GATE; // number of the gated function; its argument is the product of a0, the factor that of a1

layout(constant_id = 7) const uint ROWS = 0; // number of the matrix, from 1 on, whose result goes to a row by index (SET_ROWS), or 0
layout(constant_id = 8) const uint ROWS_TYPE = 0; // type of these rows
layout(constant_id = 9) const uint INDEX = 26;

layout(push_constant, scalar) uniform Joined {
    uint64_t b;
    uint64_t a0, a1, a2, d0, d1, d2, s0, s1, s2; // matrices, results, summands
    uint64_t index;        // ROWS: of the row
    uint k, a_nb;          // columns of the matrices; stride of their rows, in blocks
    uint end0, end1, end2; // rows of the first matrix, of the first two, of all three
    vec2 param;            // of the gated function
    uint rows, rows_nb;    // ROWS: number of rows, stride in elements
} p;

uint64_t row_of(uint64_t a, uint row) { return at(a, uint64_t(row) * p.a_nb, BYTES); }

// Row `r` of all matrices.
uint64_t joined_row(uint r) {
    if (r < p.end0) { return row_of(p.a0, r); }
    return r < p.end1 ? row_of(p.a1, r - p.end0) : row_of(p.a2, r - p.end1);
}

void store_row(uint r, float sum) {
    const bool first = r < p.end0;
    const bool second = r < p.end1;
    const uint row = r - (first ? 0 : second ? p.end0 : p.end1);
    if (ADDS == 1) { sum += F32s(first ? p.s0 : second ? p.s1 : p.s2).v[row]; }
    if (ADDS == 2) { sum = sum + F32s(p.s0).v[row] + F32s(p.s1).v[row]; }
    const uint64_t d = first ? p.d0 : second ? p.d1 : p.d2;
    if (ROWS != 0 && ROWS == (first ? 1 : second ? 2 : 3)) {
        int64_t to;
        if (INDEX == I64) { to = I64s(p.index).v[0]; } else { to = int64_t(I32s(p.index).v[0]); }
        if (to >= 0 && to < int64_t(p.rows)) { store(ROWS_TYPE, at(d, uint64_t(to) * p.rows_nb, type_size(ROWS_TYPE)), row, sum); }
        return;
    }
    F32s(d).v[row] = sum;
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
        if (t == 0) { F32s(p.d0).v[group] = gated(GATE, sums[0], sums[1], p.param); }
    } else {
        const uint r = 2 * group;
        if (r >= p.end2) { return; } // uniform
        const uint next = min(r + 1, p.end2 - 1);
        two_rows(joined_row(r), joined_row(next), t, T, sums);
        group_sums(sums);
        if (t == 0) {
            store_row(r, sums[0]);
            if (next > r) { store_row(next, sums[1]); }
        }
    }
}
