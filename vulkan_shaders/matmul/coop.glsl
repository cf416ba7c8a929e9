// For products with cooperative matrices: operands in shared memory, as F16, in steps of 32 values.

const uint TILE = 64;
const uint BK = 32;
const uint PITCH = BK + 8;
shared float16_t as[TILE * PITCH]; // rows of a
shared float16_t bs[TILE * PITCH]; // columns of b
