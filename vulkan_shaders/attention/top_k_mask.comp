#version 460
// Copies the cells of a mask that each row keeps to d, which is minus infinity before. `ids` has the cells, or (BLOCKS)
// the numbers of blocks of cells. With SCORE, only those with a score above minus infinity count. Cells out of range
// are skipped. Equal cells write the same value.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const bool SCORE = false;
layout(constant_id = 4) const bool BLOCKS = false;
layout(constant_id = 5) const uint BYTES = 4; // of an element of the mask

layout(push_constant, scalar) uniform Push {
    uint64_t mask, ids, score, blocks, d; // blocks are contiguous
    uint cells;    // in a row of the mask
    uint picks;    // number of cells or blocks to select from
    uint width;    // cells of a block, or 1
    uint k;        // ids in a row
    uint n_rows, ne1, ne2;
    uvec3 mask_ne; // of dimensions 1 to 3
    uvec3 mask_nb, ids_nb, score_nb, d_nb; // likewise; rows are contiguous
} p;

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne1, p.ne2);
    I32s ids = I32s(at(p.ids, offset3(i, p.ids_nb), 4));
    F32s score = F32s(at(p.score, offset3(i, p.score_nb), 4));
    const uint64_t mask = at(p.mask, offset3(i % p.mask_ne, p.mask_nb), BYTES);
    const uint64_t d = at(p.d, offset3(i, p.d_nb), BYTES);
    for (uint c = first_column(); c < p.k * p.width; c += column_step()) {
        int cell = ids.v[c / p.width];
        if (cell < 0 || uint(cell) >= p.picks) { continue; }
        if (SCORE && (is_minus_infinity(score.v[cell]) || is_nan(score.v[cell]))) { continue; }
        if (BLOCKS) { cell = I32s(at(p.blocks, uint64_t(uint(cell)) * p.width, 4)).v[c % p.width]; }
        if (cell < 0 || uint(cell) >= p.cells) { continue; }
        if (BYTES == 2) { U16s(d).v[cell] = U16s(mask).v[cell]; }
        else { U32s(d).v[cell] = U32s(mask).v[cell]; }
    }
}
