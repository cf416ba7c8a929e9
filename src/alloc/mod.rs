//! Memory for tensors. Modules: `linear` (allocates one tensor after the other in a buffer), `planner` (offsets in
//! buffers that do not exist yet), `problem` (a graph as flat arrays of numbers), `plan` (turns lifetimes into
//! addresses, and decides when a plan may be used again), `search` (finds smaller plans, with all lifetimes known),
//! `recall` (recognises a graph that comes again), `follow` (recognises a graph of the same structure), `graph` (the
//! graph allocator: plan, buffers, binding), `inplace` (operations that may overwrite a source).

mod follow;
pub mod graph;
pub mod inplace;
pub mod linear;
pub mod plan;
pub mod planner;
pub mod problem;
pub mod recall;
pub mod search;
#[cfg(test)]
mod tests;

pub use follow::Likeness;
pub use graph::{Binding, GraphAllocator, Ticket};
pub use plan::Misfit;
pub use problem::{Problem, Traits};
pub use recall::Recall;
