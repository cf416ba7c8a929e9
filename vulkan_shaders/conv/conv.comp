#version 460
// Convolution of volumes, or of planes as volumes of depth 1, as a product of matrices: weights [taps, results] and
// patches [taps, places]. The patches are read from the image when they are needed. A workgroup has 256 invocations and
// computes 64 results at 64 places, in steps of 16 taps through shared memory. Each invocation computes 4 by 4 of them.
#include "common.glsl"

layout(constant_id = 3) const uint A = 0; // type of the kernel
layout(constant_id = 4) const uint KW = 1;
layout(constant_id = 5) const uint KH = 1;
layout(constant_id = 6) const uint KD = 1;
layout(constant_id = 7) const uint SX = 1; // strides
layout(constant_id = 8) const uint SY = 1;
layout(constant_id = 9) const uint SZ = 1;
layout(constant_id = 10) const uint PX = 0; // paddings, signed
layout(constant_id = 11) const uint PY = 0;
layout(constant_id = 12) const uint PZ = 0;
layout(constant_id = 13) const uint DX = 1; // dilations
layout(constant_id = 14) const uint DY = 1;
layout(constant_id = 15) const uint DZ = 1;

layout(push_constant, scalar) uniform Push {
    uint64_t a, x, d;
    uint channels, results, images;
    uvec3 size;      // of an image
    uvec3 out_size;  // of a result
    uvec3 a_nb;
    uint a_channel, a_result;
    uvec3 x_nb;
    uint x_channel, x_image;
    uvec3 d_nb;
    uint d_channel, d_image;
} p;

const uint TILE = 64;
const uint BK = 16;
// Padded to avoid bank conflicts.
shared float as[BK * (TILE + 1)];
shared float bs[BK * (TILE + 1)];

// Position in the result, and the image.
uvec4 place_of(uint place) {
    const uint row = place / p.out_size.x;
    const uint plane = row / p.out_size.y;
    return uvec4(place - row * p.out_size.x, row - plane * p.out_size.y, plane % p.out_size.z, plane / p.out_size.z);
}

// Position in the kernel, and the channel.
uvec4 tap_of(uint tap) { return uvec4(tap % KW, tap / KW % KH, tap / (KW * KH) % KD, tap / (KW * KH * KD)); }

void main() {
    const uint t = gl_LocalInvocationID.x;
    const uint result0 = gl_WorkGroupID.x * TILE;
    const uint places = p.out_size.x * p.out_size.y * p.out_size.z * p.images;
    const uint place0 = group_yz() * TILE;
    if (place0 >= places) { return; } // uniform
    const uint taps = p.channels * KW * KH * KD;
    // This invocation loads four taps at one place, and one tap of four results.
    const uvec4 mine = place_of(min(place0 + t % TILE, places - 1));
    const ivec3 corner = ivec3(mine.xyz * uvec3(SX, SY, SZ)) - ivec3(PX, PY, PZ);
    const uint64_t x = at(p.x, uint64_t(mine.w) * p.x_image, 4);
    const uint tx = t % 16;
    const uint ty = t / 16;
    float sum[4][4];
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        [[unroll]] for (uint j = 0; j < 4; ++j) { sum[i][j] = 0.0; }
    }
    for (uint k0 = 0; k0 < taps; k0 += BK) {
        float w[4];
        float y[4];
        const uvec4 of_weight = tap_of(k0 + tx);
        const uint64_t weights = at(p.a, offset3(of_weight.xyz, p.a_nb) + uint64_t(of_weight.w) * p.a_channel, type_size(A));
        [[unroll]] for (uint i = 0; i < 4; ++i) {
            const uint result = result0 + ty + 16 * i;
            w[i] = 0.0;
            if (k0 + tx < taps && result < p.results) {
                w[i] = load(A, at(weights, uint64_t(result) * p.a_result, type_size(A)), 0);
            }
        }
        [[unroll]] for (uint i = 0; i < 4; ++i) {
            const uint tap = k0 + t / TILE + 4 * i;
            const uvec4 of_tap = tap_of(tap);
            const ivec3 q = corner + ivec3(of_tap.xyz * uvec3(DX, DY, DZ));
            y[i] = 0.0;
            if (tap < taps && all(greaterThanEqual(q, ivec3(0))) && all(lessThan(uvec3(q), p.size))) {
                y[i] = F32s(at(x, offset3(uvec3(q), p.x_nb) + uint64_t(of_tap.w) * p.x_channel, 4)).v[0];
            }
        }
        barrier(); // the last step has been read
        [[unroll]] for (uint i = 0; i < 4; ++i) {
            as[tx * (TILE + 1) + ty + 16 * i] = w[i];
            bs[(t / TILE + 4 * i) * (TILE + 1) + t % TILE] = y[i];
        }
        barrier();
        [[unroll]] for (uint l = 0; l < BK; ++l) {
            float av[4];
            float bv[4];
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                av[i] = as[l * (TILE + 1) + ty + 16 * i];
                bv[i] = bs[l * (TILE + 1) + tx + 16 * i];
            }
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                [[unroll]] for (uint j = 0; j < 4; ++j) { sum[i][j] += av[i] * bv[j]; }
            }
        }
    }
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const uint place = place0 + tx + 16 * j;
        if (place < places) {
            const uvec4 o = place_of(place);
            const uint64_t d = at(p.d, offset3(o.xyz, p.d_nb) + uint64_t(o.w) * p.d_image, 4);
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                const uint result = result0 + ty + 16 * i;
                if (result < p.results) { F32s(at(d, uint64_t(result) * p.d_channel, 4)).v[0] = sum[i][j]; }
            }
        }
    }
}
