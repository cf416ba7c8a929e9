#version 460
// Gradient of get_rows: adds rows of a to the rows of d that the indices select. d is 0 before. The first row of a with
// an index adds all rows with this index, in their order, so that no two invocations write one element. Rows with an
// index out of range are skipped.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint A = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t a, ids, d;
    uint columns, n_rows; // of a, as many as there are indices
    uint d_ne1;
    uvec2 a_nb;
    uint ids_nb;
    uint d_nb;
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    I32s ids = I32s(p.ids);
    const int id = ids.v[r * p.ids_nb];
    if (id < 0 || uint(id) >= p.d_ne1) { return; }
    for (uint j = 0; j < r; ++j) {
        if (ids.v[j * p.ids_nb] == id) { return; }
    }
    F32s d = F32s(at(p.d, uint64_t(uint(id)) * p.d_nb, 4));
    for (uint c = first_column(); c < p.columns; c += column_step()) {
        float sum = 0.0;
        for (uint j = r; j < p.n_rows; ++j) {
            if (ids.v[j * p.ids_nb] == id) { sum += load(A, at(p.a, uint64_t(j) * p.a_nb.y, type_size(A)), c * p.a_nb.x); }
        }
        d.v[c] = sum;
    }
}
