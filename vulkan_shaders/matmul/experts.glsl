// Products of the columns of tokens with the matrices of their experts (MUL_MAT_ID), and what follows them. Either two
// products and their gated function: a workgroup computes a row for a slot of a token. Or one product, whose results
// are weighted and summed over the slots of a token: a workgroup computes two rows for a token. The includer defines
// STEP, and adds the products of values STEP * i to STEP * i + STEP - 1 of two rows with a column b:
//   void two_parts(uint64_t a0, uint64_t a1, uint64_t b, uint i, inout float sums[2])

const uint NO_GATE = 255;
layout(constant_id = 4) const uint B = 0;          // type of b, or blocks of `product_blocks`
// Number of the gated function. Its argument is the product of a0, its factor the product of a1.
layout(constant_id = 5) const uint GATE = NO_GATE;
layout(constant_id = 6) const bool BIASES = false; // ADD_ID: a row for each expert is added to its products
layout(constant_id = 7) const bool SUMMAND = false; // NO_GATE: a tensor with the shape of d is added
// NO_GATE: slots that the workgroup computes at once. Each has an equal share of the invocations.
layout(constant_id = 8) const uint AT_ONCE = 1;

layout(push_constant, scalar) uniform Experts {
    uint64_t b, a0, a1, d, ids;
    uint64_t s0, s1;  // BIASES: of a0 and of a1; SUMMAND: s1
    uint64_t w;       // weights of the slots; GATE: two parameters of the gated function
    uint k, m, slots, experts; // columns and rows of a matrix
    uvec2 a_nb;       // rows and experts, in blocks
    uvec2 b_nb, d_nb; // slots and tokens; d without slots if these are summed
    uvec2 ids_nb, w_nb; // slots and tokens
    uint bias_nb, summand_nb; // experts; tokens
} p;

void two_parts(uint64_t a0, uint64_t a1, uint64_t b, uint i, inout float sums[2]);

uint64_t of_slot(uint64_t base, uvec2 nb, uint slot, uint token, uint size) {
    return at(base, uint64_t(slot) * nb.x + uint64_t(token) * nb.y, size);
}

uint64_t row_of(uint64_t a, uint id, uint row) { return at(a, uint64_t(id) * p.a_nb.y + uint64_t(row) * p.a_nb.x, BYTES); }

float bias(uint64_t s, uint id, uint row) { return F32s(at(s, uint64_t(id) * p.bias_nb, 4)).v[row]; }

void main() {
    const bool summed = GATE == NO_GATE;
    const uint t = gl_LocalInvocationID.x;
    const uint T = gl_WorkGroupSize.x;
    const uint token = gl_WorkGroupID.z;
    const uint row = summed ? 2 * gl_WorkGroupID.x : gl_WorkGroupID.x;
    const uint next = min(row + 1, p.m - 1);
    const uint first = summed ? 0 : gl_WorkGroupID.y;
    const uint end = summed ? p.slots : first + 1;
    const uint share = T / AT_ONCE;
    const uint lane = AT_ONCE == 1 ? t : t % share;
    float sums[2] = { 0.0, 0.0 };
    for (uint slot = first + (AT_ONCE == 1 ? 0 : t / share); slot < end; slot += AT_ONCE) {
        const int id = I32s(of_slot(p.ids, p.ids_nb, slot, token, 4)).v[0];
        // The product with no expert is 0.
        if (id < 0 || uint(id) >= p.experts) { continue; }
        const uint64_t a0 = row_of(p.a0, id, row);
        const uint64_t a1 = summed ? row_of(p.a0, id, next) : row_of(p.a1, id, row);
        const uint64_t b = of_slot(p.b, p.b_nb, slot, token, B_BYTES);
        float parts[2] = { 0.0, 0.0 };
        for (uint i = lane; i < p.k / STEP; i += share) { two_parts(a0, a1, b, i, parts); }
        if (BIASES && lane == 0) {
            parts[0] += bias(p.s0, id, row);
            parts[1] += summed ? bias(p.s0, id, next) : bias(p.s1, id, row);
        }
        const float weight = summed ? F32s(of_slot(p.w, p.w_nb, slot, token, 4)).v[0] : 1.0;
        sums[0] += weight * parts[0];
        sums[1] += weight * parts[1];
    }
    group_sums(sums);
    if (t != 0) { return; }
    if (summed) {
        F32s d = F32s(at(p.d, uint64_t(token) * p.d_nb.y, 4));
        F32s s = F32s(at(p.s1, uint64_t(token) * p.summand_nb, 4));
        d.v[row] = SUMMAND ? sums[0] + s.v[row] : sums[0];
        if (row < next) { d.v[next] = SUMMAND ? sums[1] + s.v[next] : sums[1]; }
    } else {
        F32s(of_slot(p.d, p.d_nb, first, token, 4)).v[row] = gated(GATE, sums[0], sums[1], uintBitsToFloat(unpackUint2x32(p.w)));
    }
}
