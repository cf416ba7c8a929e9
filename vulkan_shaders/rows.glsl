// Element-wise work on rows. A workgroup has x invocations for columns and y for rows. Each invocation loops over
// columns of its row, so that the number of groups does not depend on the length of rows. See `Grid::rows` in plan.rs.

// Row of this invocation. It has no work if this is at least `n_rows`.
uint my_row() { return group_yz() * gl_WorkGroupSize.y + gl_LocalInvocationID.y; }
// First column of this invocation, and the step to the next.
uint first_column() { return gl_GlobalInvocationID.x; }
uint column_step() { return gl_NumWorkGroups.x * gl_WorkGroupSize.x; }
