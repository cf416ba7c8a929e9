//! Abort, status, log, time, version.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{optional, outputs};
use crate::guard::{contract, guarded};
use crate::log;
use crate::sys::{stream, time};
use libc::FILE;
use std::ffi::{c_char, c_void};

/// Installs a callback that receives the message before a broken contract ends the process. NULL restores the
/// default, which prints the message and a backtrace to standard error. Returns the previous callback.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_abort_callback(callback: ggml_abort_callback_t) -> ggml_abort_callback_t {
    contract::set_abort_callback(callback)
}

/// Returns a short description of a status, for people. Never NULL.
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

/// Returns whether two identifiers are equal. NULL equals nothing.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_guid_matches(guid_a: ggml_guid_t, guid_b: ggml_guid_t) -> bool {
    // SAFETY: NULL is excluded first; the header requires two identifiers of 16 bytes.
    unsafe { !guid_a.is_null() && !guid_b.is_null() && guid_a.read() == guid_b.read() }
}

/// Returns the version of the interface: "0.28.0".
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Returns what the library was built from. Names this implementation.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_commit() -> *const c_char {
    c"libggml-rs".as_ptr()
}

/// Does nothing: the clocks need no preparation. Hosts call it at the start, because the original needs it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_time_init() {}

/// Returns the time of a monotonic clock in milliseconds.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_time_ms() -> i64 {
    time::monotonic_us() / 1_000
}

/// Returns the time of a monotonic clock in microseconds.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_time_us() -> i64 {
    time::monotonic_us()
}

/// Returns the processor time of the process in ticks; see `ggml_cycles_per_ms`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cycles() -> i64 {
    i64::try_from(time::process_time().as_micros()).unwrap_or(i64::MAX)
}

/// Returns the number of ticks of `ggml_cycles` in a millisecond.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cycles_per_ms() -> i64 {
    1_000
}

/// Opens a file as `fopen` does, with a UTF-8 path on every system. On failure returns NULL and sets `errno`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_fopen(fname: *const c_char, mode: *const c_char) -> *mut FILE {
    optional!(fname, mode);
    let (Some(fname), Some(mode)) = (fname, mode) else { return std::ptr::null_mut() };
    stream::open(fname, mode)
}

unsafe extern "C" fn default_log(_level: raw::ggml_log_level, text: *const c_char, _user_data: *mut c_void) {
    optional!(text);
    if let Some(text) = text {
        log::to_stderr(text);
    }
}

/// Returns the current log callback (the default one, which writes to standard error, if none is set) and its data.
/// Both addresses may be NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_log_get(log_callback: *mut ggml_log_callback, user_data: *mut *mut c_void) {
    let (callback, data) = log::callback();
    outputs!(log_callback, user_data);
    log_callback.put(callback.or(Some(default_log)));
    user_data.put(data);
}

/// Sends the log of all threads to `log_callback`, with `user_data`. NULL restores standard error. A line may arrive
/// in pieces: pieces of level `GGML_LOG_LEVEL_CONT` continue the previous one.
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
