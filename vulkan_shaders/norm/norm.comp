#version 460
// Normalises rows to mean 0 and variance 1 (NORM), mean square 1 (RMS_NORM), or length 1 (L2_NORM). A workgroup
// computes a row. Fused: normalises a + b instead of a, and writes the sum (ADD); multiplies the result by w (MUL);
// also writes the result as blocks of integers for products (BLOCKS; `product_blocks`), for which rows have a multiple
// of 32 columns, and groups of 8 invocations. b has the shape of a, and w repeats.
#include "common.glsl"
#include "reduce.glsl"

layout(constant_id = 4) const uint OP = 1; // 0 NORM, 1 RMS_NORM, 2 L2_NORM
layout(constant_id = 5) const uint MUL = 0; // 1: w has a value for each column; 2: for each row
layout(constant_id = 6) const bool ADD = false;
layout(constant_id = 7) const bool BLOCKS = false;

layout(push_constant, scalar) uniform Push {
    uint64_t a, d, w, b, sum, blocks;
    uint columns, n_rows, ne1, ne2;
    uvec3 a_nb, d_nb, b_nb, sum_nb; // strides of dimensions 1 to 3; rows are contiguous, except for a without ADD
    uint w_ne1, w_nb1;
    float eps;
    uint a_step;
} p;

// An invocation has neighbouring columns: one, or the four of a word of a block.
const uint SPAN = BLOCKS ? 4 : 1;
shared uint greatest[512]; // of the columns of each invocation
shared int sums[512];

// Writes the values of an invocation's four columns from c on. All invocations must call it. Those after the last
// column write nothing.
void write_blocks(uint r, uint c, float x[4]) {
    const uint i = gl_LocalInvocationID.x;
    const uint part = i & 7u; // word of the block
    // By bits, of which those of NaN are the greatest.
    const uvec4 sizes = floatBitsToUint(vec4(x[0], x[1], x[2], x[3])) & 0x7fffffffu;
    greatest[i] = max(max(sizes.x, sizes.y), max(sizes.z, sizes.w));
    barrier();
    uint size = 0;
    [[unroll]] for (uint j = 0; j < 8; ++j) { size = max(size, greatest[i - part + j]); }
    // The scale alone makes what is computed with the block NaN.
    const bool finite = size < 0x7f800000u;
    const float d = finite ? uintBitsToFloat(size) / 127.0 : uintBitsToFloat(size);
    const float inverse = d != 0.0 ? 1.0 / d : 0.0;
    uint word = 0;
    int sum = 0;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const int q = finite ? int(clamp(roundEven(x[j] * inverse), -127.0, 127.0)) : 0;
        sum += q;
        word |= (uint(q) & 255u) << (8 * j);
    }
    sums[i] = sum;
    barrier();
    if (c < p.columns) {
        U32s to = U32s(at(p.blocks, uint64_t(r) * (p.columns / 32) + c / 32, 40));
        to.v[2 + part] = word;
        if (part == 0) {
            to.v[0] = floatBitsToUint(d);
            const int low = sums[i] + sums[i + 1] + sums[i + 2] + sums[i + 3];
            const int high = sums[i + 4] + sums[i + 5] + sums[i + 6] + sums[i + 7];
            to.v[1] = (uint(low) & 0xffffu) | uint(high) << 16;
        }
    }
    barrier();
}

void main() {
    const uint r = group_xyz();
    if (r >= p.n_rows) { return; }
    const uint first = gl_LocalInvocationID.x * SPAN;
    const uint step = gl_WorkGroupSize.x * SPAN;
    const uvec3 at3 = row_coords(r, p.ne1, p.ne2);
    F32s a = F32s(at(p.a, offset3(at3, p.a_nb), 4));
    F32s d = F32s(at(p.d, offset3(at3, p.d_nb), 4));
    if (ADD) {
        F32s b = F32s(at(p.b, offset3(at3, p.b_nb), 4));
        F32s s = F32s(at(p.sum, offset3(at3, p.sum_nb), 4));
        for (uint c = first; c < p.columns; c += step) {
            [[unroll]] for (uint l = 0; l < SPAN; ++l) { s.v[c + l] = a.v[c + l] + b.v[c + l]; }
        }
        a = s; // each invocation reads what it wrote
    }
    const uint gap = p.a_step;
    const float n = float(p.columns);
    float mean = 0.0;
    if (OP == 0) {
        float sum = 0.0;
        for (uint c = first; c < p.columns; c += step) {
            [[unroll]] for (uint l = 0; l < SPAN; ++l) { sum += a.v[(c + l) * gap]; }
        }
        mean = group_sum(sum) / n;
    }
    float squares = 0.0;
    float rest = 0.0;
    for (uint c = first; c < p.columns; c += step) {
        [[unroll]] for (uint l = 0; l < SPAN; ++l) {
            const float x = a.v[(c + l) * gap] - mean;
            squares += x * x;
            rest += x;
        }
    }
    squares = group_sum(squares);
    if (OP == 0) {
        // Corrects the rounding error of the mean.
        rest = group_sum(rest) / n;
        mean += rest;
        const float exact = squares - rest * rest * n;
        squares = exact < 0.0 ? 0.0 : exact; // not `max`, which may hide NaN
    }
    const float factor = OP == 2 ? 1.0 / (is_nan(squares) ? squares : max(sqrt(squares), p.eps)) : inversesqrt(squares / n + p.eps);
    F32s w = F32s(at(p.w, uint64_t(at3.x % p.w_ne1) * p.w_nb1, 4));
    if (BLOCKS) {
        for (uint begin = 0; begin < p.columns; begin += step) { // uniform
            const uint c = begin + first;
            float x[4] = { 0.0, 0.0, 0.0, 0.0 };
            if (c < p.columns) {
                [[unroll]] for (uint l = 0; l < 4; ++l) {
                    x[l] = (a.v[(c + l) * gap] - mean) * factor;
                    if (MUL > 0) { x[l] *= w.v[MUL == 2 ? 0 : c + l]; }
                    d.v[c + l] = x[l];
                }
            }
            write_blocks(r, c, x);
        }
    } else if (MUL > 0) {
        for (uint c = first; c < p.columns; c += step) { d.v[c] = (a.v[c * gap] - mean) * factor * w.v[MUL == 2 ? 0 : c]; }
    } else {
        for (uint c = first; c < p.columns; c += step) { d.v[c] = (a.v[c * gap] - mean) * factor; }
    }
}
