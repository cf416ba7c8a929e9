//! `ggml.h`, one file per family, in the order in which the header shows them.

pub mod context;
pub mod graph;
pub mod quants;
pub mod system;
pub mod tensor;
