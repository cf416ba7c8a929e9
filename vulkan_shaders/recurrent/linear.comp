#version 460
// Recurrences over the tokens of a sequence with a square matrix as the state of each head. For a row s of the state
// with its own v:
//   0 RWKV-6: y = sum of (s + v k bonus) r, then s = s decay + v k
//   1 gated linear attention: s = s gate + v k, then y = scale * sum of s q
//   2 RWKV-7: s = s decay + v k + (s . a) b, then y = s . r
// The inputs are contiguous, N numbers for each head of each token. The states of 0 and 1 are transposed in memory. d
// has the outputs, then the last states.
#include "common.glsl"
#include "recurrent/state.glsl"

layout(constant_id = 6) const uint OP = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t k, v, q, decay; // q: also r
    uint64_t a, b;           // RWKV-7; a: also the bonus of RWKV-6, for each head
    uint64_t s0, d;
    uint heads, tokens, sequences; // tokens of a sequence
    uint n_groups;
    float scale;
} p;

void main() {
    const uint group = group_xyz();
    const uint per_head = (N + state_rows() - 1) / state_rows();
    if (group >= p.n_groups) { return; } // uniform
    const uint unit = group / per_head; // sequence and head
    const uint head = unit % p.heads;
    const uint sequence = unit / p.heads;
    const uint mine = (group - unit * per_head) * state_rows() + my_state_row();
    const bool live = mine < N;
    const uint row = live ? mine : 0;
    const uint step = OP == 2 ? 1 : N;
    const uint64_t place = uint64_t(unit) * N * N + row * (OP == 2 ? N : 1);
    load_state(at(p.s0, place, 4), step);
    const uint width = p.heads * N;
    for (uint token = 0; token < p.tokens; ++token) {
        const uint64_t first = (uint64_t(sequence) * p.tokens + loaded(token, p.tokens)) * width + head * N;
        F32s k = F32s(at(p.k, first, 4));
        F32s q = F32s(at(p.q, first, 4));
        F32s decay = F32s(at(p.decay, first, 4));
        F32s a = F32s(at(p.a, OP == 0 ? uint64_t(head * N) : first, 4));
        F32s b = F32s(at(p.b, first, 4));
        const float v = F32s(at(p.v, first, 4)).v[row];
        float along = 0.0;
        if (OP == 2) {
            [[unroll]] for (uint j = 0; j < PER; ++j) {
                const uint c = state_column(j);
                if (c < N) { along += state[j] * a.v[c]; }
            }
            along = row_sum(along);
        }
        float y = 0.0;
        [[unroll]] for (uint j = 0; j < PER; ++j) {
            const uint c = state_column(j);
            if (c < N) {
                const float kv = v * k.v[c];
                const float s = state[j];
                float next = s * decay.v[c] + kv;
                if (OP == 2) { next += along * b.v[c]; }
                y += (OP == 0 ? s + kv * a.v[c] : next) * q.v[c];
                state[j] = next;
            }
        }
        y = row_sum(y);
        if (live && lane() == 0) { F32s(at(p.d, first, 4)).v[row] = OP == 1 ? y * p.scale : y; }
    }
    if (live) { store_state(at(p.d, uint64_t(p.sequences) * p.tokens * width + place, 4), step); }
}
