// For products with few columns, for GPUs: a workgroup computes ROWS rows of a with WIDTH columns of b. It reads and
// decodes a row once for all columns, and a column once for all rows. Each invocation sums every T-th group of values,
// and the sums are added at the end. The order of additions of a result does not depend on ROWS and WIDTH.
//
// The shader defines `add_groups`, which adds the products of an invocation.
const uint MAX_ROWS = 4;
const uint MAX_WIDTH = 8;
layout(constant_id = 6) const uint WIDTH = 1;
layout(constant_id = 7) const uint ROWS = 1;
#define REDUCE 32 // MAX_ROWS * MAX_WIDTH
#define REDUCE_COUNT (ROWS * WIDTH)
#include "reduce.glsl"
#define FIRST 4
#include "matmul/product.glsl"

// Number `t` of `T` invocations: sum[r * WIDTH + j] is for row r and column j.
void add_groups(uint64_t a[MAX_ROWS], uint64_t b[MAX_WIDTH], uint t, uint T, inout float sum[REDUCE]);

void main() {
    const uint row = gl_WorkGroupID.x * ROWS;
    const uint t = gl_LocalInvocationID.x;
    const Work w = work(WIDTH);
    if (w.first >= w.end) { // uniform
        if (t < ROWS) { no_expert(w, row + t); }
        return;
    }
    uint64_t a[MAX_ROWS];
    uint64_t b[MAX_WIDTH];
    float sum[REDUCE];
    // Instead of rows and columns that do not exist, the last ones are computed once more.
    [[unroll]] for (uint r = 0; r < ROWS; ++r) { a[r] = a_row(w, min(row + r, p.m - 1)); }
    [[unroll]] for (uint j = 0; j < WIDTH; ++j) { b[j] = b_column(w, w.first + j); }
    [[unroll]] for (uint i = 0; i < ROWS * WIDTH; ++i) { sum[i] = 0.0; }
    add_groups(a, b, t, gl_WorkGroupSize.x, sum);
    group_sums(sum);
    if (t != 0) { return; }
    [[unroll]] for (uint j = 0; j < WIDTH; ++j) {
        if (w.first + j < w.end) {
            F32s d = d_column(w, w.first + j);
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                if (row + r < p.m) { d.v[row + r] = sum[r * WIDTH + j]; }
            }
        }
    }
}
