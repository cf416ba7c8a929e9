#version 460
// Copies rows of elements of BYTES: windows of an image, padded with zeros (OP 0); an image from its windows (1); rows
// of a table by the distance of two positions (2).
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint OP = 0;
layout(constant_id = 4) const uint BYTES = 4;

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uvec4 ne;       // shape of d
    uint n_rows;
    uvec4 a_ne;
    uvec4 a_nb, d_nb;
    uint across;    // windows in a row
    uint size;      // of a window
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    uvec3 from;
    if (OP == 0) {
        from = uvec3(uvec2(i.z % p.across, i.z / p.across) * p.size + i.xy, 0);
    } else if (OP == 1) {
        const uvec2 window = i.xy / p.size;
        from = uvec3(i.xy % p.size, window.y * p.across + window.x);
    } else {
        from = uvec3(p.ne.y - i.x - 1 + i.y, 0, 0);
    }
    const bool there = all(lessThan(from, p.a_ne.yzw));
    const uint64_t a = at(p.a, offset3(there ? from : uvec3(0), p.a_nb.yzw), BYTES);
    const uint64_t d = at(p.d, offset3(i, p.d_nb.yzw), BYTES);
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        const uint ia = c * p.a_nb.x;
        const uint id = c * p.d_nb.x;
        if (BYTES == 2) { U16s(d).v[id] = there ? U16s(a).v[ia] : uint16_t(0); }
        else { U32s(d).v[id] = there ? U32s(a).v[ia] : 0; }
    }
}
