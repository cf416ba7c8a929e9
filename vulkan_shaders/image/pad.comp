#version 460
// Pads a with zeros (MODE 0), periodically (1), or with reflections (2). Elements before a may be negative: then d
// begins inside of a, so that a periodic padding also shifts elements along a torus.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint MODE = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uvec4 ne;      // shape of d
    uint n_rows;
    uvec4 a_ne;
    uvec4 a_nb;
    uvec4 d_nb;
    ivec4 before;  // elements before a
} p;

// Index in a, or -1 for padding.
int place(uint i, int before, uint n) {
    const int j = int(i) - before;
    // Without a remainder of a negative number, which Vulkan leaves undefined: NVIDIA's is that of j + 2^32.
    if (MODE == 1) { return int(j < 0 ? n - 1 - uint(-1 - j) % n : uint(j) % n); }
    if (MODE == 2) { return j < 0 ? -j : uint(j) < n ? j : 2 * (int(n) - 1) - j; }
    return j >= 0 && uint(j) < n ? j : -1;
}

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    const ivec3 j = ivec3(place(i.x, p.before.y, p.a_ne.y), place(i.y, p.before.z, p.a_ne.z), place(i.z, p.before.w, p.a_ne.w));
    const bool there = min(j.x, min(j.y, j.z)) >= 0;
    const uint64_t a = at(p.a, offset3(uvec3(there ? j : ivec3(0)), p.a_nb.yzw), 4);
    const uint64_t d = at(p.d, offset3(i, p.d_nb.yzw), 4);
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        const int k = place(c, p.before.x, p.a_ne.x);
        F32s(d).v[c * p.d_nb.x] = there && k >= 0 ? F32s(a).v[uint(k) * p.a_nb.x] : 0.0;
    }
}
