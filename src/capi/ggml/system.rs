//! Abort, status, log, time, version.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::put;
use crate::guard::guarded;
use crate::log;
use crate::sys::{file, time};
use libc::FILE;
use std::ffi::{CStr, c_char, c_void};

/// Installs a function that hears the message before the process is ended because of a broken contract.
/// NULL restores the default: the message and a backtrace on standard error. Returns the function in force before.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_abort_callback(callback: ggml_abort_callback_t) -> ggml_abort_callback_t {
    log::set_abort_callback(callback)
}

/// A short text for a status, for people. Never NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_status_to_string(status: raw::ggml_status) -> *const c_char {
    use ggml_status::*;
    match ggml_status::from_raw(status) {
        Some(GGML_STATUS_ALLOC_FAILED) => c"GGML status: error (failed to allocate memory)",
        Some(GGML_STATUS_FAILED) => c"GGML status: error (operation failed)",
        Some(GGML_STATUS_SUCCESS) => c"GGML status: success",
        Some(GGML_STATUS_ABORTED) => c"GGML status: warning (operation aborted)",
        None => c"GGML status: unknown",
    }
    .as_ptr()
}

/// Whether two 16-byte identifiers are equal. NULL equals nothing.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_guid_matches(guid_a: ggml_guid_t, guid_b: ggml_guid_t) -> bool {
    // SAFETY: not NULL, so by the contract 16 readable bytes each.
    unsafe { !guid_a.is_null() && !guid_b.is_null() && guid_a.read() == guid_b.read() }
}

/// Version of the interface, "0.28.0".
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// What the library was built from; names this implementation.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_commit() -> *const c_char {
    c"libggml-rs".as_ptr()
}

/// Prepares the clock that the time functions read. Systems of today need no preparation; hosts call it all the same.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_time_init() {}

/// Milliseconds on a clock that only goes forward.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_time_ms() -> i64 {
    time::monotonic_us() / 1_000
}

/// Microseconds on a clock that only goes forward.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_time_us() -> i64 {
    time::monotonic_us()
}

/// Processor time of the program, in ticks; see `ggml_cycles_per_ms`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cycles() -> i64 {
    i64::try_from(time::process_time().as_micros()).unwrap_or(i64::MAX)
}

/// Ticks of `ggml_cycles` in a millisecond.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cycles_per_ms() -> i64 {
    1_000
}

/// Opens a file as `fopen` does; the path is UTF-8 on every system. NULL when it cannot be opened, with `errno` set.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_fopen(fname: *const c_char, mode: *const c_char) -> *mut FILE {
    if fname.is_null() || mode.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: not NULL, so by the contract valid C strings.
    let (fname, mode) = unsafe { (CStr::from_ptr(fname), CStr::from_ptr(mode)) };
    file::open_stream(fname, mode)
}

unsafe extern "C" fn default_log(_level: raw::ggml_log_level, text: *const c_char, _user_data: *mut c_void) {
    if !text.is_null() {
        // SAFETY: not NULL, so by the contract a valid C string.
        log::to_stderr(unsafe { CStr::from_ptr(text) });
    }
}

/// Where log lines go now: the callback (the one that writes to standard error if none was set) and its data.
/// Either address may be NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_log_get(log_callback: *mut ggml_log_callback, user_data: *mut *mut c_void) {
    let (callback, data) = log::callback();
    // SAFETY: NULL or valid for writing, by the contract.
    unsafe {
        put(log_callback, callback.or(Some(default_log)));
        put(user_data, data);
    }
}

/// Sends all log lines to `log_callback` with `user_data`, from whichever thread they come. NULL restores standard error.
/// A line may come in pieces: those of level `GGML_LOG_LEVEL_CONT` continue the one before.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_log_set(log_callback: ggml_log_callback, user_data: *mut c_void) {
    log::set_callback(log_callback, user_data);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward_and_statuses_have_texts() {
        // SAFETY: no preconditions.
        unsafe {
            ggml_time_init();
            let (ms, us) = (ggml_time_ms(), ggml_time_us());
            std::thread::sleep(std::time::Duration::from_millis(2));
            assert!(ggml_time_us() >= us + 2000 && ggml_time_ms() > ms);
            assert_ne!(ggml_status_to_string(-1), ggml_status_to_string(77));
            assert!(!ggml_guid_matches(std::ptr::null_mut(), std::ptr::null_mut()));
        }
    }
}
