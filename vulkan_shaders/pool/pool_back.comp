#version 460
// Gradient of pooling of planes: each element of the argument gets the gradients of the windows that it is in.
// MAX_POOL: only of those whose first maximum it is.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint A = 0; // type of the argument and of d
layout(constant_id = 4) const bool MAX_POOL = false;

layout(push_constant, scalar) uniform Push {
    uint64_t grad, a, d;
    uvec4 ne;       // shape of d
    uint n_rows;
    uvec2 size;     // of a plane of the gradient
    uvec4 grad_nb, a_nb;
    uvec4 d_nb;
    ivec2 kernel, stride, pad;
} p;

float image(uint64_t plane, int x, int y) {
    return load(A, at(plane, uint64_t(uint(y)) * p.a_nb.y, type_size(A)), uint(x) * p.a_nb.x);
}

// Whether the first maximum of a window is at `mine`. NaN is greater than all numbers.
bool is_first(uint64_t plane, ivec2 corner, ivec2 mine) {
    const ivec2 low = max(corner, ivec2(0));
    const ivec2 high = min(corner + p.kernel, ivec2(p.ne.xy));
    const float top = image(plane, mine.x, mine.y);
    for (int y = low.y; y < high.y; ++y) {
        for (int x = low.x; x < high.x; ++x) {
            const float other = image(plane, x, y);
            const bool before = y < mine.y || (y == mine.y && x < mine.x);
            const bool nan = is_nan(other);
            if (is_nan(top) ? before && nan : nan || other > top || (before && other == top)) { return false; }
        }
    }
    return true;
}

void main() {
    const uint r = my_row();
    if (r >= p.n_rows) { return; }
    const uvec3 i = row_coords(r, p.ne.y, p.ne.z);
    const uint64_t plane = at(p.a, offset3(uvec3(0, i.yz), p.a_nb.yzw), type_size(A));
    const uint64_t grads = at(p.grad, offset3(uvec3(0, i.yz), p.grad_nb.yzw), 4);
    const uint64_t d = at(p.d, offset3(i, p.d_nb.yzw), type_size(A));
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        const ivec2 mine = ivec2(c, i.x);
        // The windows that the element is in.
        const ivec2 q = mine + p.pad;
        const ivec2 first = ivec2(greaterThanEqual(q, p.kernel)) * ((q - p.kernel) / p.stride + 1);
        const ivec2 end = min(q / p.stride + 1, ivec2(p.size));
        float sum = 0.0;
        for (int oy = first.y; oy < end.y; ++oy) {
            F32s row = F32s(at(grads, uint64_t(uint(oy)) * p.grad_nb.y, 4));
            for (int ox = first.x; ox < end.x; ++ox) {
                if (!MAX_POOL || is_first(plane, ivec2(ox, oy) * p.stride - p.pad, mine)) {
                    sum += row.v[uint(ox) * p.grad_nb.x];
                }
            }
        }
        store(A, d, c * p.d_nb.x, MAX_POOL ? sum : sum / float(p.kernel.x * p.kernel.y));
    }
}
