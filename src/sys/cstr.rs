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

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests strings of every length, in memory that ends with the string: a sanitizer detects a read after its end.
    #[test]
    fn strings_of_every_length_end_at_their_zero() {
        // SAFETY: NULL is allowed.
        assert!(unsafe { (text(std::ptr::null()), bytes(std::ptr::null())) } == (None, None));
        for len in 0..=130usize {
            for filler in [b'a', 0xff] {
                let mut memory = vec![filler; len].into_boxed_slice().into_vec();
                memory.reserve_exact(1);
                memory.push(0);
                let memory = memory.into_boxed_slice();
                let p = memory.as_ptr().cast();
                // SAFETY: a C string that lives as long as the results.
                let (b, t) = unsafe { (bytes(p).unwrap(), text(p).unwrap()) };
                assert_eq!(b, &memory[..len]);
                assert_eq!(t.chars().count(), len);
                assert!(t.chars().all(|c| c == if filler == b'a' { 'a' } else { char::REPLACEMENT_CHARACTER }));
            }
        }
    }
}
