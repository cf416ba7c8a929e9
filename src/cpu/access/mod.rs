//! Typed access to the memory of a node's tensors: `layout` shape, strides and format · `source` what a kernel reads · `dest` what it
//! writes · `scratch` memory that the threads of a node share · `claims` who writes what, recorded in debug builds.
//!
//! # Why kernels are safe code
//!
//! - Sources and results are made from a [`CheckedNode`](super::check::CheckedNode) only: every index below `ne` lies inside the
//!   memory of its tensor. Accessors check indices against `ne`, in release builds too.
//! - Every thread of a node gets one [`Dest`], and it cannot be copied, so a thread never holds two references to the same
//!   element.
//! - Threads write disjoint parts: a kernel takes its parts from [`Worker::share`](super::Worker::share) or
//!   [`Worker::next_chunk`](super::Worker::next_chunk). No type enforces this rule. Debug builds record every part with its
//!   thread, and an overlap is a panic.
//! - A source that overlaps the result is read with copies, never through a reference, and such a node is computed by one
//!   thread, unless the kernel reads each element before it writes that same element ([`Overlap`](super::check::Overlap)).

pub mod claims;
pub mod dest;
pub mod layout;
pub mod scratch;
pub mod source;
#[cfg(any(test, fuzzing))]
pub mod whole;

pub use dest::{Dest, Writer};
pub use layout::{Layout, RowIndex, parts, rows};
pub use scratch::{Workspace, publish};
pub use source::{Apart, Plain, Reader, Rows, Source};

#[cfg(test)]
mod tests;
