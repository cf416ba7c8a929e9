//! From C's pointers and integers to handles and enums, and back. A NULL or a number that the header forbids ends the
//! process as the original's assertions do; the message names the line of the function that was called.

use crate::abi::ggml::{ggml_context, ggml_tensor, ggml_type};
use crate::abi::graph::ggml_cgraph;
use crate::abi::raw;
use crate::error::Result;
use crate::graph::GraphRef;
use crate::log_error;
use crate::sys;
use crate::tensor::{Context, TensorRef};
use std::ffi::c_char;
use std::panic::Location;
use std::path::Path;

/// Returns the object, or ends the process for a NULL argument.
#[inline]
#[track_caller]
fn required<T>(value: Option<T>, name: &str) -> T {
    match value {
        Some(v) => v,
        None => is_null(name),
    }
}

#[cold]
#[track_caller]
fn is_null(name: &str) -> ! {
    broken(&format!("GGML_ASSERT({name} != NULL) failed"))
}

/// Ends the process with a message at the caller's line.
#[cold]
#[track_caller]
pub fn broken(message: &str) -> ! {
    let at = Location::caller();
    crate::log::abort(at.file(), at.line(), message)
}

/// The tensor at `p`, which the header forbids to be NULL; `name` is the parameter's.
///
/// # Safety
/// `p` is NULL or a valid tensor for as long as the handle, or a copy of it, is used.
#[inline]
#[track_caller]
pub unsafe fn tensor(p: *const ggml_tensor, name: &str) -> TensorRef {
    // SAFETY: forwarded to the caller.
    required(unsafe { TensorRef::from_ptr(p) }, name)
}

/// The tensor at `p`, or `None` for NULL.
///
/// # Safety
/// As for [`tensor`].
#[inline]
pub unsafe fn opt_tensor(p: *const ggml_tensor) -> Option<TensorRef> {
    // SAFETY: forwarded to the caller.
    unsafe { TensorRef::from_ptr(p) }
}

/// The context at `p`, which the header forbids to be NULL.
///
/// # Safety
/// `p` is NULL or a valid context that no other thread and no other reference uses during the call.
#[inline]
#[track_caller]
pub unsafe fn ctx<'a>(p: *mut ggml_context) -> &'a mut Context {
    // SAFETY: forwarded to the caller.
    required(unsafe { p.cast::<Context>().as_mut() }, "ctx")
}

/// The context at `p` to read, or `None` for NULL.
///
/// # Safety
/// `p` is NULL or a valid context that nobody changes meanwhile.
#[inline]
pub unsafe fn opt_ctx<'a>(p: *const ggml_context) -> Option<&'a Context> {
    // SAFETY: a valid context is a `Context` behind the opaque name; that nobody changes it is the caller's promise.
    unsafe { p.cast::<Context>().as_ref() }
}

/// The graph at `p`, which the header forbids to be NULL.
///
/// # Safety
/// `p` is NULL or a valid graph for as long as the handle, or a copy of it, is used.
#[inline]
#[track_caller]
pub unsafe fn graph(p: *const ggml_cgraph) -> GraphRef {
    // SAFETY: forwarded to the caller.
    required(unsafe { GraphRef::from_ptr(p) }, "cgraph")
}

/// The graph at `p`, or `None` for NULL.
///
/// # Safety
/// As for [`graph`].
#[inline]
pub unsafe fn opt_graph(p: *const ggml_cgraph) -> Option<GraphRef> {
    // SAFETY: forwarded to the caller.
    unsafe { GraphRef::from_ptr(p) }
}

/// A call of an exported function: what its pointers stand for is used no longer.
pub struct Call;

/// What an exported function takes by pointer.
pub trait Passed<'c> {
    /// What the pointer stands for.
    type Object;

    /// The object, which the header forbids to be NULL; `name` is the parameter's.
    ///
    /// # Safety
    /// **The header's contract**: NULL, or a valid object for as long as `call`, or, for handles, as they are used.
    unsafe fn required(self, name: &str, call: &'c Call) -> Self::Object;
}

macro_rules! passed {
    ($($raw:ty => $object:ty, $required:expr;)*) => {$(
        impl<'c> Passed<'c> for $raw {
            type Object = $object;
            #[inline]
            #[track_caller]
            unsafe fn required(self, name: &str, _: &'c Call) -> $object {
                // SAFETY: forwarded to the caller.
                unsafe { $required(self, name) }
            }
        }
    )*};
}
passed! {
    *mut ggml_tensor => TensorRef, tensor;
    *const ggml_tensor => TensorRef, tensor;
    *mut ggml_cgraph => GraphRef, |p, _| graph(p);
    *const ggml_cgraph => GraphRef, |p, _| graph(p);
}

impl<'c> Passed<'c> for *mut ggml_context {
    type Object = &'c mut Context;
    #[inline]
    #[track_caller]
    unsafe fn required(self, _: &str, _: &'c Call) -> Self::Object {
        // SAFETY: forwarded to the caller.
        unsafe { ctx(self) }
    }
}

/// Turns parameters of an exported function into what they point to, under the same names: `need!(ctx, a; mask)`. Those behind the semicolon are tensors that
/// may be NULL.
///
/// It compiles only inside functions that are unsafe themselves: that their pointers are what the header says is their caller's promise.
macro_rules! need {
    ($($p:ident),+ $(; $($o:ident),+)?) => {
        let call = $crate::capi::convert::Call;
        #[allow(unsafe_op_in_unsafe_fn)]
        let ($($p,)+) = ($($crate::capi::convert::Passed::required($p, stringify!($p), &call),)+);
        $(
            #[allow(unsafe_op_in_unsafe_fn)]
            let ($($o,)+) = ($($crate::capi::convert::opt_tensor($o),)+);
        )?
    };
}
pub(in crate::capi) use need;

/// The value, or `None` with the error in the log.
pub fn logged<T>(what: &str, result: Result<T>) -> Option<T> {
    result.map_err(|e| log_error!("{what}: {e}")).ok()
}

/// A tensor for C, NULL for none.
#[inline]
pub fn opt_out(t: Option<TensorRef>) -> *mut ggml_tensor {
    t.map_or(std::ptr::null_mut(), TensorRef::as_ptr)
}

/// Writes to an address that C may leave NULL.
///
/// # Safety
/// `p` is NULL or valid for writing a `T`.
pub unsafe fn put<T>(p: *mut T, value: T) {
    if !p.is_null() {
        // SAFETY: not NULL, so by the caller's promise valid.
        unsafe { p.write(value) }
    }
}

/// The pointer a C caller holds a new context by. `ctx_from_raw` takes it back.
pub fn ctx_into_raw(ctx: Context) -> *mut ggml_context {
    Box::into_raw(Box::new(ctx)).cast()
}

/// Takes a context back from its C pointer, to be dropped; `None` for NULL.
///
/// # Safety
/// `p` is NULL or came from [`ctx_into_raw`] and is not used afterwards.
pub unsafe fn ctx_from_raw(p: *mut ggml_context) -> Option<Box<Context>> {
    if p.is_null() {
        return None;
    }
    // SAFETY: by the caller's promise the pointer came from `Box::into_raw` of a `Context`.
    Some(unsafe { Box::from_raw(p.cast::<Context>()) })
}

/// The path at `p`; `None` for NULL and for "".
///
/// # Safety
/// `p` is NULL or a valid C string for as long as the result is used.
pub unsafe fn text_path<'a>(p: *const c_char) -> Option<&'a Path> {
    // SAFETY: forwarded to the caller.
    let bytes = unsafe { sys::cstr::bytes(p) }.filter(|b| !b.is_empty())?;
    sys::file::path(bytes)
}

/// The number format with this number; the contract forbids others.
#[inline]
#[track_caller]
pub fn dtype(v: raw::ggml_type) -> ggml_type {
    match ggml_type::from_raw(v) {
        Some(t) => t,
        None => broken(&format!("GGML_ASSERT(type >= 0 && type < GGML_TYPE_COUNT) failed: there is no type {v}")),
    }
}

/// A checked enum: `value` is what `from_raw` made of `number`; the contract forbids numbers without a meaning.
#[inline]
#[track_caller]
pub fn known<T>(value: Option<T>, name: &str, number: i32) -> T {
    match value {
        Some(v) => v,
        None => broken(&format!("{name}: there is no value {number}")),
    }
}

/// The tensor for C, or NULL after the error was logged.
#[inline]
pub fn out(result: Result<TensorRef>) -> *mut ggml_tensor {
    opt_out(logged("ggml", result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_none_where_it_is_allowed_and_errors_become_null() {
        // SAFETY: NULL is allowed.
        unsafe {
            assert!(opt_tensor(std::ptr::null()).is_none());
            assert!(opt_ctx(std::ptr::null_mut()).is_none());
            assert!(ctx_from_raw(std::ptr::null_mut()).is_none());
        }
        assert!(out(Err(crate::invalid!("test"))).is_null());
    }

    #[test]
    fn a_context_goes_to_c_and_back() {
        let p = ctx_into_raw(Context::with_size(1024, true).unwrap());
        // SAFETY: `p` is the context made above, used by nobody else, and taken back once.
        unsafe {
            assert_eq!(ctx(p).mem_size(), 1024);
            assert_eq!(ctx_from_raw(p).unwrap().mem_size(), 1024);
        }
    }
}
