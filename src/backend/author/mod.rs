//! Safe traits for the author of a backend. `publish` (for a registration with its devices), [`leak_buffer_type`] and
//! the functions that return objects give an implementor a C vtable. The author writes no unsafe code, and a panic in
//! that code makes the call fail with an error in the log.
//!
//! Files: `reg` (registrations), `device`, `stream`, `event`, `buffer_type`, `buffer`, `host` (host memory as safe
//! objects), `shim` (what C passes to a vtable's functions, as typed arguments).
//!
//! Functions that are optional in the C interface are off by default: a `const` of the trait switches them on.
//! Otherwise the slot in the vtable is NULL, so that callers use their fallbacks.

mod buffer;
mod buffer_type;
mod device;
mod event;
mod host;
mod reg;
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

use crate::error::Result;
use crate::log_error;
use crate::sys::fork;
use std::any::TypeId;

/// The context of every object made here points to this: the type of the author's value, and the value. The type is
/// compared before the value is used, because the linker may merge equal functions of different vtables.
#[repr(C)]
struct Context<T> {
    type_id: TypeId,
    /// The process that it works in, by [`fork::generation`]; `None` for all.
    process: Option<u32>,
    author: T,
}

/// What every [`Context`] begins with.
#[repr(C)]
struct Head {
    type_id: TypeId,
    process: Option<u32>,
}

impl Head {
    /// Whether the object belongs to the process that this one was forked from, and does not work here.
    fn is_of_parent(&self) -> bool {
        self.process.is_some_and(|p| p != fork::generation())
    }
}

impl<T: 'static> Context<T> {
    fn boxed(author: T) -> *mut std::ffi::c_void {
        Self::boxed_for(author, true)
    }

    /// `in_children`: whether it also works in processes that are forked from this one.
    fn boxed_for(author: T, in_children: bool) -> *mut std::ffi::c_void {
        let process = (!in_children).then(fork::generation);
        Box::into_raw(Box::new(Self { type_id: TypeId::of::<T>(), process, author })).cast()
    }

    /// The author's value, or `None` when the context is another type's.
    ///
    /// # Safety
    /// `context` came from `boxed`, for whatever type, and lives as long as the result.
    unsafe fn get<'a>(context: *mut std::ffi::c_void) -> Option<&'a T> {
        // SAFETY: every `Context` begins with its type.
        if unsafe { context.cast::<TypeId>().read() } != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: the type matches.
        Some(unsafe { &(*context.cast::<Self>()).author })
    }

    /// Drops the author's value. One that does not work in this process stays: threads that this process does not have
    /// may be using it.
    ///
    /// # Safety
    /// `context` came from `boxed` for this type and is not used afterwards.
    unsafe fn drop(context: *mut std::ffi::c_void) {
        // SAFETY: forwarded to the caller; every context begins with a `Head`.
        unsafe {
            if !(*context.cast::<Head>()).is_of_parent() {
                drop(Box::from_raw(context.cast::<Self>()));
            }
        }
    }
}

/// Runs an author's code. A panic is logged; then the result is that of `fallback`.
fn guard<T>(what: &str, fallback: impl FnOnce() -> T, f: impl FnOnce() -> T) -> T {
    match crate::guard::contained(f) {
        Ok(value) => value,
        Err(text) => {
            panicked(what, &text);
            fallback()
        }
    }
}

#[cold]
#[inline(never)]
fn panicked(what: &str, text: &str) {
    log_error!("{what} of a backend failed: {text}");
}

/// The value, or `None` with a line in the log.
fn logged<T>(what: &str, result: Result<T>) -> Option<T> {
    result.map_err(|e| log_error!("{what}: {e}")).ok()
}
