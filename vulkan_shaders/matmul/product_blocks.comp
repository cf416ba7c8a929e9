#version 460
// Converts rows of floats to blocks of 32 signed bytes, for products with integer dot products. A block has ten words:
// the scale, the sums of both halves (16 bits each), the bytes. The sums are for formats whose values are scale *
// integer + offset.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint A = 0; // type of the rows

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uvec3 ne; // blocks of a row, rows of dimensions 1 and 2
    uint n_rows;
    uvec3 a_nb;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uint64_t a = at(p.a, offset3(row_coords(r, p.ne.y, p.ne.z), p.a_nb), type_size(A));
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        float x[32];
        uint size = 0; // the greatest magnitude, by bits, of which those of NaN are the greatest
        [[unroll]] for (uint j = 0; j < 32; ++j) {
            x[j] = load(A, a, 32 * c + j);
            size = max(size, floatBitsToUint(x[j]) & 0x7fffffffu);
        }
        // The scale alone makes what is computed with the block NaN.
        const bool finite = size < 0x7f800000u;
        const float d = finite ? uintBitsToFloat(size) / 127.0 : uintBitsToFloat(size);
        const float inverse = d != 0.0 ? 1.0 / d : 0.0;
        U32s to = U32s(at(p.d, uint64_t(r) * p.ne.x + c, 40));
        int sums[2] = { 0, 0 };
        [[unroll]] for (uint j = 0; j < 8; ++j) {
            uint w = 0;
            [[unroll]] for (uint k = 0; k < 4; ++k) {
                const int q = finite ? int(clamp(roundEven(x[4 * j + k] * inverse), -127.0, 127.0)) : 0;
                sums[j / 4] += q;
                w |= (uint(q) & 255u) << (8 * k);
            }
            to.v[2 + j] = w;
        }
        to.v[0] = floatBitsToUint(d);
        to.v[1] = (uint(sums[0]) & 0xffffu) | uint(sums[1]) << 16;
    }
}
