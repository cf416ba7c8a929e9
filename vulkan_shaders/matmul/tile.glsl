// For products in tiles, for GPUs: a workgroup of 16 by 16 invocations computes TM rows of a with TN columns of b, and
// each invocation ROWS by WIDTH of the results. The larger the tile, the more multiplications for each byte that is
// read from shared memory.
//
// Each result is the sum of its products in the order of k, whatever ROWS and WIDTH are: it has the same bits in every
// tile.
layout(constant_id = 5) const uint ROWS = 4;  // 4 or 8
layout(constant_id = 6) const uint WIDTH = 4; // 4 or 8, and not more than ROWS
const uint MAX_ROWS = 8;
const uint MAX_WIDTH = 8;
const uint TM = 16 * ROWS;
const uint TN = 16 * WIDTH;

void clear(out float sum[MAX_ROWS * MAX_WIDTH]) {
    [[unroll]] for (uint i = 0; i < ROWS * WIDTH; ++i) { sum[i] = 0.0; }
}
