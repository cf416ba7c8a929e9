//! What went wrong, and what a broken contract does.

use crate::abi::raw;
use crate::abi::rs::ggml_rs_policy;
use crate::capi::convert::known;
use crate::guard::{self, guarded};
use crate::log;
use std::ffi::c_char;

/// What the library last said at error level on the calling thread, in one line without the line end; "" when it has said
/// nothing since the start or since `ggml_rs_clear_error`. Functions that succeed leave it as it is. The text is the
/// library's, and stays until the thread's next error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rs_last_error() -> *const c_char {
    log::last_error_ptr()
}

/// Forgets the calling thread's last error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rs_clear_error() {
    log::clear_last_error();
}

/// Says what a broken contract does (an argument that the headers forbid: what the original asserts), on all threads, for
/// calls that begin afterwards; returns what was said before. `GGML_RS_POLICY_ABORT` is the default.
///
/// With `GGML_RS_POLICY_ERROR` the call is left where the mistake was found. Memory that it had taken is given back, the
/// text goes to the log at error level and to `ggml_rs_last_error`, the abort callback is not called, and the objects can
/// be used and freed as before the call. It cannot help where
/// - a pointer is no such object, or a dead one: nobody can see that;
/// - C or C++ code finds the mistake itself: `ggml_abort`, `GGML_ASSERT` in a host or in a module end the process;
/// - `ggml_get_type_traits` is asked for a type that does not exist: it has no way to fail.
///
/// A call that made several changes before the mistake keeps the changes: a graph may hold the nodes that were added
/// before the bad one, a scheduler is to be reset.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rs_set_policy(policy: raw::ggml_rs_policy) -> raw::ggml_rs_policy {
    let policy = known(ggml_rs_policy::from_raw(policy), "policy", policy);
    guard::set_forgiving(policy == ggml_rs_policy::GGML_RS_POLICY_ERROR).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_log_level::GGML_LOG_LEVEL_ERROR;
    use std::ffi::CStr;

    #[test]
    fn an_error_is_remembered_by_its_thread() {
        let last = || {
            // SAFETY: the text stays until the next error.
            unsafe { CStr::from_ptr(ggml_rs_last_error()) }.to_str().unwrap().to_owned()
        };
        log::line(GGML_LOG_LEVEL_ERROR, format_args!("a test's error"));
        crate::log_warn!("a test's warning");
        assert_eq!(last(), "a test's error");
        std::thread::scope(|s| s.spawn(|| assert_eq!(last(), "")).join().unwrap());
        // SAFETY: nothing is passed.
        unsafe { ggml_rs_clear_error() };
        assert_eq!(last(), "");
    }
}
