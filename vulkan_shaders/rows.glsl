// Element-wise work by rows: a workgroup is a tile of x columns by y rows; each invocation strides over the columns of its row, so
// that long rows need no more groups than the host wants. See `Grid::rows` in plan.rs.

// This invocation's row; `>= n_rows` when it has none.
uint my_row() { return group_yz() * gl_WorkGroupSize.y + gl_LocalInvocationID.y; }
// First column, and the step to the next.
uint first_column() { return gl_GlobalInvocationID.x; }
uint column_step() { return gl_NumWorkGroups.x * gl_WorkGroupSize.x; }
