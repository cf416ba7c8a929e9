#version 460
// Copies the elements of a to d in order, and converts them. RESHAPE: the shapes differ, so that an index is converted
// to coordinates in a.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint A = 0;
layout(constant_id = 4) const uint D = 0;
layout(constant_id = 5) const uint BYTES = 0; // not 0: copies bits of elements of this size (1, 2, 4, 8)
layout(constant_id = 6) const bool RESHAPE = false;

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uvec4 ne, a_nb, d_nb; // shape of d
    uvec4 a_ne;           // RESHAPE only
    uint n_rows;
} p;

// The integer part. The smallest integer for NaN and what 32 bits do not represent, as on the CPU. By bits: 2^31 and
// larger, and NaN.
int integer(float x) {
    return (floatBitsToUint(x) & 0x7fffffffu) < 0x4f000000u ? int(x) : int(0x80000000u);
}

void move(uint64_t a, uint ia, uint64_t d, uint id) {
    if (BYTES == 1) { U8s(d).v[id] = U8s(a).v[ia]; }
    else if (BYTES == 2) { U16s(d).v[id] = U16s(a).v[ia]; }
    else if (BYTES == 4) { U32s(d).v[id] = U32s(a).v[ia]; }
    else if (BYTES == 8) {
        // Two words, because 8-byte elements may be aligned to 4 bytes.
        U32s(d).v[2 * id] = U32s(a).v[2 * ia];
        U32s(d).v[2 * id + 1] = U32s(a).v[2 * ia + 1];
    } else if (D == I32) { I32s(d).v[id] = integer(load(A, a, ia)); }
    else { store(D, d, id, load(A, a, ia)); }
}

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uint size_a = BYTES != 0 ? BYTES : type_size(A);
    const uint size_d = BYTES != 0 ? BYTES : type_size(D);
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    const uint64_t d = at(p.d, offset3(i, p.d_nb.yzw), size_d);
    if (!RESHAPE) {
        const uint64_t a = at(p.a, offset3(i, p.a_nb.yzw), size_a);
        for (uint c = first_column(); c < p.ne.x; c += column_step()) { move(a, c * p.a_nb.x, d, c * p.d_nb.x); }
        return;
    }
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        // The host allows less than 2^32 elements.
        const uint n = r * p.ne.x + c;
        const uint row = n / p.a_ne.x;
        const uvec3 j = row_coords(row, p.a_ne.y, p.a_ne.z);
        move(at(p.a, offset3(j, p.a_nb.yzw), size_a), (n - row * p.a_ne.x) * p.a_nb.x, d, c * p.d_nb.x);
    }
}
