//! Functions of a vtable as safe code: what C passes becomes typed arguments in one place.

use super::context::{Context, Head};
use crate::abi::alloc::{ggml_backend_buffer_t, ggml_backend_buffer_type_t, ggml_backend_t};
use crate::abi::backend::{ggml_backend_dev_t, ggml_backend_event_t, ggml_backend_reg_t};
use crate::abi::ggml::{ggml_cgraph, ggml_tensor};
use crate::backend::{BackendRef, BufferRef, BufferTypeRef, DeviceRef, EventRef, RegRef, damage};
use crate::ggml_abort;
use crate::graph::GraphRef;
use crate::guard;
use crate::tensor::TensorRef;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ops::Deref;

/// A call of a vtable's function, which arguments live as long as; the slot's name.
pub struct Call(pub &'static str);

/// An argument of a vtable's function, made of what C passes.
pub trait Argument<'c, Raw>: Sized {
    /// # Safety
    /// **The vtable contract** holds for `raw`: it is an argument of `call`, a function made by [`shims`]; a pointer is
    /// NULL or to a valid object of its kind, which lives as long as the call.
    unsafe fn from_c(raw: Raw, call: &'c Call) -> Self;
}

/// The object that a function of `T` belongs to, with its author's value.
pub struct This<'c, T, H> {
    author: &'c T,
    /// The object as the outside knows it.
    pub object: H,
}

impl<T, H> Deref for This<'_, T, H> {
    type Target = T;
    fn deref(&self) -> &T {
        self.author
    }
}

/// Memory of the host that the function reads or writes, of a size that other arguments say.
pub struct HostPointer<'c, P> {
    /// The first byte.
    pub address: P,
    call: PhantomData<&'c Call>,
}

/// Notes that `size` bytes of a tensor were not written, because the function that should have has panicked.
///
/// # Safety
/// **The vtable contract** holds for `tensor`.
pub unsafe fn unwritten(tensor: *mut ggml_tensor, offset: usize, size: usize) {
    // SAFETY: the caller promises what the contract says of a tensor: NULL or a **valid tensor**.
    if let Some(tensor) = unsafe { TensorRef::from_ptr(tensor) } {
        damage::unwritten(tensor, offset, size);
    }
}

/// What a function writes for its caller; nothing where C passes NULL.
pub struct Out<'c, T>(Option<&'c mut T>);

impl<T> Out<'_, T> {
    /// Writes it.
    pub fn put(self, value: T) {
        if let Some(place) = self.0 {
            *place = value;
        }
    }
}

macro_rules! objects {
    ($($handle:ident: $raw:ty),*) => {$(
        impl<'c> Argument<'c, $raw> for Option<$handle> {
            unsafe fn from_c(raw: $raw, _: &'c Call) -> Self {
                // SAFETY: **the vtable contract**: NULL or a valid object, which lives as long as the call.
                unsafe { $handle::from_ptr(raw.cast()) }
            }
        }

        impl<'c> Argument<'c, $raw> for $handle {
            unsafe fn from_c(raw: $raw, call: &'c Call) -> Self {
                // SAFETY: **the vtable contract** holds for `raw`, as for this function.
                match unsafe { Option::<$handle>::from_c(raw, call) } {
                    Some(handle) => handle,
                    None => ggml_abort!("{} of a backend was called with NULL", call.0),
                }
            }
        }
    )*};
}
objects!(
    TensorRef: *const ggml_tensor, BackendRef: ggml_backend_t, BufferRef: ggml_backend_buffer_t,
    BufferTypeRef: ggml_backend_buffer_type_t, DeviceRef: ggml_backend_dev_t, RegRef: ggml_backend_reg_t,
    EventRef: ggml_backend_event_t, GraphRef: *mut ggml_cgraph
);

impl<'c> Argument<'c, *mut ggml_tensor> for TensorRef {
    unsafe fn from_c(raw: *mut ggml_tensor, call: &'c Call) -> Self {
        // SAFETY: **the vtable contract** holds for `raw`; `const` or not makes no difference to it.
        unsafe { Self::from_c(raw.cast_const(), call) }
    }
}

impl<'c> Argument<'c, *const ggml_cgraph> for GraphRef {
    unsafe fn from_c(raw: *const ggml_cgraph, call: &'c Call) -> Self {
        // SAFETY: **the vtable contract** holds for `raw`; `const` or not makes no difference to it.
        unsafe { Self::from_c(raw.cast_mut(), call) }
    }
}

macro_rules! this {
    ($($handle:ident: $raw:ty),*) => {$(
        impl<'c, T: 'static> Argument<'c, $raw> for This<'c, T, $handle> {
            unsafe fn from_c(raw: $raw, call: &'c Call) -> Self {
                // SAFETY: the caller's promise. An object whose function this is was made here, so its context came
                // from `Context::boxed`.
                let this = unsafe {
                    let object = $handle::from_c(raw, call);
                    let context = (*raw).context;
                    if (*context.cast::<Head>()).is_of_parent() && !matches!(call.0, "get_name" | "get_base") {
                        guard::refuse(format!("{object:?} belongs to the process that this one was forked from, and does not work here"));
                    }
                    Context::get(context).map(|author| Self { author, object })
                };
                match this {
                    Some(this) => this,
                    None => ggml_abort!("{} of one backend was called with an object of another", call.0),
                }
            }
        }
    )*};
}
this!(
    BackendRef: ggml_backend_t, BufferRef: ggml_backend_buffer_t, BufferTypeRef: ggml_backend_buffer_type_t,
    DeviceRef: ggml_backend_dev_t, RegRef: ggml_backend_reg_t
);

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl<'c> Argument<'c, $number> for $number {
            unsafe fn from_c(raw: $number, _: &'c Call) -> Self {
                raw
            }
        }
    )*};
}
numbers!(usize, u8, c_int);

impl<'c, P> Argument<'c, P> for HostPointer<'c, P> {
    unsafe fn from_c(raw: P, _: &'c Call) -> Self {
        Self { address: raw, call: PhantomData }
    }
}

impl<'c, T> Argument<'c, *mut T> for Out<'c, T> {
    unsafe fn from_c(raw: *mut T, _: &'c Call) -> Self {
        // SAFETY: the caller's promise: NULL, or writable by this function alone.
        Self(unsafe { raw.as_mut() })
    }
}

impl<'c> Argument<'c, *const c_char> for Option<&'c CStr> {
    unsafe fn from_c(raw: *const c_char, _: &'c Call) -> Self {
        // SAFETY: the caller's promise: NULL or a **valid C string**.
        (!raw.is_null()).then(|| unsafe { CStr::from_ptr(raw) })
    }
}

impl HostPointer<'_, *const c_void> {
    /// `size` bytes to be read.
    ///
    /// # Safety
    /// The call's arguments say that there are as many.
    pub unsafe fn bytes(&self, size: usize) -> &[u8] {
        // SAFETY: readable as long as the call; a pointer to nothing may be anything.
        if size == 0 { &[] } else { unsafe { std::slice::from_raw_parts(self.address.cast(), size) } }
    }
}

impl HostPointer<'_, *mut c_void> {
    /// `size` bytes to be written.
    ///
    /// # Safety
    /// The call's arguments say that there are as many.
    pub unsafe fn bytes_mut(&mut self, size: usize) -> &mut [u8] {
        // SAFETY: writable as long as the call, by this function alone; a pointer to nothing may be anything.
        if size == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(self.address.cast(), size) } }
    }
}

/// Defines functions of a vtable:
/// `fn slot<T: Trait>(argument: what C passes => its type) -> result, after a panic => body`. The body is safe code; a
/// panic in it is logged.
macro_rules! shims {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident<$author:ident: $bound:ident>($($arg:ident: $raw:ty => $as:ty),* $(,)?) -> $result:ty, $fallback:expr => $body:block
    )*) => {$(
        $(#[$attribute])*
        unsafe extern "C" fn $name<$author: $bound>($($arg: $raw),*) -> $result {
            let call = $crate::backend::author::shim::Call(stringify!($name));
            $crate::backend::author::run::guard(call.0, || $fallback, || {
                $(
                    // SAFETY: C calls this function through the vtable that it was put into, with what **the vtable
                    // contract** promises.
                    #[allow(unused_mut)]
                    let mut $arg: $as = unsafe { $crate::backend::author::shim::Argument::from_c($arg, &call) };
                )*
                $body
            })
        }
    )*};
}
pub(super) use shims;
