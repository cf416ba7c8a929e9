//! Backends, all of which are called through the C vtables. Files:
//!
//! - `handle`: buffers, buffer types, streams, devices, registrations and events as copyable handles, and their owners;
//!   `buffer`, `usage`, `buffer_type`, `device`, `stream`, `event`, `reg`: what each handle can do
//! - `placement`: lists of tensors placed in as many buffers as they need; `multi`: several buffers as one
//! - `tensor_io`: copies to, from and between tensors, with all fallbacks; `batch`: the same for several tensors in one
//!   call; `view`: tensors bound to memory
//! - `meta`: several devices as one, for tensor parallelism
//! - `damage`: writes that have failed, where the interface has no result for it
//! - `host`: the buffer type "CPU" in host memory
//! - `keeper`: what keeps weights in memory says of it, for reports
//! - `registry`: the process's list of backends; `dl`: backends from dynamic libraries
//! - `plan`: plans of graphs that the library keeps on a stream
//! - `graph_copy`: copying a graph to another device, comparing two backends
//! - `grad_reset`: resetting the state of a training graph
//! - `observe`: operations on memory and queues, reported to an observer
//! - `abort`: the callback of the host that cancels computations
//! - `author`: safe traits for the author of a backend

mod abort;
pub mod author;
pub mod batch;
mod buffer;
mod buffer_type;
pub mod damage;
mod device;
pub mod dl;
mod event;
pub mod grad_reset;
pub mod graph_copy;
pub mod handle;
pub mod host;
pub mod keeper;
pub mod meta;
pub mod multi;
pub mod observe;
pub mod placement;
pub mod plan;
mod reg;
pub mod registry;
mod stream;
pub mod tensor_io;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod usage;
pub mod view;

pub use abort::Abort;
pub use buffer_type::{node_is_empty, op_alloc_size_may_expand, op_is_empty};
pub use handle::{BackendBox, BackendRef, BufferBox, BufferRef, BufferTypeRef, DeviceRef, EventBox, EventRef, RegRef};
