// For IQ1_S and IQ1_M: grid points of -1, 0, 1, all shifted by 1/8 or -1/8.
#include "grids.glsl"

void eight_of_iq1(uint index, float scale, bool down, out float y[8]) {
    const uint p = GRID[index / 2] >> ((index & 1u) * 16);
    const float delta = down ? -0.125 : 0.125;
    [[unroll]] for (uint j = 0; j < 8; ++j) { y[j] = scale * (float((p >> (2 * j)) & 3u) - 1.0 + delta); }
}
