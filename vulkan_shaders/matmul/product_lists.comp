#version 460
// For MUL_MAT_ID with tiles: sorts the pairs of token and slot by expert, and makes tiles of at most `width` pairs with
// the same expert. There is one workgroup. It counts the pairs of each expert, adds up, and assigns positions. Pairs
// with an id out of range are in no list; this shader writes their results, which are 0. The order of the pairs of an
// expert may vary, but results do not depend on it.
#extension GL_KHR_memory_scope_semantics : require
#include "common.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t ids, pairs, tiles, d;
    uint slots, n_pairs;
    uint experts; // at most EXPERTS
    uint width;
    uint n_tiles; // maximum number of tiles
    uvec2 ids_nb;
    uint m;     // values of a result
    uvec2 d_nb; // dimensions 1 and 2
} p;

const uint EXPERTS = 1024;
shared uint places[EXPERTS]; // number of pairs of an expert, then the position of its next pair
shared uint used;
shared uint absent; // pairs without an expert

// Increments the entry of an expert. Returns its old value. Device scope would need another feature, and workgroup
// scope is enough.
uint next(uint e) { return atomicAdd(places[e], 1, gl_ScopeWorkgroup, 0, gl_SemanticsRelaxed); }

// The expert of a pair, or `experts`.
uint expert_of(uint pair) {
    const int id = I32s(at(p.ids, uint64_t(pair / p.slots) * p.ids_nb.y + uint64_t(pair % p.slots) * p.ids_nb.x, 4)).v[0];
    return id >= 0 && uint(id) < p.experts ? uint(id) : p.experts;
}

void main() {
    const uint t = gl_LocalInvocationID.x;
    const uint T = gl_WorkGroupSize.x;
    for (uint e = t; e < p.experts; e += T) { places[e] = 0; }
    if (t == 0) { absent = 0; }
    barrier();
    for (uint i = t; i < p.n_pairs; i += T) {
        const uint e = expert_of(i);
        if (e < p.experts) { next(e); } else { atomicAdd(absent, 1, gl_ScopeWorkgroup, 0, gl_SemanticsRelaxed); }
    }
    barrier();
    if (t == 0) {
        uint start = 0, tile = 0;
        for (uint e = 0; e < p.experts; ++e) {
            const uint end = start + places[e];
            places[e] = start;
            for (; start < end && tile < p.n_tiles; start = min(start + p.width, end), ++tile) {
                U32s to = U32s(at(p.tiles, uint64_t(tile) * 3, 4));
                to.v[0] = e;
                to.v[1] = start;
                to.v[2] = min(start + p.width, end);
            }
        }
        used = tile;
    }
    barrier();
    for (uint i = used + t; i < p.n_tiles; i += T) {
        U32s to = U32s(at(p.tiles, uint64_t(i) * 3, 4));
        to.v[0] = 0;
        to.v[1] = 0;
        to.v[2] = 0;
    }
    for (uint i = t; i < p.n_pairs; i += T) {
        const uint e = expert_of(i);
        if (e < p.experts) { U32s(p.pairs).v[next(e)] = i; }
    }
    if (absent == 0) { return; }
    for (uint i = 0; i < p.n_pairs; ++i) {
        if (expert_of(i) < p.experts) { continue; }
        F32s d = F32s(at(p.d, uint64_t(i % p.slots) * p.d_nb.x + uint64_t(i / p.slots) * p.d_nb.y, 4));
        for (uint row = t; row < p.m; row += T) { d.v[row] = 0.0; }
    }
}
