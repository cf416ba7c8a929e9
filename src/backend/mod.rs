//! Backends, all reached through the C vtables. Who lives here: `handle` (buffers, buffer types, streams, devices,
//! registries and events as copyable handles).

pub mod handle;

pub use handle::{BackendRef, BufferRef, BufferTypeRef, DeviceRef, EventRef, RegRef};
