//! Compute graphs. Files: `handle` (`GraphRef` and the hash set inside a graph), `build` (creating and filling),
//! `copy` (slices, copies, gradients), `dump` (listings and dot files).

pub mod backward;
pub mod build;
pub mod copy;
pub mod dump;
pub mod handle;

pub use handle::{GraphRef, HashSetRef, next_uid};
