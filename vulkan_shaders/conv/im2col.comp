#version 460
// Patches of an image as rows of a matrix. A patch has the pixels under the kernel of a convolution. Pixels outside of
// the image are 0.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint A = 0;
layout(constant_id = 4) const uint D = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uvec4 ne;        // shape of d: patch, across, down, images
    uint n_rows;
    uvec2 kernel;    // width, height
    uvec2 size;      // of the image
    uvec4 a_nb;      // across, down, channel, image
    uvec3 d_nb;
    ivec2 stride, pad, dilation;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    const uint64_t a = at(p.a, uint64_t(i.z) * p.a_nb.w, type_size(A));
    const uint64_t d = at(p.d, offset3(i, p.d_nb), type_size(D));
    const ivec2 corner = ivec2(i.xy) * p.stride - p.pad;
    const uint area = p.kernel.x * p.kernel.y;
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        const uint channel = c / area;
        const uint k = c - channel * area;
        const ivec2 at2 = corner + ivec2(k % p.kernel.x, k / p.kernel.x) * p.dilation;
        const bool there = at2.x >= 0 && at2.y >= 0 && uint(at2.x) < p.size.x && uint(at2.y) < p.size.y;
        const uvec2 q = there ? uvec2(at2) : uvec2(0);
        const uint64_t pixel = at(a, offset3(uvec3(q.y, channel, 0), uvec3(p.a_nb.yz, 0)), type_size(A));
        store(D, d, c, there ? load(A, pixel, q.x * p.a_nb.x) : 0.0);
    }
}
