//! Typed access to the memory of a node's tensors. Files: `layout` (offsets of elements), `source` (tensors that a
//! kernel reads), `dest` (the tensor that it writes), `reader` (sources beside it), `scratch` (memory that the threads
//! of a node share).
//!
//! # Why kernels are safe code
//!
//! - Only a [`CheckedNode`](super::checked::CheckedNode) makes sources and results, so every index below `ne` is inside
//!   the memory of its tensor. Accessors check indices against `ne`, in release builds too.
//! - Every thread of a node gets one [`Dest`], which cannot be copied, so a thread never has two references to the same
//!   element.
//! - Threads write disjoint parts: a kernel takes its parts from [`Worker::share`](super::Worker::share) or
//!   [`Worker::next_chunk`](super::Worker::next_chunk). No type enforces this rule. Debug builds record every part with
//!   its thread ([`claims`](super::worker::claims)), and panic if parts overlap.
//! - Kernels copy elements of a source that overlaps the result, and never hold references to it. One thread computes
//!   such a node, unless the kernel reads each element before it writes the same element ([`Overlap`]).

pub mod dest;
pub mod layout;
pub mod reader;
pub mod scratch;
pub mod source;
#[cfg(any(test, fuzzing))]
pub mod whole;

pub use dest::{Dest, Writer};
pub use layout::{Layout, Overlap, RowIndex, overlaps, parts, rows};
pub use reader::Reader;
pub use scratch::{Workspace, publish};
pub use source::{Apart, Plain, Rows, Source};

#[cfg(test)]
mod tests;
