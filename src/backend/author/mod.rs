//! Safe traits for the author of a backend. `publish` (for a registration with its devices), [`leak_buffer_type`] and
//! the functions that return objects give an implementor a C vtable. The author writes no unsafe code, and a panic in
//! that code makes the call fail with an error in the log.
//!
//! Files: `reg` (registrations), `device`, `stream`, `event`, `buffer_type`, `buffer`, `host` (host memory as safe
//! objects), `context` (what the objects carry), `run` (failures of the author's code), `shim` (what C passes to a
//! vtable's functions, as typed arguments).
//!
//! Functions that are optional in the C interface are off by default: a `const` of the trait switches them on.
//! Otherwise the slot in the vtable is NULL, so that callers use their fallbacks.

mod buffer;
mod buffer_type;
mod context;
mod device;
mod event;
mod host;
mod reg;
mod run;
mod shim;
mod stream;
#[cfg(test)]
pub(super) mod tests;

pub use buffer::{Buffer, NOT_READ, buffer_author, new_buffer};
pub use buffer_type::{BufferType, buffer_type_author, leak_buffer_type};
pub use device::{Device, device_author, leak_device};
pub use event::{Event, NoEvent};
pub use host::{HostMemory, HostSource, HostTarget};
pub use reg::{Reg, publish};
pub use stream::{NoPlan, Stream, stream_author};
