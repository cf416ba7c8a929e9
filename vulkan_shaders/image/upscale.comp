#version 460
// Resizes images: the nearest element (MODE 0), linear (1) or cubic (2) interpolation, or weighted means over the areas
// that the elements of a smaller result cover (3).
#include "common.glsl"
#include "rows.glsl"
#include "divide.glsl"

layout(constant_id = 3) const uint MODE = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uvec4 ne;      // shape of d
    uint n_rows;
    uvec4 a_ne;
    uvec4 a_nb;
    uvec4 d_nb;
    // Element i of d is at i * from / to in a; at most 65535. MODE 3: in dimensions 0 and 1, `from` has the bits of to
    // / from as a float, and `to` those of half the width of the area. The areas depend on the rounding of both, so the
    // host computes them.
    uvec4 from, to;
    float centre;  // of an element
} p;

// Index of the element of a that is nearest to element i of d.
uvec3 near(uvec3 i, uvec3 from, uvec3 to, uvec3 ne) { return min(i * from / to, ne - 1); }

int clip(int i, uint n) { return clamp(i, 0, int(n) - 1); }

// Cubic convolution (Keys 1981) with a = -0.75: the weight of an element at distance x.
float cubic(float x) {
    const float a = -0.75;
    return x <= 1.0 ? ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0 : ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
}

// The first of the elements that make up element i of d, their number, and its place.
struct Taps {
    int first, count;
    float place;
};

Taps taps(uint i, uint from, uint to, uint n) {
    if (MODE == 3) {
        const float support = uintBitsToFloat(to);
        // The last bit decides which elements are in the area: at a place just below 8, element 8 is outside of it. Its
        // weight would be 1.
        const float place = divide(float(i) + p.centre, uintBitsToFloat(from));
        const int low = clamp(int(place - support + p.centre), 0, int(n));
        return Taps(low, max(min(int(place + support + p.centre), int(n)) - low, 0), place);
    }
    const float v = (float(i) + p.centre) * (float(from) / float(to)) - p.centre;
    return Taps(int(floor(v)) - (MODE == 2 ? 1 : 0), MODE == 2 ? 4 : 2, v);
}

// The weight of element k of the taps, before it is clipped to the image.
float weight(Taps t, int k, uint to, uint n) {
    const int i = t.first + k;
    if (MODE == 3) { return max(1.0 - abs(divide(float(i) - t.place + p.centre, uintBitsToFloat(to))), 0.0); }
    if (MODE == 2) { return cubic(abs(t.place - float(i))); }
    const float part = clamp(t.place - float(clip(t.first, n)), 0.0, 1.0);
    return k == 0 ? 1.0 - part : part;
}

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    const uvec3 j = near(i, p.from.yzw, p.to.yzw, p.a_ne.yzw);
    const uint64_t a = at(p.a, uint64_t(j.y) * p.a_nb.z + uint64_t(j.z) * p.a_nb.w, 4);
    F32s d = F32s(at(p.d, offset3(i, p.d_nb.yzw), 4));
    const Taps down = taps(i.x, p.from.y, p.to.y, p.a_ne.y);
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        if (MODE == 0) {
            const uint column = min(c * p.from.x / p.to.x, p.a_ne.x - 1);
            d.v[c * p.d_nb.x] = F32s(at(a, uint64_t(j.x) * p.a_nb.y, 4)).v[column * p.a_nb.x];
            continue;
        }
        const Taps across = taps(c, p.from.x, p.to.x, p.a_ne.x);
        float sum = 0.0;
        float total = 0.0;
        for (int ky = 0; ky < down.count; ++ky) {
            F32s row = F32s(at(a, uint64_t(uint(clip(down.first + ky, p.a_ne.y))) * p.a_nb.y, 4));
            const float wy = weight(down, ky, p.to.y, p.a_ne.y);
            for (int kx = 0; kx < across.count; ++kx) {
                const float w = weight(across, kx, p.to.x, p.a_ne.x) * wy;
                sum += w * row.v[uint(clip(across.first + kx, p.a_ne.x)) * p.a_nb.x];
                total += w;
            }
        }
        d.v[c * p.d_nb.x] = MODE == 3 && total > 0.0 ? sum / total : sum;
    }
}
