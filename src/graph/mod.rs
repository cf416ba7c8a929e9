//! Compute graphs. Who lives here: `handle` (`GraphRef` and the hash set inside a graph), `build` (making and filling),
//! `copy` (slices, copies, gradients), `dump` (listings and pictures).

pub mod backward;
pub mod build;
pub mod copy;
pub mod dump;
pub mod handle;

pub use handle::{GraphRef, HashSetRef, next_uid};
