//! Text that crosses the C border.

use std::ffi::{CStr, c_char};

/// The text at `p`, or `None` for NULL. Bytes that are no UTF-8 are replaced.
///
/// # Safety
/// `p` is NULL or a valid C string (see the crate's safety words) for as long as the result of the call is used.
pub unsafe fn text<'a>(p: *const c_char) -> Option<std::borrow::Cow<'a, str>> {
    // SAFETY: forwarded to the caller.
    unsafe { bytes(p) }.map(String::from_utf8_lossy)
}

/// The bytes of the text at `p` without its end mark, or `None` for NULL.
///
/// # Safety
/// As for [`text`].
pub unsafe fn bytes<'a>(p: *const c_char) -> Option<&'a [u8]> {
    if p.is_null() {
        return None;
    }
    // SAFETY: not NULL, so by the caller's promise a valid C string.
    Some(unsafe { CStr::from_ptr(p) }.to_bytes())
}
