#version 460
// Gated delta rule. For a row s of the state of a head with its own v: s = s * exp(gate), then s = s + ((v - s . k) *
// beta) * k, then y = (s . q) * scale. d has the outputs, then the states after the last tokens, the last ones first.
#include "common.glsl"
#include "recurrent/state.glsl"

layout(constant_id = 6) const bool EACH = false; // a gate for each column

layout(push_constant, scalar) uniform Push {
    uint64_t q, k, v, gate, beta, s0, d; // gate, beta and s0 are contiguous
    uint heads, tokens, sequences, kept;
    uint key_heads;      // two halves: of q, of k
    uint key_sequences;  // sequences that share those of q, of k
    uint n_groups;
    uvec3 q_nb, k_nb;    // heads, tokens, sequences
    uvec3 v_nb;
} p;

void main() {
    const uint group = group_xyz();
    if (group >= p.n_groups) { return; } // uniform
    const uint per_head = (N + state_rows() - 1) / state_rows();
    const uint unit = group / per_head; // sequence and head
    const uint head = unit % p.heads;
    const uint sequence = unit / p.heads;
    const uint mine = (group - unit * per_head) * state_rows() + my_state_row();
    const bool live = mine < N;
    const uint row = live ? mine : 0;
    const uint64_t place = (uint64_t(unit) * N + row) * N;
    load_state(at(p.s0, place, 4), 1);
    const uint64_t q0 = at(p.q, uint64_t(head % (p.key_heads & 65535u)) * p.q_nb.x
        + uint64_t(sequence / (p.key_sequences & 65535u)) * p.q_nb.z, 4);
    const uint64_t k0 = at(p.k, uint64_t(head % (p.key_heads >> 16)) * p.k_nb.x
        + uint64_t(sequence / (p.key_sequences >> 16)) * p.k_nb.z, 4);
    const uint64_t v0 = at(p.v, uint64_t(head) * p.v_nb.x + uint64_t(sequence) * p.v_nb.z + row, 4);
    const uint64_t outputs = uint64_t(p.sequences) * p.tokens * p.heads * N;
    const float scale = inversesqrt(float(N));
    for (uint token = 0; token < p.tokens; ++token) {
        const uint from = loaded(token, p.tokens);
        const uint64_t before = (uint64_t(sequence) * p.tokens + from) * p.heads + head;
        F32s q = F32s(at(q0, uint64_t(from) * p.q_nb.y, 4));
        F32s k = F32s(at(k0, uint64_t(from) * p.k_nb.y, 4));
        F32s gate = F32s(at(p.gate, before * (EACH ? N : 1), 4));
        const float v = F32s(at(v0, uint64_t(from) * p.v_nb.y, 4)).v[0];
        const float beta = F32s(at(p.beta, before, 4)).v[0];
        float decay = EACH ? 0.0 : exp(gate.v[0]);
        float known = 0.0;
        [[unroll]] for (uint j = 0; j < PER; ++j) {
            const uint c = state_column(j);
            if (c < N) {
                if (EACH) { decay = exp(gate.v[c]); }
                state[j] *= decay;
                known += state[j] * k.v[c];
            }
        }
        const float delta = (v - row_sum(known)) * beta;
        float y = 0.0;
        [[unroll]] for (uint j = 0; j < PER; ++j) {
            const uint c = state_column(j);
            if (c < N) {
                state[j] += delta * k.v[c];
                y += state[j] * q.v[c];
            }
        }
        y = row_sum(y) * scale;
        if (live && lane() == 0) { F32s(at(p.d, before * N + row, 4)).v[0] = y; }
        const uint back = p.tokens - 1 - token;
        if (live && back < p.kept) {
            store_state(at(p.d, outputs + uint64_t(back) * p.sequences * p.heads * N * N + place, 4), 1);
        }
    }
}
