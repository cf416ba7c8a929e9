//! Copyable handles on the objects of the backend interface. A handle calls through the object's vtable; a slot that
//! the interface calls optional may be empty, and then the documented default happens.

use crate::abi::alloc::{ggml_backend_buffer_t, ggml_backend_buffer_type_t, ggml_backend_t};
use crate::abi::backend::*;
use crate::abi::backend_impl::*;
use std::ptr::NonNull;

/// Reads a slot of an object's vtable.
macro_rules! slot {
    ($self:ident . $name:ident) => {{
        #[allow(unused_unsafe)] // also used inside unsafe blocks
        // SAFETY: a handle refers to a valid object.
        let slot = unsafe { (&raw const (*$self.as_ptr()).iface.$name).read() };
        slot
    }};
}
/// Reads a field of an object.
macro_rules! object_field {
    ($self:ident . $name:ident) => {{
        #[allow(unused_unsafe)] // also used inside unsafe blocks
        // SAFETY: a handle refers to a valid object.
        let value = unsafe { (&raw const (*$self.as_ptr()).$name).read() };
        value
    }};
    ($self:ident . $name:ident = $value:expr) => {
        // SAFETY: a handle refers to a valid object.
        unsafe { (&raw mut (*$self.as_ptr()).$name).write($value) }
    };
}
/// Calls a slot that every object must fill; an empty one ends the process with its name (the contract).
macro_rules! call {
    ($self:ident . $name:ident ( $($arg:expr),* )) => {
        match slot!($self.$name) {
            Some(f) => {
                #[allow(unused_unsafe)] // also used inside unsafe blocks
                // SAFETY: the vtable contract, with the object the slot belongs to.
                let result = unsafe { f($self.as_ptr() $(, $arg)*) };
                result
            }
            None => $crate::ggml_abort!(concat!("a backend object has no function '", stringify!($name), "'")),
        }
    };
}
/// Like `call!`, for slots that compute, copy or allocate: code in C++ may throw there. `$otherwise` is the result
/// then.
macro_rules! attempt {
    ($self:ident . $name:ident ( $($arg:expr),* ), $otherwise:expr) => {
        match slot!($self.$name) {
            Some(f) => {
                let f = $crate::sys::unwind::MayUnwind::may_unwind(f);
                #[allow(unused_unsafe)] // also used inside unsafe blocks
                // SAFETY: the vtable contract, with the object the slot belongs to.
                $crate::sys::foreign::call_module($otherwise, || unsafe { f($self.as_ptr() $(, $arg)*) })
            }
            None => $crate::ggml_abort!(concat!("a backend object has no function '", stringify!($name), "'")),
        }
    };
}
pub(crate) use {attempt, call, object_field, slot};

/// Copies the text at a pointer that a vtable gave; "" for NULL.
pub(crate) fn name_of(p: *const std::ffi::c_char) -> String {
    // SAFETY: the vtable contract: names are NULL or valid C strings that live as long as their object.
    unsafe { crate::sys::cstr::text(p) }.map(|s| s.into_owned()).unwrap_or_default()
}

/// The status for a number that a vtable gave; unknown numbers count as failure.
pub(crate) fn status_of(raw: std::ffi::c_int) -> crate::abi::ggml::ggml_status {
    use crate::abi::ggml::ggml_status;
    ggml_status::from_raw(raw).unwrap_or(ggml_status::GGML_STATUS_FAILED)
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $raw:ty, $ptr:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(transparent)]
        pub struct $name(NonNull<$raw>);

        // SAFETY: a handle is a number; the interface says from which threads an object may be used.
        unsafe impl Send for $name {}
        // SAFETY: a shared handle gives what a copy gives, and copies may be on any thread (`Send`).
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

/// An object that its holder owns: freed through its vtable when dropped.
macro_rules! owned {
    ($(#[$doc:meta])* $name:ident, $handle:ident, $ptr:ty) => {
        $(#[$doc])*
        #[derive(Debug, PartialEq, Eq)]
        pub struct $name($handle);

        impl $name {
            /// Takes the object over.
            ///
            /// # Safety
            /// The object is valid, and no other code frees it.
            pub unsafe fn own(handle: $handle) -> Self {
                Self(handle)
            }

            /// A copy of the handle; it is dead when the owner is dropped.
            pub fn handle(&self) -> $handle {
                self.0
            }

            /// Gives the object to C code, which frees it.
            pub fn into_raw(self) -> $ptr {
                std::mem::ManuallyDrop::new(self).0.as_ptr()
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: only the owner frees the object.
                unsafe { self.0.free() }
            }
        }

        impl std::ops::Deref for $name {
            type Target = $handle;
            fn deref(&self) -> &$handle {
                &self.0
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

owned!(
    /// A buffer with its owner.
    BufferBox, BufferRef, ggml_backend_buffer_t);
owned!(
    /// A stream with its owner.
    BackendBox, BackendRef, ggml_backend_t);
owned!(
    /// An event with its owner.
    EventBox, EventRef, ggml_backend_event_t);
