//! Tensors. Who lives here: `handle` (`TensorRef`, the one way to a tensor's fields), `shape` (what shapes and strides
//! mean), `context` (the arena that tensors and graphs live in), `names`, `traced` (nodes as events of the trace), `work` (how many operations a node is), `ops` (one file of
//! constructors per op family).

pub mod context;
pub mod family;
pub mod handle;
pub mod names;
pub mod ops;
pub mod shape;
pub mod traced;
pub mod work;

pub use context::{Context, ObjectKind};
pub use handle::TensorRef;
