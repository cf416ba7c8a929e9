//! ggml-backend.h, one file per kind of object, in the order of the header.
//!
//! If an object is NULL, functions that only return information about it (`query!`) log an error and return 0, false,
//! NULL or the name "NULL". Functions that use or change it (`need!`) end the process, as the original's assertions do.

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
use crate::backend::{
    BackendBox, BackendRef, BufferBox, BufferRef, BufferTypeRef, DeviceRef, EventBox, EventRef, RegRef,
};
use crate::capi::convert::{given, passed};
use crate::log_error;

// SAFETY: the handles require valid objects, which are C structs.
passed! { unsafe 'c:
    ggml_backend_buffer_t => BufferRef, BufferRef::from_ptr;
    ggml_backend_buffer_type_t => BufferTypeRef, BufferTypeRef::from_ptr;
    ggml_backend_t => BackendRef, BackendRef::from_ptr;
    ggml_backend_dev_t => DeviceRef, DeviceRef::from_ptr;
    ggml_backend_reg_t => RegRef, RegRef::from_ptr;
    ggml_backend_event_t => EventRef, EventRef::from_ptr;
}

// SAFETY: the functions require what `taken` does: see below.
given! { unsafe:
    ggml_backend_buffer_t => BufferBox, own_buffer;
    ggml_backend_t => BackendBox, own_backend;
    ggml_backend_event_t => EventBox, own_event;
}

macro_rules! own {
    ($($name:ident: $raw:ty => $handle:ty, $owner:ty;)*) => {$(
        /// Takes ownership of the object at `p`, which is freed with the result. Returns `None` for NULL.
        ///
        /// # Safety
        /// `p` is NULL or a valid object that the caller owns and does not use afterwards.
        unsafe fn $name(p: $raw) -> Option<$owner> {
            // SAFETY: forwarded to the caller.
            unsafe { <$handle>::from_ptr(p).map(|object| <$owner>::own(object)) }
        }
    )*};
}
own! {
    own_buffer: ggml_backend_buffer_t => BufferRef, BufferBox;
    own_backend: ggml_backend_t => BackendRef, BackendBox;
    own_event: ggml_backend_event_t => EventRef, EventBox;
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
