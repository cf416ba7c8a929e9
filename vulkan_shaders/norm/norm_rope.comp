#version 460
// RMS_NORM of the heads of one or two tensors (queries and keys), times a weight, and their rotation (RoPE). A
// workgroup computes a head of a token. The heads of a token of one tensor may go to a row by index (SET_ROWS).
#include "common.glsl"
#include "reduce.glsl"
#include "rope/turn.glsl"

layout(constant_id = 4) const uint ROWS = 2; // the tensor that goes to rows by index: 0, 1, or 2 for none
layout(constant_id = 5) const uint ROWS_TYPE = 0; // type of these rows
layout(constant_id = 6) const uint INDEX = 26;
// The rotation is that of the model, so its parameters are constants. Floats are passed as their bits.
layout(constant_id = 7) const bool HALVES = false; // pairs are in two halves (NEOX), not neighbours
layout(constant_id = 8) const bool FACTORS = false;
layout(constant_id = 9) const uint DIMS = 2; // rotated values of a head
layout(constant_id = 10) const uint THETA_SCALE = 0;
layout(constant_id = 11) const uint FREQ_SCALE = 0;
layout(constant_id = 12) const uint EXT_FACTOR = 0;
layout(constant_id = 13) const uint ATTN_FACTOR = 0;
layout(constant_id = 14) const uint CORR_LOW = 0;
layout(constant_id = 15) const uint CORR_HIGH = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t a0, a1, w0, w1, d0, d1;
    uint64_t index, position, factors;
    uint columns, heads0, heads1, tokens;
    uvec2 a0_nb, a1_nb, d0_nb, d1_nb; // heads, tokens; rows by index instead of tokens
    uint rows; // number of rows by index
    float eps;
} p;

void main() {
    const uint r = group_xyz();
    const uint heads = p.heads0 + p.heads1;
    if (r >= heads * p.tokens) { return; } // uniform
    const uint i = gl_LocalInvocationID.x;
    const uint T = gl_WorkGroupSize.x;
    const uint token = r / heads;
    uint head = r - token * heads;
    const bool second = head >= p.heads0;
    if (second) { head -= p.heads0; }
    const uvec2 a_nb = second ? p.a1_nb : p.a0_nb;
    const uvec2 d_nb = second ? p.d1_nb : p.d0_nb;
    F32s a = F32s(at(second ? p.a1 : p.a0, uint64_t(head) * a_nb.x + uint64_t(token) * a_nb.y, 4));
    F32s w = F32s(second ? p.w1 : p.w0);
    float squares = 0.0;
    for (uint c = i; c < p.columns; c += T) { squares += a.v[c] * a.v[c]; }
    const float factor = inversesqrt(group_sum(squares) / float(p.columns) + p.eps);

    const bool indexed = ROWS == (second ? 1 : 0);
    int64_t row = int64_t(token);
    if (indexed) {
        if (INDEX == I64) { row = I64s(p.index).v[token]; } else { row = int64_t(I32s(p.index).v[token]); }
        if (row < 0 || row >= int64_t(p.rows)) { return; }
    }
    const uint64_t d = at(second ? p.d1 : p.d0, uint64_t(head) * d_nb.x + uint64_t(row) * d_nb.y, indexed ? type_size(ROWS_TYPE) : 4);
    const float position = float(I32s(p.position).v[token]);
    const vec2 corr = vec2(uintBitsToFloat(CORR_LOW), uintBitsToFloat(CORR_HIGH));
    for (uint pair = i; pair < p.columns / 2; pair += T) {
        const bool turned = pair < DIMS / 2;
        const uvec2 c = HALVES && turned ? uvec2(pair, pair + DIMS / 2) : uvec2(2 * pair, 2 * pair + 1);
        float x0 = a.v[c.x] * factor * w.v[c.x];
        float x1 = a.v[c.y] * factor * w.v[c.y];
        if (turned) {
            float angle = position * pow(uintBitsToFloat(THETA_SCALE), float(pair));
            if (FACTORS) { angle /= F32s(p.factors).v[pair]; }
            const vec2 t = turn_by(angle, pair, uintBitsToFloat(FREQ_SCALE), uintBitsToFloat(EXT_FACTOR), uintBitsToFloat(ATTN_FACTOR), corr);
            const float y = x0 * t.x - x1 * t.y;
            x1 = x0 * t.y + x1 * t.x;
            x0 = y;
        }
        if (indexed) {
            store(ROWS_TYPE, d, c.x, x0);
            store(ROWS_TYPE, d, c.y, x1);
        } else {
            F32s(d).v[c.x] = x0;
            F32s(d).v[c.y] = x1;
        }
    }
}
