//! What went wrong, and what a broken contract does.

use crate::abi::raw;
use crate::abi::rs::ggml_rs_policy;
use crate::capi::convert::known;
use crate::guard::{self, guarded};
use crate::log;
use std::ffi::c_char;

/// Returns the last message that the library logged at error level on the calling thread, without the newline. "" if
/// there was none since the start or since `ggml_rs_clear_error`. Calls that succeed do not change it. The library
/// owns the string, which is valid until the thread's next error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rs_last_error() -> *const c_char {
    log::last_error_ptr()
}

/// Clears the last error of the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rs_clear_error() {
    log::clear_last_error();
}

/// Sets what happens when a caller breaks a contract (passes an argument that the headers forbid, for which the
/// original asserts). Applies to calls on all threads that start afterwards. Returns the previous policy. The default
/// is `GGML_RS_POLICY_ABORT`.
///
/// With `GGML_RS_POLICY_ERROR` the call ends where the mistake is found. It frees the memory it has allocated, logs
/// the message at error level and stores it for `ggml_rs_last_error`, but does not call the abort callback. All
/// objects can be used and freed as before. It does not help if:
///
/// - a pointer is invalid or dangling: the library cannot know;
/// - C or C++ code finds the mistake: `ggml_abort`, and `GGML_ASSERT` in a host or module, end the process;
/// - `ggml_get_type_traits` is called with a type that does not exist: it cannot fail.
///
/// A call that made several changes before the mistake keeps them: a graph may contain the nodes that were added
/// before the bad one. Such a graph is not computed or allocated until it is cleared. A scheduler whose call has failed
/// in the middle of a change fails all calls until it is reset.
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
