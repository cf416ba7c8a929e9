#version 460
// d[i, j] = sum over k of a[i, k] * b[j, k], in tiles of 64 by 64 through shared memory, in steps of 16 k. Rows of a
// and b are rows of a tile, so they are read as they are. A workgroup has 256 invocations, and each computes 4 by 4
// results.
#include "common.glsl"

layout(constant_id = 3) const uint A = 0; // type of a

layout(push_constant, scalar) uniform Push {
    uint64_t a, b, d;
    uint m, n, k;
    uint ne2;          // matrices of d in dimension 2
    uint n_matrices;
    uvec2 repeat;      // matrices of d for each of a
    uvec4 a_nb, b_nb, d_nb;
    uint tiles;        // along m
} p;

const uint TILE = 64;
const uint BK = 16;
shared float as[BK * TILE];
shared float bs[BK * TILE];

void main() {
    const uint t = gl_LocalInvocationID.x;
    const uint i0 = gl_WorkGroupID.x % p.tiles * TILE;
    const uint j0 = gl_WorkGroupID.x / p.tiles * TILE;
    const uint matrix = group_yz();
    if (matrix >= p.n_matrices) { return; } // uniform
    const uvec2 i23 = uvec2(matrix % p.ne2, matrix / p.ne2);
    const uint64_t a = at(p.a, offset3(uvec3(0, i23 / p.repeat), p.a_nb.yzw), type_size(A));
    const uint64_t b = at(p.b, offset3(uvec3(0, i23), p.b_nb.yzw), 4);
    const uint64_t d = at(p.d, offset3(uvec3(0, i23), p.d_nb.yzw), 4);
    const uint line = t % TILE;
    const uint tx = t % 16;
    const uint ty = t / 16;
    const uint ia = min(i0 + line, p.m - 1) * p.a_nb.x;
    const uint ib = min(j0 + line, p.n - 1) * p.b_nb.x;
    float sum[4][4];
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        [[unroll]] for (uint j = 0; j < 4; ++j) { sum[i][j] = 0.0; }
    }
    for (uint k0 = 0; k0 < p.k; k0 += BK) {
        float x[4];
        float y[4];
        [[unroll]] for (uint l = 0; l < 4; ++l) {
            const uint k = k0 + t / TILE + 4 * l;
            x[l] = 0.0;
            y[l] = 0.0;
            if (k < p.k) {
                x[l] = load(A, at(a, uint64_t(k) * p.a_nb.y, type_size(A)), ia);
                y[l] = F32s(at(b, uint64_t(k) * p.b_nb.y, 4)).v[ib];
            }
        }
        barrier(); // the last step has been read
        [[unroll]] for (uint l = 0; l < 4; ++l) {
            as[(t / TILE + 4 * l) * TILE + line] = x[l];
            bs[(t / TILE + 4 * l) * TILE + line] = y[l];
        }
        barrier();
        [[unroll]] for (uint l = 0; l < BK; ++l) {
            float av[4];
            float bv[4];
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                av[i] = as[l * TILE + tx + 16 * i];
                bv[i] = bs[l * TILE + ty + 16 * i];
            }
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                [[unroll]] for (uint j = 0; j < 4; ++j) { sum[i][j] += av[i] * bv[j]; }
            }
        }
    }
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const uint row = j0 + ty + 16 * j;
        if (row < p.n) {
            F32s line = F32s(at(d, uint64_t(row) * p.d_nb.y, 4));
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                const uint column = i0 + tx + 16 * i;
                if (column < p.m) { line.v[column * p.d_nb.x] = sum[i][j]; }
            }
        }
    }
}
