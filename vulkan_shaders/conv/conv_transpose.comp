#version 460
// Transposed convolution of planes, or of lines as planes of height 1. Each result is the sum over the elements of the
// image and of the kernel that meet at it.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint A = 0; // type of the kernel

layout(push_constant, scalar) uniform Push {
    uint64_t a, x, d;
    uvec4 ne;     // shape of d: width, height, results, images
    uint n_rows;
    uvec2 kernel, size; // width, height
    uint channels;
    uvec4 a_nb;   // across, down, result, channel
    uvec4 x_nb;   // across, down, channel, image
    uvec4 d_nb;
    uint stride;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    const uint64_t weights = at(p.a, uint64_t(i.y) * p.a_nb.z, type_size(A));
    const uint64_t image = at(p.x, uint64_t(i.z) * p.x_nb.w, 4);
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        float sum = 0.0;
        for (uint channel = 0; channel < p.channels; ++channel) {
            const uint64_t w = at(weights, uint64_t(channel) * p.a_nb.w, type_size(A));
            const uint64_t x = at(image, uint64_t(channel) * p.x_nb.z, 4);
            for (uint ky = i.x % p.stride; ky < p.kernel.y && ky <= i.x; ky += p.stride) {
                const uint iy = (i.x - ky) / p.stride;
                if (iy >= p.size.y) { continue; }
                const uint64_t line = at(w, uint64_t(ky) * p.a_nb.y, type_size(A));
                F32s row = F32s(at(x, uint64_t(iy) * p.x_nb.y, 4));
                for (uint kx = c % p.stride; kx < p.kernel.x && kx <= c; kx += p.stride) {
                    const uint ix = (c - kx) / p.stride;
                    if (ix < p.size.x) { sum += load(A, line, kx * p.a_nb.x) * row.v[ix * p.x_nb.x]; }
                }
            }
        }
        F32s(at(p.d, offset3(i, p.d_nb.yzw), 4)).v[c * p.d_nb.x] = sum;
    }
}
