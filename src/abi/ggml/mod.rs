//! ggml.h: number types, tensors, operations, contexts. One file per family, in the order in which the header shows
//! them.

pub mod numbers;
pub mod ops;
pub mod structs;

pub use numbers::*;
pub use ops::*;
pub use structs::*;
