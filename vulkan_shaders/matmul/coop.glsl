// For products with cooperative matrices: operands in shared memory, as F16, in steps of 32 values.

const uint TILE = 64;
const uint BK = 32;
const uint PITCH = BK + 8;
shared float16_t as[TILE * PITCH]; // rows of a
shared float16_t bs[TILE * PITCH]; // columns of b

void load_step(Work w, uint row0, uint k0) {
    for (uint i = gl_LocalInvocationIndex; i < TILE * 4; i += gl_WorkGroupSize.x) {
        const uint line = i / 4;
        float y[8];
        float x[8];
        operands8(a_row(w, min(row0 + line, p.m - 1)), b_column(w, w.first + line), k0 + (i % 4) * 8, y, x);
        [[unroll]] for (uint l = 0; l < 8; ++l) {
            as[line * PITCH + (i % 4) * 8 + l] = float16_t(y[l]);
            bs[line * PITCH + (i % 4) * 8 + l] = float16_t(x[l]);
        }
    }
}
