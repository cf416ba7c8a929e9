#version 460
// Selective scan of state-space models. For a row s of the state of a head with its own x: s = s * exp(step * a) + (x *
// step) * b, then y = s . c, where step = softplus(dt). d has the outputs, then the states after the last tokens, the
// last ones first. If the index of a state is out of range, the state starts at 0.
#include "common.glsl"
#include "recurrent/state.glsl"

layout(constant_id = 6) const bool EACH = false; // a has a number for each column

layout(push_constant, scalar) uniform Push {
    uint64_t s0, x, dt, a, b, c, ids, d;
    uint dim, heads, tokens, sequences;
    uint groups, states, kept; // groups of heads with the same b and c
    uint n_groups;
    uvec2 x_nb;    // tokens, sequences; b likewise
    uvec2 b_nb;
    uvec2 c_nb;
} p;

void main() {
    const uint group = group_xyz();
    if (group >= p.n_groups) { return; } // uniform
    const uint all = p.dim * p.heads;
    const uint per_sequence = (all + state_rows() - 1) / state_rows();
    const uint sequence = group / per_sequence;
    const uint mine = (group - sequence * per_sequence) * state_rows() + my_state_row();
    const bool live = mine < all;
    const uint row = live ? mine : 0; // of all heads
    const uint head = row / p.dim;
    const int id = I32s(p.ids).v[sequence];
    const bool there = id >= 0 && uint(id) < p.states;
    load_state(at(p.s0, (uint64_t(there ? uint(id) : 0) * all + row) * N, 4), 1);
    if (!there) {
        [[unroll]] for (uint j = 0; j < PER; ++j) { state[j] = 0.0; }
    }
    F32s rate = F32s(at(p.a, uint64_t(head) * (EACH ? N : 1), 4));
    const uint of_head = head / (p.heads / p.groups) * N;
    const uint64_t outputs = uint64_t(p.sequences) * p.tokens * all;
    for (uint token = 0; token < p.tokens; ++token) {
        const uint from = loaded(token, p.tokens);
        const uint64_t before = uint64_t(sequence) * p.tokens + from;
        const float t = F32s(at(p.dt, before * p.heads + head, 4)).v[0];
        const float step = t > 20.0 ? t : log(1.0 + exp(t));
        const float x = F32s(at(p.x, uint64_t(sequence) * p.x_nb.y + uint64_t(from) * p.x_nb.x, 4)).v[row] * step;
        F32s b = F32s(at(p.b, uint64_t(sequence) * p.b_nb.y + uint64_t(from) * p.b_nb.x + of_head, 4));
        F32s c = F32s(at(p.c, uint64_t(sequence) * p.c_nb.y + uint64_t(from) * p.c_nb.x + of_head, 4));
        float decay = EACH ? 0.0 : exp(step * rate.v[0]);
        float y = 0.0;
        [[unroll]] for (uint j = 0; j < PER; ++j) {
            const uint column = state_column(j);
            if (column < N) {
                if (EACH) { decay = exp(step * rate.v[column]); }
                state[j] = state[j] * decay + x * b.v[column];
                y += state[j] * c.v[column];
            }
        }
        y = row_sum(y);
        if (live && lane() == 0) { F32s(at(p.d, before * all + row, 4)).v[0] = y; }
        const uint back = p.tokens - 1 - token;
        if (live && back < p.kept) {
            store_state(at(p.d, outputs + ((uint64_t(back) * p.sequences + sequence) * all + row) * N, 4), 1);
        }
    }
}
