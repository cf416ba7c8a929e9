//! Compute graphs. Files: `handle` (`GraphRef`), `set` (the hash set inside a graph), `build` (creating and filling),
//! `copy` (slices, copies), `grads` (the gradients in a graph), `dump` (listings and dot files), `backward` (nodes that
//! compute gradients), `ids` (numbers for its tensors), `memo` (memory of graphs that come again).

pub mod backward;
pub mod build;
pub mod copy;
pub mod dump;
mod grads;
pub mod handle;
pub mod ids;
pub mod memo;
pub mod set;

pub use handle::{GraphRef, next_uid};
