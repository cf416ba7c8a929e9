#version 460
// Normalises groups of channels to mean 0 and variance 1. A workgroup computes a group of an image. Tensors are
// contiguous.
#include "common.glsl"
#include "reduce.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uint n_work;     // groups of all images
    uint groups;     // of an image
    uint size;       // elements of a full group
    uint image;      // elements of an image
    float eps;
} p;

void main() {
    const uint w = group_xyz();
    if (w >= p.n_work) { return; }
    const uint first = min(w % p.groups * p.size, p.image);
    const uint n = min(p.size, p.image - first);
    const uint64_t from = uint64_t(w / p.groups) * p.image + first;
    F32s a = F32s(at(p.a, from, 4));
    F32s d = F32s(at(p.d, from, 4));
    const uint i = gl_LocalInvocationID.x;
    const uint step = gl_WorkGroupSize.x;
    float sum = 0.0;
    for (uint c = i; c < n; c += step) { sum += a.v[c]; }
    const float mean = group_sum(sum) / float(n);
    float squares = 0.0;
    for (uint c = i; c < n; c += step) { squares += (a.v[c] - mean) * (a.v[c] - mean); }
    const float factor = inversesqrt(group_sum(squares) / float(n) + p.eps);
    for (uint c = i; c < n; c += step) { d.v[c] = (a.v[c] - mean) * factor; }
}
