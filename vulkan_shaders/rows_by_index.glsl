// Push constants of set_rows.comp and quantize.comp.
layout(push_constant, scalar) uniform SetRows {
    uint64_t a, ids, d;
    uvec4 ne;      // shape of a
    uint n_rows;
    uint d_ne1;    // rows of d
    uvec2 ids_ne;  // of dimensions 1 and 2
    uvec4 a_nb;
    uvec3 ids_nb;  // of dimensions 0 to 2
    uvec3 d_nb;    // in blocks
} p;
