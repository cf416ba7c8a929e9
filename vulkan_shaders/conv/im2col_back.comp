#version 460
// Gradient of im2col: each element of the image is the sum of its copies in the patches. A line is an image of height
// 1.
#include "common.glsl"
#include "rows.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;  // gradient of the patches
    uvec4 ne;       // shape of d: width, height, channels, images
    uint n_rows;
    uvec2 kernel;   // width, height
    uvec2 size;     // patches across and down
    uvec4 a_nb;     // of an element of a patch, across, down, image
    uvec4 d_nb;
    ivec2 stride, pad, dilation;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    const uint64_t patches = at(p.a, uint64_t(i.z) * p.a_nb.w, 4);
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        float sum = 0.0;
        for (uint ky = 0; ky < p.kernel.y; ++ky) {
            const int y = int(i.x) + p.pad.y - int(ky) * p.dilation.y;
            if (y < 0 || uint(y) % uint(p.stride.y) != 0 || uint(y / p.stride.y) >= p.size.y) { continue; }
            for (uint kx = 0; kx < p.kernel.x; ++kx) {
                const int x = int(c) + p.pad.x - int(kx) * p.dilation.x;
                if (x < 0 || uint(x) % uint(p.stride.x) != 0 || uint(x / p.stride.x) >= p.size.x) { continue; }
                const uint element = (i.y * p.kernel.y + ky) * p.kernel.x + kx;
                sum += F32s(at(patches, offset3(uvec3(element, x / p.stride.x, y / p.stride.y), p.a_nb.xyz), 4)).v[0];
            }
        }
        F32s(at(p.d, offset3(i, p.d_nb.yzw), 4)).v[c * p.d_nb.x] = sum;
    }
}
