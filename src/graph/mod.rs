//! Compute graphs. Who lives here: `handle` (`GraphRef` and the hash set inside a graph).

pub mod handle;

pub use handle::{GraphRef, HashSetRef};
