// For formats with grids: a value is the magnitude of a grid point, times a sign, times a scale.
#include "grids.glsl"

// Levels of grid point `index`.
uint point(uint index) { return GRID[index / 2] >> ((index & 1u) * 16); }

// Seven sign bits, and the eighth bit that makes the parity even.
uint even_signs(uint s) {
    s &= 127u;
    return s | (uint(bitCount(s)) & 1u) << 7;
}

float signed_by(float x, uint signs, uint j) { return (signs >> j & 1u) != 0 ? -x : x; }

// Eight values of an IQ2 format. The magnitudes are 8, 25 and 43.
void eight_of_iq2(uint index, uint signs, float scale, out float y[8]) {
    const uint p = point(index);
    [[unroll]] for (uint j = 0; j < 8; ++j) {
        const uint l = (p >> (2 * j)) & 3u;
        y[j] = signed_by(scale * float(8 + 17 * l + (l >> 1)), signs, j);
    }
}
