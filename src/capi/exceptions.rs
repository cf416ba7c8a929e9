//! What libraries in C++ take from the libggml that they were built with, because the C++ library of the system lacks
//! it.

use crate::sys::terminate::terminate;
use std::ffi::c_void;

/// Ends the process, because an exception has left a function that is `noexcept`.
///
/// GCC 14 and later call it. The C++ library of older systems does not have it, so the libggml of a wheel that was
/// built with such a compiler contains it, and other libraries of the wheel find it there. Ours is in the small libggml
/// only: a static program gets that of its own C++ library.
///
/// # Safety
/// `exception` is the object of the exception that was caught.
pub unsafe extern "C" fn __cxa_call_terminate(exception: *mut c_void) -> ! {
    // SAFETY: the caller's promise.
    unsafe { terminate(exception) }
}
