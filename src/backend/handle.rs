//! Copyable handles on the objects of the backend interface. A handle calls through the object's vtable; a slot that the
//! interface calls optional may be empty, and then the documented default happens.

use crate::abi::alloc::{ggml_backend_buffer_t, ggml_backend_buffer_type_t, ggml_backend_t};
use crate::abi::backend::*;
use crate::abi::backend_impl::*;
use std::ptr::NonNull;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $raw:ty, $ptr:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(transparent)]
        pub struct $name(NonNull<$raw>);

        // SAFETY: a handle is a number; the interface says from which threads an object may be used.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl $name {
            /// The handle, or `None` for NULL.
            ///
            /// # Safety
            /// `p` is NULL or a valid object of this kind for as long as the handle, or a copy of it, is used, and its
            /// functions keep the vtable contract.
            #[inline]
            pub unsafe fn from_ptr(p: *const $raw) -> Option<Self> {
                NonNull::new(p.cast_mut()).map(Self)
            }

            /// The object's address.
            #[inline]
            pub fn as_ptr(self) -> $ptr {
                self.0.as_ptr()
            }
        }
    };
}

handle!(
    /// Memory of a device.
    BufferRef, ggml_backend_buffer, ggml_backend_buffer_t);
handle!(
    /// A kind of buffer.
    BufferTypeRef, ggml_backend_buffer_type, ggml_backend_buffer_type_t);
handle!(
    /// A stream of work on a device.
    BackendRef, ggml_backend, ggml_backend_t);
handle!(
    /// A device.
    DeviceRef, ggml_backend_device, ggml_backend_dev_t);
handle!(
    /// A registry: the devices of one kind of backend.
    RegRef, ggml_backend_reg, ggml_backend_reg_t);
handle!(
    /// A mark in a stream's work that others can wait for.
    EventRef, ggml_backend_event, ggml_backend_event_t);
