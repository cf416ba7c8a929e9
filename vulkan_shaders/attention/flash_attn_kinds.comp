#version 460
// For flash_attn_tensor: what the mask does in each of its tiles. All heads that share the mask read this, instead of
// most of the mask. A workgroup has a tile.
#include "common.glsl"
#include "attention/kinds.glsl"

layout(constant_id = 3) const uint ROWS = 64;
layout(constant_id = 4) const uint KEYS = 64;
// Rows begin at multiples of 16 bytes, and the number of keys is a multiple of 8.
layout(constant_id = 5) const bool ALIGNED = false;

layout(push_constant, scalar) uniform Push {
    uint64_t mask;
    uint64_t kinds; // key tiles, tiles of queries, masks
    uint n_queries, n_keys;
    uint mask_ne2;
    uvec3 mask_nb; // dimensions 1 to 3
} p;

const uint EXCLUDED = 1;
const uint ZERO = 2;
const uint OTHER = 4;
shared uint found;

uint look(uint bits) {
    if (bits == 0xfc00u) { return EXCLUDED; }
    return (bits & 0x7fffu) == 0 ? ZERO : OTHER;
}

void main() {
    const uint t = gl_LocalInvocationIndex;
    const uint row0 = gl_WorkGroupID.y * ROWS;
    const uint first = gl_WorkGroupID.x * KEYS;
    const uint rows = min(ROWS, p.n_queries - row0);
    const uint keys = min(KEYS, p.n_keys - first);
    const uvec3 corner = uvec3(row0, gl_WorkGroupID.z % p.mask_ne2, gl_WorkGroupID.z / p.mask_ne2);
    const uint64_t mask = at(p.mask, offset3(corner, p.mask_nb) + first, 2);
    if (t == 0) { found = 0; }
    barrier();
    uint seen = 0;
    if (ALIGNED) {
        const uint pieces = KEYS / 8;
        for (uint i = t; i < ROWS * pieces; i += gl_WorkGroupSize.x) {
            if (i / pieces >= rows || i % pieces * 8 >= keys) { continue; }
            const uvec4 words = floatBitsToUint(F32x4s(at(mask, uint64_t(i / pieces) * p.mask_nb.x, 2)).v[i % pieces]);
            [[unroll]] for (uint j = 0; j < 4; ++j) { seen |= look(words[j] & 0xffffu) | look(words[j] >> 16); }
        }
    } else {
        for (uint i = t; i < ROWS * KEYS; i += gl_WorkGroupSize.x) {
            if (i / KEYS >= rows || i % KEYS >= keys) { continue; }
            seen |= look(uint(U16s(at(mask, uint64_t(i / KEYS) * p.mask_nb.x, 2)).v[i % KEYS]));
        }
    }
    if (seen != 0) { atomicOr(found, seen); }
    barrier();
    if (t == 0) {
        const uint kind = found == EXCLUDED ? NONE : found == ZERO && keys == KEYS ? WHOLE : MIXED;
        const uint tile = (gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y) * gl_NumWorkGroups.x + gl_WorkGroupID.x;
        U32s(p.kinds).v[tile] = kind;
    }
}
