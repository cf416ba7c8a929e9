#version 460
// Indices of elements in the order of their values. The sort is stable. TOP_K: only the first k of the descending
// order. A step either sorts runs of elements, or (MERGE) merges pairs of adjacent runs. Each invocation computes the
// position of elements: it counts the elements before an element, with a loop over its run, or with a binary search in
// the other run. Uses no shared memory.
#include "common.glsl"
#include "rows.glsl"
#include "order.glsl"

layout(constant_id = 3) const bool DESCENDING = false;
layout(constant_id = 4) const bool MERGE = false;

layout(push_constant, scalar) uniform Push {
    uint64_t a, from, d; // from: indices after the last step, contiguous
    uint columns, n_rows, ne1, ne2;
    uvec3 a_nb, d_nb;
    uint k;   // elements written
    uint run; // elements of a run: before the step if MERGE, otherwise after it
} p;

// In ascending order of this. NaN is last, whatever the order of the numbers.
uint key(float x) {
    const uint up = order_key(x);
    return DESCENDING ? ~up : up - 1;
}

void main() {
    const uint r = group_yz();
    if (r >= p.n_rows) { return; }
    const uvec3 at3 = row_coords(r, p.ne1, p.ne2);
    F32s a = F32s(at(p.a, offset3(at3, p.a_nb), 4));
    I32s d = I32s(at(p.d, offset3(at3, p.d_nb), 4));
    U32s from = U32s(at(p.from, uint64_t(r) * p.columns, 4));
    for (uint c_ = gl_GlobalInvocationID.x; c_ - gl_LocalInvocationID.x < p.columns; c_ += column_step()) {
        const uint c = min(c_, p.columns - 1);
        uint place;
        uint element;
        if (MERGE) {
            element = min(from.v[c], p.columns - 1);
            const uint mine = key(a.v[element]);
            const uint start = c / (2 * p.run) * (2 * p.run);
            const uint middle = min(start + p.run, p.columns);
            const uint end = min(middle + p.run, p.columns);
            const bool left = c < middle;
            // Smaller elements of the other run come before it. For an element of the right run, equal ones do, too.
            const uint first = left ? middle : start;
            uint low = first;
            uint high = left ? end : middle;
            while (low < high) {
                const uint i = low + (high - low) / 2;
                const uint other = key(a.v[min(from.v[i], p.columns - 1)]);
                if (other < mine || (!left && other == mine)) { low = i + 1; } else { high = i; }
            }
            place = (left ? c : start + c - middle) + low - first;
        } else {
            element = c;
            const uint mine = key(a.v[c]);
            const uint start = c / p.run * p.run;
            const uint end = min(start + p.run, p.columns);
            place = start;
            for (uint j = start; j < end; ++j) {
                const uint other = key(a.v[j]);
                place += uint(other < mine || (other == mine && j < c));
            }
        }
        if (c_ < p.columns && place < p.k) { d.v[place] = int(element); }
    }
}
