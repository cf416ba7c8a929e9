//! ggml-backend.h, one file per kind of object, in the order of the header.
//!
//! NULL for an object: a question about it (`asked_*`) is answered with 0, false, NULL or the name "NULL", after a line in
//! the log; what would change or use it (`need_*`) ends the process, as the original's assertions do.

pub(crate) mod buffer;
pub(crate) mod buffer_type;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod graph_copy;
pub(crate) mod meta;
pub(crate) mod placement;
pub(crate) mod registry;
pub(crate) mod sched;
pub(crate) mod stream;
pub(crate) mod tensor;

pub use buffer::*;
pub use buffer_type::*;
pub use device::*;
pub use event::*;
pub use graph_copy::*;
pub use meta::*;
pub use placement::*;
pub use registry::*;
pub use sched::*;
pub use stream::*;
pub use tensor::*;

use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::backend::{BackendRef, BufferBox, BufferRef, BufferTypeRef, DeviceRef, EventRef, RegRef};
use crate::capi::convert::broken;
use crate::log_error;

macro_rules! needed {
    ($($name:ident, $asked:ident: $raw:ty => $handle:ty, $text:literal;)*) => {
        $(
            /// The object at `p` that a question is about; `None`, said in the log, for NULL.
            ///
            /// # Safety
            /// As for the one below.
            #[inline]
            #[track_caller]
            #[allow(dead_code)] // events have no questions
            pub(in crate::capi) unsafe fn $asked(p: $raw) -> Option<$handle> {
                // SAFETY: forwarded to the caller.
                let handle = unsafe { <$handle>::from_ptr(p) };
                if handle.is_none() {
                    log_error!(concat!("{}: ", $text, " is NULL"), std::panic::Location::caller());
                }
                handle
            }

            /// The object at `p`, which the header forbids to be NULL.
            ///
            /// # Safety
            /// `p` is NULL or a valid object for as long as the handle is used.
            #[inline]
            #[track_caller]
            pub(in crate::capi) unsafe fn $name(p: $raw) -> $handle {
                // SAFETY: forwarded to the caller.
                match unsafe { <$handle>::from_ptr(p) } {
                    Some(handle) => handle,
                    None => broken(concat!("GGML_ASSERT(", $text, " != NULL) failed")),
                }
            }
        )*
    };
}
needed! {
    need_buffer, asked_buffer: ggml_backend_buffer_t => BufferRef, "buffer";
    need_buft, asked_buft: ggml_backend_buffer_type_t => BufferTypeRef, "buft";
    need_backend, asked_backend: ggml_backend_t => BackendRef, "backend";
    need_device, asked_device: ggml_backend_dev_t => DeviceRef, "device";
    need_reg, asked_reg: ggml_backend_reg_t => RegRef, "reg";
    need_event, asked_event: ggml_backend_event_t => EventRef, "event";
}

/// A new buffer for C. On failure, logs an error with the size and returns NULL.
fn buffer_out(buft: BufferTypeRef, size: usize, buffer: Option<BufferBox>) -> ggml_backend_buffer_t {
    match buffer {
        Some(b) => b.into_raw(),
        None => {
            log_error!("cannot allocate a buffer of {size} bytes of type {}", buft.name());
            std::ptr::null_mut()
        }
    }
}
