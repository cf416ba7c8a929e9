#version 460
// Maximum or mean of each window. The mean of POOL_2D is over the whole window, with 0 for elements outside of the
// image. That of POOL_1D is over the elements inside.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint A = 0;
layout(constant_id = 4) const bool MAX_POOL = false;
layout(constant_id = 5) const bool POOL_2D = true;

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uvec4 ne;
    uint n_rows;
    uvec2 size;     // of a
    uvec4 a_nb;
    uvec3 d_nb;
    ivec2 kernel, stride, pad;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    const uint64_t a = at(p.a, offset3(uvec3(POOL_2D ? 0 : i.x, i.yz), p.a_nb.yzw), type_size(A));
    F32s d = F32s(at(p.d, offset3(i, p.d_nb), 4));
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        const ivec2 corner = ivec2(c, POOL_2D ? i.x : 0) * p.stride - p.pad;
        float y = MAX_POOL ? -3.402823466e38 : 0.0;
        uint n = 0;
        for (int ky = 0; ky < p.kernel.y; ++ky) {
            const int iy = corner.y + ky;
            if (POOL_2D && (iy < 0 || uint(iy) >= p.size.y)) { continue; }
            const uint64_t row = at(a, uint64_t(POOL_2D ? uint(iy) : 0) * p.a_nb.y, type_size(A));
            for (int kx = 0; kx < p.kernel.x; ++kx) {
                const int ix = corner.x + kx;
                if (ix < 0 || uint(ix) >= p.size.x) { continue; }
                const float x = load(A, row, uint(ix) * p.a_nb.x);
                if (MAX_POOL) {
                    // The first NaN of a window is its maximum.
                    if (!is_nan(y) && (is_nan(x) || x > y)) { y = x; }
                } else {
                    y += x;
                }
                ++n;
            }
        }
        if (!MAX_POOL) {
            if (POOL_2D) { n = uint(p.kernel.x * p.kernel.y); }
            y = n > 0 ? y / float(n) : 0.0;
        }
        d.v[c] = y;
    }
}
