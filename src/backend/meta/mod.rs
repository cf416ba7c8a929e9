//! The meta device: several devices as one, for tensor parallelism. The host defines how tensors with data are
//! distributed over the devices; the distribution of results follows from their operations.
//!
//! Files: `split` (how one tensor is distributed), `spread` (the host's function that says so), `infer` (how a result
//! is), `layout` (which bytes are where), `table` (the tensors on the devices that represent one: its slices), `buffer`
//! (a buffer on each device), `slices` (making slices), `transfer` (bytes into and out of buffers), `buffer_type`,
//! `regions` (where a graph must stop to add up partial sums), `reduce` (adding them up), `stream` (computing graphs on
//! all devices), `device`.
//!
//! Two things differ from the original: a tensor that cannot be distributed is an error and does not end the process,
//! and the partial sums of any linear chain of nodes are added up where that moves the fewest bytes.

mod buffer;
mod buffer_type;
mod device;
mod infer;
mod layout;
mod reduce;
mod regions;
mod slices;
mod split;
mod spread;
mod stream;
mod table;
mod transfer;

pub use device::device;

use super::author::{buffer_type_author, stream_author};
use super::{BackendRef, BufferRef, BufferTypeRef};
use buffer::meta_buffer;
use buffer_type::MetaBufferType;
use stream::MetaStream;

/// The streams that a meta stream joins, or `None` for any other.
pub fn streams(backend: BackendRef) -> Option<Vec<BackendRef>> {
    stream_author::<MetaStream>(&backend).map(|s| s.streams().collect())
}

/// Whether a buffer type is a meta device's.
pub fn is_meta_type(buft: BufferTypeRef) -> bool {
    buffer_type_author::<MetaBufferType>(buft).is_some()
}

/// The buffers that a meta buffer is made of, or `None` for any other.
pub fn parts(buffer: BufferRef) -> Option<Vec<BufferRef>> {
    meta_buffer(&buffer).map(|m| m.parts().collect())
}
