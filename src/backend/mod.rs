//! Backends, all reached through the C vtables. Who lives here:
//!
//! - `handle`: buffers, buffer types, streams, devices, registries and events as copyable handles, and their owners;
//!   `buffer`, `buffer_type`, `device`, `stream`, `event`, `reg`: what each handle can do
//! - `placement`: lists of tensors placed in as many buffers as they need; `multi`: several buffers as one
//! - `tensor_io`: bytes into, out of and between tensors, with every fallback; `batch`: the same for several tensors by one call; `view`: tensors bound to memory
//! - `meta`: several devices as one, for tensor parallelism
//! - `host`: the buffer type "CPU" in host memory
//! - `registry`: the process's list of backends; `dl`: backends from dynamic libraries
//! - `graph_copy`: a graph copied to another device, two backends compared
//! - `grad_reset`: the state of a training graph set back
//! - `observe`: what happens here, told to whoever watches
//! - `author`: safe traits for those who write a backend

pub mod author;
pub mod batch;
mod buffer;
mod buffer_type;
mod device;
pub mod dl;
mod event;
pub mod grad_reset;
pub mod graph_copy;
pub mod handle;
pub mod host;
pub mod meta;
pub mod multi;
pub mod observe;
pub mod placement;
mod reg;
pub mod registry;
mod stream;
pub mod tensor_io;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod view;

pub use buffer_type::{op_alloc_size_may_expand, op_is_empty};
pub use handle::{BackendBox, BackendRef, BufferBox, BufferRef, BufferTypeRef, DeviceRef, EventBox, EventRef, RegRef};
