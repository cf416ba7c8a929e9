#version 460
// Sums of the columns of a transposed convolution of lines: column i of a channel begins at element i * stride - cut of
// the result.
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 3) const uint A = 0; // type of both

layout(push_constant, scalar) uniform Push {
    uint64_t a, d;
    uvec2 ne;    // length of the result, channels
    uvec2 a_nb;
    uvec2 d_nb;
    uint width;  // of a column of a channel
    uint columns;
    uint stride, cut;
} p;

void main() {
    const uint channel = my_row();
    if (channel >= p.ne.y) { return; }
    const uint64_t d = at(p.d, uint64_t(channel) * p.d_nb.y, type_size(A));
    for (uint c = first_column(); c < p.ne.x; c += column_step()) {
        const uint place = c + p.cut;
        const uint first = place < p.width ? 0 : (place - p.width) / p.stride + 1;
        float sum = 0.0;
        for (uint i = first; i < p.columns && i * p.stride <= place; ++i) {
            const uint element = channel * p.width + (place - i * p.stride);
            sum += load(A, at(p.a, uint64_t(i) * p.a_nb.y, type_size(A)), element * p.a_nb.x);
        }
        store(A, d, c * p.d_nb.x, sum);
    }
}
