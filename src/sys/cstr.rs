//! C strings as Rust text and bytes.

use std::ffi::{CStr, c_char};

/// Returns the text at `p`, or `None` for NULL. Bytes that are not UTF-8 are replaced.
///
/// # Safety
/// `p` is NULL or a valid C string (see the crate's safety words) for as long as the result is used.
pub unsafe fn text<'a>(p: *const c_char) -> Option<std::borrow::Cow<'a, str>> {
    // SAFETY: `p` is NULL or a valid C string, as `bytes` requires: the caller promises it.
    unsafe { bytes(p) }.map(String::from_utf8_lossy)
}

/// Returns the bytes of the string at `p` without the terminating zero, or `None` for NULL.
///
/// # Safety
/// `p` is NULL or a valid C string for as long as the result is used.
pub unsafe fn bytes<'a>(p: *const c_char) -> Option<&'a [u8]> {
    if p.is_null() {
        return None;
    }
    // SAFETY: `p` is not NULL, so the caller promises a valid C string.
    Some(unsafe { CStr::from_ptr(p) }.to_bytes())
}
