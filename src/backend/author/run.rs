//! Runs an author's code, and takes its failures.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::log_error;

/// Runs an author's code. A panic is logged; then the result is that of `fallback`.
pub fn guard<T>(what: &str, fallback: impl FnOnce() -> T, f: impl FnOnce() -> T) -> T {
    match crate::guard::contained(f) {
        Ok(value) => value,
        Err(text) => {
            panicked(what, &text);
            fallback()
        }
    }
}

#[cold]
#[inline(never)]
fn panicked(what: &str, text: &str) {
    log_error!("{what} of a backend failed: {text}");
}

/// The value, or `None` with a line in the log.
pub fn logged<T>(what: &str, result: Result<T>) -> Option<T> {
    result.map_err(|e| log_error!("{what}: {e}")).ok()
}
