#version 460
// Patches of a volume as rows of a matrix. Elements outside of the volume are 0.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint D = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uvec3 ne;        // shape of d: patch, across, down
    uint n_rows;
    uint depth;      // results along dimension 2 of the volume
    uvec3 kernel, size;
    uvec4 a_nb;      // across, down, depth, channel
    uvec3 d_nb;
    ivec3 stride, pad, dilation;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uint line = r / p.ne.y;
    const uint volume = line / p.ne.z;
    const uvec3 i = uvec3(r - line * p.ne.y, line - volume * p.ne.z, volume);
    const uint64_t d = at(p.d, offset3(i, p.d_nb), type_size(D));
    const uint area = p.kernel.x * p.kernel.y * p.kernel.z;
    const uint channel0 = i.z / p.depth * (p.ne.x / area);
    const ivec3 corner = ivec3(i.xy, i.z % p.depth) * p.stride - p.pad;
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        const uint channel = c / area;
        const uint k = c - channel * area;
        const uvec3 tap = uvec3(k % p.kernel.x, k / p.kernel.x % p.kernel.y, k / (p.kernel.x * p.kernel.y));
        const ivec3 q = corner + ivec3(tap) * p.dilation;
        float x = 0.0;
        if (all(greaterThanEqual(q, ivec3(0))) && all(lessThan(uvec3(q), p.size))) {
            x = F32s(at(p.a, offset3(uvec3(q.yz, channel0 + channel), p.a_nb.yzw), 4)).v[uint(q.x) * p.a_nb.x];
        }
        store(D, d, c, x);
    }
}
