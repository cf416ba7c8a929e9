//! Tensors. Files: `handle` (`TensorRef`, the only access to a tensor's fields), `shape` (what shapes and strides
//! mean), `special` (what operations do with NaN), `known` (which sources and parameters operations have), `context`
//! (the memory pool for tensors and graphs), `names`, `traced` (nodes as events of the trace), `work` (how many
//! operations a node needs), `ops` (constructors, one file per family).

pub mod context;
pub mod family;
pub mod handle;
pub mod known;
pub mod names;
pub mod ops;
pub mod shape;
#[cfg(any(test, feature = "internals"))]
pub mod special;
pub mod traced;
pub mod work;

pub use context::{Context, ObjectKind};
pub use handle::TensorRef;
