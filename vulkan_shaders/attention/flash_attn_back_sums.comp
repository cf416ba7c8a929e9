#version 460
// Gradients of attention, second step, from rows of P and dS with a float for each key. Of keys (OF 0): the sum over
// queries of dS * q. Of values (1), which are transposed: the sum over queries of P * dy. Of queries (2): the sum over
// keys of dS * k.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint OF = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t s, x, d;      // dS or P; q, dy or k
    uvec3 ne;              // shape of d, without the batch: columns, rows, groups or heads
    uint n_rows;
    uint n, m, heads, groups; // queries, keys
    uvec3 x_nb;            // dimensions 1 to 3; rows are contiguous
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    F32s d = F32s(at(p.d, uint64_t(r) * p.ne.x, 4));
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        float sum = 0.0;
        if (OF == 2) {
            F32s row = F32s(at(p.s, uint64_t(r) * p.m, 4));
            for (uint key = 0; key < p.m; ++key) {
                sum += row.v[key] * F32s(at(p.x, offset3(uvec3(key, i.y % p.groups, i.z), p.x_nb), 4)).v[c];
            }
            d.v[c] = sum;
            continue;
        }
        const uint key = OF == 1 ? c : i.x;
        const uint column = OF == 1 ? i.x : c;
        for (uint head = i.y; head < p.heads; head += p.groups) {
            for (uint query = 0; query < p.n; ++query) {
                const uint64_t row = (uint64_t(i.z) * p.heads + head) * p.n + query;
                const float x = F32s(at(p.x, offset3(uvec3(query, head, i.z), p.x_nb), 4)).v[column];
                sum += F32s(at(p.s, row * p.m, 4)).v[key] * x;
            }
        }
        d.v[c] = sum;
    }
}
