#version 460
// Rotary position embedding: rotates pairs of elements by an angle that is proportional to the position. All modes. An
// invocation rotates pairs, or copies elements outside of the rotated dimensions. Fused with SET_ROWS, an index selects
// the row of d.
#include "common.glsl"
#include "rows.glsl"
#include "rope/turn.glsl"

layout(constant_id = 3) const uint A = 0;
layout(constant_id = 4) const uint D = 0;
layout(constant_id = 5) const uint MODE = 0; // 0 neighbours; 1 halves; 2 mrope, 3 imrope (halves); 4 vision
layout(constant_id = 6) const bool BACK = false;
layout(constant_id = 7) const bool FACTORS = false;
layout(constant_id = 8) const uint INDEX = 0; // type of the index of SET_ROWS (I32, I64), or 0

layout(push_constant, scalar) uniform Push {
    uint64_t a, d, pos, factors, index;
    uvec3 ne;         // columns, heads, tokens
    uint n_rows;
    uvec4 a_nb;
    uvec3 d_nb;       // strides of dimensions 1 to 3; INDEX: of head, row, nothing
    uint d_rows;      // INDEX: number of rows
    uint n_dims, offset;
    float theta_scale, freq_scale, ext_factor, attn_factor, corr_low, corr_high;
    uint sections;    // four bytes
} p;

uint axis(uint sector, uvec4 s) {
    if (MODE == 3) {
        const uint m = sector % 3;
        if (m == 1 && sector < 3 * s.y) { return 1; }
        if (m == 2 && sector < 3 * s.z) { return 2; }
        if (m == 0 && sector < 3 * s.x) { return 0; }
        return 3;
    }
    if (sector < s.x) { return 0; }
    if (sector < s.x + s.y) { return 1; }
    return sector < s.x + s.y + s.z ? 2 : 3;
}

// Cosine and sine of the angle for a pair of a token.
vec2 turn(uint pair, uint token) {
    float angle;
    if (MODE < 2) {
        angle = float(I32s(p.pos).v[token]) * pow(p.theta_scale, float(pair));
    } else {
        const uvec4 s = uvec4(p.sections & 255u, (p.sections >> 8) & 255u, (p.sections >> 16) & 255u, p.sections >> 24);
        const uint cycle = s.x + s.y + s.z + s.w;
        const uint sector = pair % cycle;
        const uint k = axis(sector, s);
        uint power = pair;
        if (MODE == 4) {
            // Pairs are counted from the start of each section.
            const uint starts[4] = uint[](0, s.x, s.x + s.y, s.x + s.y + s.z);
            power = sector - starts[k];
        }
        angle = float(I32s(p.pos).v[token + k * p.ne.z]) * pow(p.theta_scale, float(power));
    }
    if (FACTORS) { angle /= F32s(p.factors).v[pair]; }
    const vec2 t = turn_by(angle, pair, p.freq_scale, p.ext_factor, p.attn_factor, vec2(p.corr_low, p.corr_high));
    return vec2(t.x, BACK ? -t.y : t.y);
}

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z); // head, token, sequence
    const uint64_t a = at(p.a, offset3(i, p.a_nb.yzw), type_size(A));
    uint64_t d;
    if (INDEX == 0) {
        d = at(p.d, offset3(i, p.d_nb), type_size(D));
    } else {
        int64_t to;
        if (INDEX == I64) { to = I64s(p.index).v[i.y]; } else { to = int64_t(I32s(p.index).v[i.y]); }
        if (to < 0 || to >= int64_t(p.d_rows)) { return; }
        d = at(p.d, uint64_t(i.x) * p.d_nb.x + uint64_t(to) * p.d_nb.y, type_size(D));
    }
    // Number of rotated pairs. Other pairs are copied.
    const uint turned = MODE == 4 ? p.n_dims : p.n_dims / 2;
    for (uint c = first_column(); c < p.ne.x / 2; c += column_step()) {
        uint c0, c1;
        if (c >= turned) {
            // Elements 2 * c and 2 * c + 1, after the rotated ones.
            c0 = 2 * c;
            c1 = c0 + 1;
            if (p.offset > 0) {
                const uint k = c0 - 2 * turned;
                c0 = k < p.offset ? k : k + 2 * turned;
                c1 = k + 1 < p.offset ? k + 1 : k + 1 + 2 * turned;
            }
            store(D, d, c0, load(A, a, c0 * p.a_nb.x));
            store(D, d, c1, load(A, a, c1 * p.a_nb.x));
            continue;
        }
        if (MODE == 0) {
            c0 = p.offset + 2 * c;
            c1 = c0 + 1;
        } else {
            c0 = p.offset + c;
            c1 = c0 + turned;
        }
        const vec2 t = turn(c, i.y);
        const float x0 = load(A, a, c0 * p.a_nb.x);
        const float x1 = load(A, a, c1 * p.a_nb.x);
        store(D, d, c0, x0 * t.x - x1 * t.y);
        store(D, d, c1, x0 * t.y + x1 * t.x);
    }
}
