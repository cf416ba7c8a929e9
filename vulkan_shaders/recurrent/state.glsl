// Recurrences whose state is a matrix for each head. A row of the matrix needs no other row, so LANES neighbouring
// invocations hold a row in registers over all tokens: each has every LANES-th of its N columns. Include it after
// common.glsl. Constants 3 to 5 are the columns, the lanes, and the columns of a lane.
layout(constant_id = 3) const uint N = 1;
layout(constant_id = 4) const uint LANES = 1;
layout(constant_id = 5) const uint PER = 1;

float state[PER];

const uint MOST_THREADS = 256;
shared float parts[MOST_THREADS];

uint lane() { return gl_LocalInvocationID.x % LANES; }
// Row within the workgroup, and number of rows of a workgroup.
uint my_state_row() { return gl_LocalInvocationID.x / LANES; }
uint state_rows() { return gl_WorkGroupSize.x / LANES; }

// Column number j of this lane. Columns from N on do not exist.
uint state_column(uint j) { return lane() + j * LANES; }

// Sum over the lanes of a row. All invocations of the workgroup must call it.
float row_sum(float x) {
    if (LANES == 1) { return x; }
    barrier(); // the last sum has been read
    parts[gl_LocalInvocationID.x] = x;
    barrier();
    float sum = 0.0;
    [[unroll]] for (uint l = 0; l < LANES; ++l) { sum += parts[my_state_row() * LANES + l]; }
    return sum;
}

// Copies the state from or to memory, columns `step` elements apart.
void load_state(uint64_t from, uint step) {
    [[unroll]] for (uint j = 0; j < PER; ++j) {
        const uint c = state_column(j);
        state[j] = 0.0;
        if (c < N) { state[j] = F32s(from).v[c * step]; }
    }
}

void store_state(uint64_t to, uint step) {
    [[unroll]] for (uint j = 0; j < PER; ++j) {
        const uint c = state_column(j);
        if (c < N) { F32s(to).v[c * step] = state[j]; }
    }
}

// The token whose data are loaded. Mesa's software driver runs the body of a loop once more after its end, with no
// invocation active, but not without loads (docs/SHADERS.md).
uint loaded(uint token, uint tokens) { return min(token, tokens - 1); }
