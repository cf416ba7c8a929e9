//! Memory for tensors. Who lives here: `linear` (one tensor behind the other in a buffer), `planner` (offsets in buffers
//! that do not exist yet), `ids` and `problem` (a graph as flat arrays of numbers), `plan` (lifetimes turned into places,
//! and when a plan may be used again), `graph` (the graph allocator: plan, buffers, binding), `inplace` (operations that
//! may overwrite a source).

pub mod graph;
pub mod ids;
pub mod inplace;
pub mod linear;
pub mod plan;
pub mod planner;
pub mod problem;
#[cfg(test)]
mod tests;

pub use graph::GraphAllocator;
pub use ids::{NONE, TensorIds};
pub use plan::Misfit;
pub use problem::Problem;
