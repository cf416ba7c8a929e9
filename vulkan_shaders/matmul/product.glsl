// For all matrix products: push constants, and the columns of a workgroup. d = a * b: row m of a times column n of b,
// both with k contiguous values. Include it after common.glsl and quant.glsl. FIRST is the number of the first
// constant.
#ifndef FIRST
#define FIRST 3
#endif

layout(constant_id = FIRST) const uint B = 0; // type of b, or BLOCKS
layout(constant_id = FIRST + 1) const uint COLUMNS = 0; // one of the three below

const uint ALL = 0;  // all columns of all matrices; several matrices of b may share one of a
// MUL_MAT_ID: y and z of a workgroup are slot and token. `ids` has their expert, which is a matrix of a.
const uint PAIR = 1;
const uint LIST = 2; // MUL_MAT_ID: y of a workgroup is a tile of `product_lists`: columns with the same expert

const uint BLOCKS = 64; // blocks of `product_blocks`; not a number of ggml_type

layout(push_constant, scalar) uniform Product {
    uint64_t a, b, d;
    uint64_t ids;     // PAIR: the experts; LIST: numbers of pairs, sorted by expert
    uint64_t tiles;   // LIST: expert, first, end
    uint k, m, n;     // LIST: n is the number of slots
    uint a_ne2, a_ne3; // ALL: matrices of b for each of a, dimensions 2 and 3; otherwise a_ne2 is the number of experts
    // ALL: matrices of d in dimension 2. Otherwise the columns of b for a token: one for all slots, or one for each.
    uint b_ne2;
    uvec3 a_nb;        // dimensions 1 to 3, in blocks
    uvec3 b_nb;
    uvec3 d_nb;
    uvec2 ids_nb;
} p;

uint b_bytes() { return B == BLOCKS ? 40 : type_size(B); }

// Work of a workgroup: matrices, and columns `first` to `end` - 1. There may be no columns.
struct Work {
    uint64_t a, b, d;
    uint first, end;
};

uint64_t expert(uint id) { return at(p.a, uint64_t(id) * p.a_nb.y, BYTES); }

Work work(uint width) {
    Work w;
    const uint y = gl_WorkGroupID.y;
    const uint z = gl_WorkGroupID.z;
    if (COLUMNS == ALL) {
        const uint i2 = z % p.b_ne2;
        const uint i3 = z / p.b_ne2;
        w.a = at(p.a, offset3(uvec3(0, i2 / p.a_ne2, i3 / p.a_ne3), p.a_nb), BYTES);
        w.b = at(p.b, offset3(uvec3(0, i2, i3), p.b_nb), b_bytes());
        w.d = at(p.d, offset3(uvec3(0, i2, i3), p.d_nb), 4);
        w.first = y * width;
        w.end = min(p.n, w.first + width);
    } else if (COLUMNS == PAIR) {
        const int id = I32s(at(p.ids, uint64_t(z) * p.ids_nb.y + uint64_t(y) * p.ids_nb.x, 4)).v[0];
        const bool there = id >= 0 && uint(id) < p.a_ne2;
        w.a = expert(there ? uint(id) : 0);
        w.b = at(p.b, uint64_t(y % p.b_ne2) * p.b_nb.x + uint64_t(z) * p.b_nb.y, b_bytes());
        w.d = at(p.d, uint64_t(y) * p.d_nb.x + uint64_t(z) * p.d_nb.y, 4);
        w.first = 0;
        w.end = there ? 1 : 0;
    } else {
        U32s tile = U32s(at(p.tiles, uint64_t(y) * 3, 4));
        w.a = expert(tile.v[0]);
        w.b = p.b;
        w.d = p.d;
        w.first = tile.v[1];
        w.end = tile.v[2];
    }
    return w;
}

uint64_t a_row(Work w, uint row) { return at(w.a, uint64_t(row) * p.a_nb.x, BYTES); }

// Column c of b, or the last one if c is larger.
uint64_t b_column(Work w, uint c) {
    c = min(c, w.end - 1);
    if (COLUMNS == LIST) {
        const uint pair = U32s(p.ids).v[c];
        return at(w.b, uint64_t(pair % p.n % p.b_ne2) * p.b_nb.x + uint64_t(pair / p.n) * p.b_nb.y, b_bytes());
    }
    return COLUMNS == PAIR ? w.b : at(w.b, uint64_t(c) * p.b_nb.x, b_bytes());
}

// Column c of d, which must exist.
F32s d_column(Work w, uint c) {
    if (COLUMNS == LIST) {
        const uint pair = U32s(p.ids).v[c];
        return F32s(at(w.d, uint64_t(pair % p.n) * p.d_nb.x + uint64_t(pair / p.n) * p.d_nb.y, 4));
    }
    return F32s(COLUMNS == PAIR ? w.d : at(w.d, uint64_t(c) * p.d_nb.x, 4));
}

// PAIR: the result of a slot without an expert is 0.
void no_expert(Work w, uint row) {
    if (COLUMNS == PAIR && row < p.m) { F32s(w.d).v[row] = 0.0; }
}
