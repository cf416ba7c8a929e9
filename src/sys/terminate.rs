//! The end of the process because of an exception of C++.

use std::ffi::c_void;

/// Ends the process because of an exception, as the C++ library would: its handler finds the exception as the current
/// one.
///
/// # Safety
/// `exception` is the object of an exception that was caught.
#[cfg(any(unix, windows))]
pub unsafe fn terminate(exception: *mut c_void) -> ! {
    use super::symbols::find;
    type Catch = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
    type Terminate = unsafe extern "C-unwind" fn() -> !;
    // SAFETY: functions of the C++ library, which the process has, or not, with the signatures that the C++ ABI gives
    // these names; the object is the caller's promise.
    unsafe {
        if let Some(function) = find(c"__cxa_begin_catch") {
            std::mem::transmute::<*mut c_void, Catch>(function.as_ptr())(exception);
        }
        if let Some(function) = find(c"_ZSt9terminatev") {
            std::mem::transmute::<*mut c_void, Terminate>(function.as_ptr())();
        }
    }
    super::process::abort()
}

/// Ends the process.
///
/// # Safety
/// None: it is as the other.
#[cfg(not(any(unix, windows)))]
pub unsafe fn terminate(_: *mut c_void) -> ! {
    super::process::abort()
}
