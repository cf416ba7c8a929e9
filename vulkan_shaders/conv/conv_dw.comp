#version 460
// Depthwise convolution of planes: each channel has its own kernel. CHANNELS_FIRST: the channels are innermost in
// memory, so that the columns are channels.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint A = 0; // type of the kernel
layout(constant_id = 4) const bool CHANNELS_FIRST = false;

layout(push_constant, scalar) uniform Push {
    uint64_t a, x, d;
    uvec4 ne;      // shape of d: width, height, channels, images
    uint n_rows;
    uvec2 kernel, size; // width, height
    uvec3 a_nb;    // across, down, channel
    uvec4 x_nb, d_nb;
    ivec2 stride, pad, dilation;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = CHANNELS_FIRST ? row_coords(r, p.ne.x, p.ne.y) : row_coords(r, p.ne.y, p.ne.z);
    const uint columns = CHANNELS_FIRST ? p.ne.z : p.ne.x;
    for (uint c = first_column(); c < columns; c += column_step()) {
        const uvec4 o = CHANNELS_FIRST ? uvec4(i.xy, c, i.z) : uvec4(c, i);
        const ivec2 corner = ivec2(o.xy) * p.stride - p.pad;
        const uint64_t a = at(p.a, uint64_t(o.z) * p.a_nb.z, type_size(A));
        const uint64_t x = at(p.x, uint64_t(o.z) * p.x_nb.z + uint64_t(o.w) * p.x_nb.w, 4);
        float sum = 0.0;
        for (uint ky = 0; ky < p.kernel.y; ++ky) {
            const int iy = corner.y + int(ky) * p.dilation.y;
            if (iy < 0 || uint(iy) >= p.size.y) { continue; }
            const uint64_t weights = at(a, uint64_t(ky) * p.a_nb.y, type_size(A));
            F32s row = F32s(at(x, uint64_t(iy) * p.x_nb.y, 4));
            for (uint kx = 0; kx < p.kernel.x; ++kx) {
                const int ix = corner.x + int(kx) * p.dilation.x;
                if (ix < 0 || uint(ix) >= p.size.x) { continue; }
                sum += load(A, weights, kx * p.a_nb.x) * row.v[uint(ix) * p.x_nb.x];
            }
        }
        F32s(at(p.d, offset3(o.yzw, p.d_nb.yzw), 4)).v[o.x * p.d_nb.x] = sum;
    }
}
