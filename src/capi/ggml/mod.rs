//! `ggml.h`, in the order in which the header shows it; operations are in `ops`.

pub(crate) mod context;
pub(crate) mod graph;
pub(crate) mod quants;
pub(crate) mod system;
pub(crate) mod tensor;
pub(crate) mod threadpool;
pub(crate) mod ops;

pub use context::*;
pub use graph::*;
pub use ops::*;
pub use quants::*;
pub use system::*;
pub use tensor::*;
pub use threadpool::*;
