//! From C's pointers and integers to handles and enums, and back. A NULL or a number that the header forbids ends the
//! process as the original's assertions do; the message names the line of the function that was called.

use crate::abi::ggml::{ggml_context, ggml_tensor, ggml_type};
use crate::abi::gguf::gguf_context;
use crate::abi::graph::ggml_cgraph;
use crate::abi::raw;
use crate::backend::damage;
use crate::error::Result;
use crate::gguf::Gguf;
use crate::graph::GraphRef;
use crate::log_error;
use crate::sys;
use crate::tensor::{Context, TensorRef};
use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::panic::Location;
use std::path::Path;

/// Returns the object, or ends the process for a NULL argument.
#[inline]
#[track_caller]
pub fn required<T>(value: Option<T>, name: &str) -> T {
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
    crate::guard::contract::abort(at.file(), at.line(), message)
}

/// The tensor at `p`, which the header forbids to be NULL. Messages call it `name`.
///
/// # Safety
/// `p` is NULL or a valid tensor for as long as the handle, or a copy of it, is used.
#[inline]
#[track_caller]
pub unsafe fn tensor(p: *const ggml_tensor, name: &str) -> TensorRef {
    // SAFETY: forwarded to the caller.
    required(unsafe { TensorRef::from_ptr(p) }, name)
}

/// A shared reference to the library's object `T` whose opaque C name is `R`; `None` for NULL.
///
/// # Safety
/// `p` is NULL or points to a `T` that lives, and to which there is no mutable reference, for as long as the result is
/// used.
#[inline]
pub unsafe fn shared<'a, R, T>(p: *const R) -> Option<&'a T> {
    // SAFETY: NULL, or by the caller's promise a `T` to which there is no mutable reference.
    unsafe { p.cast::<T>().as_ref() }
}

/// A mutable reference to the library's object `T` whose opaque C name is `R`; `None` for NULL.
///
/// # Safety
/// `p` is NULL or points to a `T` that lives, and that no other code uses, for as long as the result is used.
#[inline]
pub unsafe fn exclusive<'a, R, T>(p: *mut R) -> Option<&'a mut T> {
    // SAFETY: NULL, or by the caller's promise a `T` that no other code uses.
    unsafe { p.cast::<T>().as_mut() }
}

/// A call of an exported function. References to the objects that its pointers refer to borrow from it, so that no
/// reference outlives the call.
pub struct Call;

/// A pointer that a C caller passes to an exported function.
pub trait Passed<'c>: Sized {
    /// The object that the pointer refers to.
    type Object;

    /// The object, or `None` for NULL.
    ///
    /// # Safety
    /// **The header's contract**: NULL, or a valid object for as long as `call` or, for handles, as they are used. No
    /// other thread uses an object that the header does not allow to share. For a `&mut` object: no other reference to
    /// it is used while the result is.
    unsafe fn optional(self, call: &'c Call) -> Option<Self::Object>;

    /// The object, which the header forbids to be NULL; `name` is that of the parameter.
    ///
    /// # Safety
    /// As for [`Self::optional`].
    #[inline]
    #[track_caller]
    unsafe fn required(self, name: &str, call: &'c Call) -> Self::Object {
        // SAFETY: forwarded to the caller.
        required(unsafe { self.optional(call) }, name)
    }

    /// The object, for functions that only return information about it. For NULL, logs an error and returns `None`.
    ///
    /// # Safety
    /// As for [`Self::optional`].
    #[inline]
    #[track_caller]
    unsafe fn queried(self, name: &str, call: &'c Call) -> Option<Self::Object> {
        // SAFETY: forwarded to the caller.
        let object = unsafe { self.optional(call) };
        if object.is_none() {
            log_error!("{}: {name} is NULL", Location::caller());
        }
        object
    }
}

/// `passed! { unsafe 'c: pointer => object, function; ... }`: implements [`Passed`] for pointer types. Each row names
/// the type of the object that the pointer refers to, and the function that converts the pointer to it.
///
/// # Safety
/// For each row: the contract of [`Passed::optional`] is all that the function requires. For an opaque C name, this
/// says that every pointer of that name which this library gives out points to the Rust type in the row.
macro_rules! passed {
    (unsafe $c:lifetime: $($raw:ty => $object:ty, $at:path;)*) => {$(
        impl<$c> $crate::capi::convert::Passed<$c> for $raw {
            type Object = $object;
            #[inline]
            unsafe fn optional(self, _: &$c $crate::capi::convert::Call) -> Option<$object> {
                // SAFETY: the caller keeps the contract of `optional`, which is all that the function requires: the
                // promise of `passed!`.
                unsafe { $at(self) }
            }
        }
    )*};
}

// SAFETY: a `ggml_context` that C has came from `ctx_into_raw`, and so is a `Context`. Tensors, graphs and texts are
// the C structs themselves.
passed! { unsafe 'c:
    *mut ggml_tensor => TensorRef, TensorRef::from_ptr;
    *const ggml_tensor => TensorRef, TensorRef::from_ptr;
    *mut ggml_cgraph => GraphRef, GraphRef::from_ptr;
    *const ggml_cgraph => GraphRef, GraphRef::from_ptr;
    *mut ggml_context => &'c mut Context, exclusive;
    *const ggml_context => &'c Context, shared;
    *const c_char => &'c CStr, text;
}

/// A pointer whose object a function takes over from the host, to free it or to keep it.
pub trait Given: Sized {
    /// The object that the function takes over.
    type Object;

    /// The object, or `None` for NULL.
    ///
    /// # Safety
    /// **The header's contract**: NULL, or an object that this library gave to the caller, and that the caller does not
    /// use afterwards.
    unsafe fn taken(self) -> Option<Self::Object>;
}

/// Takes back from C the library's object `T` whose opaque C name is `R`; `None` for NULL.
///
/// # Safety
/// `p` is NULL or came from `Box::into_raw` of a `T`, and is not used afterwards.
pub unsafe fn boxed<R, T>(p: *mut R) -> Option<Box<T>> {
    // SAFETY: not NULL, so by the caller's promise from `Box::into_raw`, and taken back once.
    (!p.is_null()).then(|| unsafe { Box::from_raw(p.cast::<T>()) })
}

/// `given! { unsafe: pointer => object, function; ... }`: as `passed!`, but implements [`Given`].
///
/// # Safety
/// For each row: the contract of [`Given::taken`] is all that the function requires. For an opaque C name, this says
/// how the library made the objects of that name.
macro_rules! given {
    (unsafe: $($raw:ty => $object:ty, $taken:path;)*) => {$(
        impl $crate::capi::convert::Given for $raw {
            type Object = $object;
            unsafe fn taken(self) -> Option<$object> {
                // SAFETY: the caller keeps the contract of `taken`, which is all that the function requires: the
                // promise of `given!`.
                unsafe { $taken(self) }
            }
        }
    )*};
}

// SAFETY: `ctx_into_raw` makes them from a boxed `Context`.
given! { unsafe:
    *mut ggml_context => Box<Context>, boxed;
}

/// The address at which an exported function stores a value for its caller. May be NULL.
pub struct Out<'c, T>(*mut T, PhantomData<&'c Call>);

impl<'c, T> Out<'c, T> {
    /// # Safety
    /// **The header's contract**: `p` is NULL or valid for writing a `T`, for as long as `call`.
    pub unsafe fn new(p: *mut T, _: &'c Call) -> Self {
        Self(p, PhantomData)
    }

    /// Returns whether the address is not NULL.
    pub fn is_wanted(&self) -> bool {
        !self.0.is_null()
    }

    /// Writes the value, unless the address is NULL.
    pub fn put(self, value: T) {
        if self.is_wanted() {
            // SAFETY: not NULL, so by the promise made to `new` valid for writing during the call, which `'c` does not
            // outlive.
            unsafe { self.0.write(value) }
        }
    }
}

/// The entries at `p`; none for NULL.
///
/// # Safety
/// **The header's contract**: `p` is NULL or points to `n` entries that stay unchanged for as long as `call`.
#[inline]
pub unsafe fn entries<T>(p: *const T, n: usize, _: &Call) -> &[T] {
    match p.is_null() || n == 0 {
        true => &[],
        // SAFETY: not NULL, so by the caller's promise `n` entries; the result is borrowed from the call.
        false => unsafe { std::slice::from_raw_parts(p, n) },
    }
}

/// The objects that the `n` pointers at `p` refer to. If `p` is NULL, the result is empty. If an entry is NULL, ends
/// the process with a message that calls the entry `name`.
///
/// # Safety
/// As for [`entries`], and for each entry as for [`Passed::optional`].
#[track_caller]
pub unsafe fn objects_at<'c, P: Passed<'c> + Copy>(
    p: *const P,
    n: usize,
    name: &str,
    call: &'c Call,
) -> Vec<P::Object> {
    // SAFETY: forwarded to the caller.
    let entries = unsafe { entries(p, n, call) };
    let mut objects = Vec::with_capacity(entries.len());
    for &entry in entries {
        // SAFETY: forwarded to the caller.
        objects.push(unsafe { entry.required(name, call) });
    }
    objects
}

/// As [`objects_at`], with `None` for an entry that is NULL.
///
/// # Safety
/// As for [`objects_at`].
pub unsafe fn optional_objects_at<'c, P>(p: *const P, n: usize, call: &'c Call) -> Vec<Option<P::Object>>
where
    P: Passed<'c> + Copy,
{
    // SAFETY: forwarded to the caller.
    unsafe { entries(p, n, call).iter().map(|&entry| entry.optional(call)).collect() }
}

/// The numbers at `p`, aligned or not; `None` for NULL.
///
/// # Safety
/// **The header's contract**: `p` is NULL or points to `N` readable numbers.
pub unsafe fn array<T: Copy, const N: usize>(p: *const T) -> Option<[T; N]> {
    // SAFETY: not NULL, so by the caller's promise `N` numbers.
    (!p.is_null()).then(|| unsafe { p.cast::<[T; N]>().read_unaligned() })
}

// The macros below convert parameters of an exported function to the objects that they refer to, under the same names.
// They contain no unsafe block, and so compile only where unsafe calls are allowed, inside unsafe functions: the
// callers of those functions promise that the pointers are as the header says.

/// `need!(ctx, a; mask)`: objects that the header forbids to be NULL; after the semicolon, objects that may be NULL.
macro_rules! need {
    ($($p:ident),+ $(; $($o:ident),+)?) => {
        let call = $crate::capi::convert::Call;
        #[allow(unsafe_op_in_unsafe_fn)]
        let ($($p,)+) = ($($crate::capi::convert::Passed::required($p, stringify!($p), &call),)+);
        $(
            #[allow(unsafe_op_in_unsafe_fn)]
            let ($($o,)+) = ($($crate::capi::convert::Passed::optional($o, &call),)+);
        )?
    };
}

/// `optional!(a, b)`: objects, or `None` for NULL.
macro_rules! optional {
    ($($p:ident),+) => {
        let call = $crate::capi::convert::Call;
        #[allow(unsafe_op_in_unsafe_fn)]
        let ($($p,)+) = ($($crate::capi::convert::Passed::optional($p, &call),)+);
    };
}

/// `query!(backend)`: as `optional!`, for objects that the function only returns information about. Logs an error for
/// NULL.
macro_rules! query {
    ($($p:ident),+) => {
        let call = $crate::capi::convert::Call;
        #[allow(unsafe_op_in_unsafe_fn)]
        let ($($p,)+) = ($($crate::capi::convert::Passed::queried($p, stringify!($p), &call),)+);
    };
}

/// `take!(buffer)`: objects that become the function's, or `None` for NULL.
macro_rules! take {
    ($($p:ident),+) => {
        #[allow(unsafe_op_in_unsafe_fn)]
        let ($($p,)+) = ($($crate::capi::convert::Given::taken($p),)+);
    };
}

/// `outputs!(free, total)`: addresses to write a value to, each an [`Out`].
macro_rules! outputs {
    ($($p:ident),+) => {
        let call = $crate::capi::convert::Call;
        #[allow(unsafe_op_in_unsafe_fn)]
        let ($($p,)+) = ($($crate::capi::convert::Out::new($p, &call),)+);
    };
}

/// `list!(n; a, b)`: parameters that point to `n` entries each, as slices; NULL is an empty one.
macro_rules! list {
    ($n:expr; $($p:ident),+) => {
        let call = $crate::capi::convert::Call;
        #[allow(unsafe_op_in_unsafe_fn)]
        let ($($p,)+) = ($($crate::capi::convert::entries($p, $n, &call),)+);
    };
}

/// `objects!(n; bufts)`: parameters that point to `n` pointers each, none of which may be NULL, as vectors of the
/// objects that those pointers refer to. A parameter that is NULL becomes an empty vector.
macro_rules! objects {
    ($n:expr; $($p:ident),+) => {
        let call = $crate::capi::convert::Call;
        #[allow(unsafe_op_in_unsafe_fn)]
        let ($($p,)+) = ($($crate::capi::convert::objects_at($p, $n, concat!(stringify!($p), "[i]"), &call),)+);
    };
}

/// `optional_objects!(n; grad_accs)`: as `objects!`, with `None` for a pointer that is NULL.
macro_rules! optional_objects {
    ($n:expr; $($p:ident),+) => {
        let call = $crate::capi::convert::Call;
        #[allow(unsafe_op_in_unsafe_fn)]
        let ($($p,)+) = ($($crate::capi::convert::optional_objects_at($p, $n, &call),)+);
    };
}

/// `numbers!(4; sections)`: parameters that point to so many numbers, as arrays; `None` for NULL.
macro_rules! numbers {
    ($n:expr; $($p:ident),+) => {
        #[allow(unsafe_op_in_unsafe_fn)]
        let ($($p,)+) = ($($crate::capi::convert::array::<_, $n>($p),)+);
    };
}

/// `#[guarded(spoil!(cgraph))]`, `#[guarded(spoil!(cgraph, value))]`: the failure of a function that should have
/// changed an object. It returns the value, and the object is refused where it is used next
/// ([`Spoil`](crate::capi::convert::Spoil)).
macro_rules! spoil {
    ($object:ident $(, $value:expr)?) => {{
        #[allow(unsafe_op_in_unsafe_fn)]
        let () = $crate::capi::convert::Spoil::spoil($object);
        $($value)?
    }};
}
/// `#[guarded(unwritten!(tensor, offset, size))]`: the failure of a function that should have written bytes of a
/// tensor. They must not be read until they are written (`backend::damage`).
macro_rules! unwritten {
    ($tensor:ident, $offset:expr, $size:expr) => {{
        #[allow(unsafe_op_in_unsafe_fn)]
        let () = $crate::capi::convert::not_written($tensor, $offset, $size);
    }};
}
pub(in crate::capi) use {
    given, list, need, numbers, objects, optional, optional_objects, outputs, passed, query, spoil, take, unwritten,
};

/// Pointers to objects that a failed function leaves without a change.
pub trait Spoil {
    /// Marks the object, so that its next use fails; does nothing for NULL.
    ///
    /// # Safety
    /// **The header's contract**: the pointer is NULL or points to a valid object that no other code uses.
    unsafe fn spoil(self);
}

impl Spoil for *mut ggml_cgraph {
    /// The graph cannot be computed.
    #[cold]
    unsafe fn spoil(self) {
        // SAFETY: forwarded to the caller.
        if let Some(graph) = unsafe { GraphRef::from_ptr(self) } {
            graph.spoil();
        }
    }
}

impl Spoil for *mut gguf_context {
    /// The contents of the file cannot be written.
    #[cold]
    unsafe fn spoil(self) {
        // SAFETY: forwarded to the caller.
        if let Some(file) = unsafe { exclusive::<_, Gguf>(self) } {
            file.is_incomplete = true;
        }
    }
}

impl Spoil for *mut ggml_tensor {
    /// The node loses its first source, so that no backend accepts it.
    #[cold]
    unsafe fn spoil(self) {
        // SAFETY: forwarded to the caller.
        if let Some(node) = unsafe { TensorRef::from_ptr(self) } {
            node.set_src(0, None);
        }
    }
}

/// Notes that bytes of a tensor were not written; does nothing for NULL.
///
/// # Safety
/// **The header's contract**: the pointer is NULL or that of a valid tensor.
#[cold]
pub unsafe fn not_written(tensor: *mut ggml_tensor, offset: usize, size: usize) {
    // SAFETY: forwarded to the caller.
    if let Some(tensor) = unsafe { TensorRef::from_ptr(tensor) } {
        damage::unwritten(tensor, offset, size);
    }
}

/// The value, or `None` with the error in the log.
pub fn logged<T>(what: &str, result: Result<T>) -> Option<T> {
    result.map_err(|e| log_error!("{what}: {e}")).ok()
}

/// A tensor for C, NULL for none.
#[inline]
pub fn opt_out(t: Option<TensorRef>) -> *mut ggml_tensor {
    t.map_or(std::ptr::null_mut(), TensorRef::as_ptr)
}

/// The pointer by which a C caller holds a new context. `take!` takes it back.
pub fn ctx_into_raw(ctx: Context) -> *mut ggml_context {
    Box::into_raw(Box::new(ctx)).cast()
}

/// The text at `p`, or `None` for NULL.
///
/// # Safety
/// `p` is NULL or a valid C string for as long as the result is used.
#[inline]
pub unsafe fn text<'a>(p: *const c_char) -> Option<&'a CStr> {
    // SAFETY: not NULL, so by the caller's promise a valid C string.
    (!p.is_null()).then(|| unsafe { CStr::from_ptr(p) })
}

/// The path that a text names; `None` for none and for "".
pub fn path(text: Option<&CStr>) -> Option<&Path> {
    let bytes = text?.to_bytes();
    if bytes.is_empty() {
        return None;
    }
    sys::file::path(bytes)
}

/// The number format with this number. Any other number breaks the contract.
#[inline]
#[track_caller]
pub fn dtype(v: raw::ggml_type) -> ggml_type {
    match ggml_type::from_raw(v) {
        Some(t) => t,
        None => broken(&format!("GGML_ASSERT(type >= 0 && type < GGML_TYPE_COUNT) failed: there is no type {v}")),
    }
}

/// A checked enum: `value` is what `from_raw` made of `number`. A number that names nothing breaks the contract.
#[inline]
#[track_caller]
pub fn known<T>(value: Option<T>, name: &str, number: i32) -> T {
    match value {
        Some(v) => v,
        None => broken(&format!("{name}: there is no value {number}")),
    }
}

/// A tensor for C. If the result is an error, logs it and returns NULL.
#[inline]
pub fn out(result: Result<TensorRef>) -> *mut ggml_tensor {
    opt_out(logged("ggml", result))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Like an exported function.
    ///
    /// # Safety
    /// The pointers are NULL or valid; three numbers are at `ne`.
    unsafe fn ask(a: *const ggml_tensor, ctx: *const ggml_context, word: *const c_char, ne: *const i64) -> bool {
        optional!(a, ctx, word);
        list!(3; ne);
        a.is_none() && ctx.is_none() && word.is_none() && ne.is_empty()
    }

    #[test]
    fn null_is_none_where_it_is_allowed_and_errors_become_null() {
        use std::ptr::{null, null_mut};
        // SAFETY: NULL is allowed.
        unsafe {
            assert!(ask(null(), null(), null(), null()));
            assert!(null_mut::<ggml_context>().taken().is_none());
            assert_eq!(array::<i32, 4>(null()), None);
            Out::new(null_mut(), &Call).put(1);
        }
        assert!(out(Err(crate::invalid!("test"))).is_null());
    }

    #[test]
    fn values_arrive_where_the_caller_wants_them() {
        let (mut to, list) = (0, [1i64, 2, 3]);
        // SAFETY: both addresses are those of values that live, with three numbers in the list.
        unsafe {
            Out::new(&raw mut to, &Call).put(7);
            assert_eq!(entries(list.as_ptr(), 3, &Call), [1, 2, 3]);
            assert_eq!(array(list.as_ptr()), Some([1i64, 2]));
        }
        assert_eq!(to, 7);
    }

    #[test]
    fn paths_are_texts_that_are_not_empty() {
        assert_eq!(path(Some(c"a/b")), Some(Path::new("a/b")));
        assert_eq!((path(Some(c"")), path(None)), (None, None));
    }

    #[test]
    fn a_context_goes_to_c_and_back() {
        let p = ctx_into_raw(Context::with_size(1024, true).unwrap());
        // SAFETY: `p` is the context made above, which no other code uses, and it is taken back once.
        unsafe {
            assert_eq!(p.required("ctx", &Call).mem_size(), 1024);
            assert_eq!(p.taken().unwrap().mem_size(), 1024);
        }
    }
}
