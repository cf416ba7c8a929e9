//! Where the bytes of a file come from.

use crate::abi::gguf::gguf_reader_callback_t;
use crate::sys::foreign;
use crate::sys::unwind::MayUnwind;
use std::ffi::c_void;
use std::io::{Read, Seek, SeekFrom};

/// Random access to bytes.
pub trait Source {
    /// Reads bytes from `offset` on into `out` and returns their number. Fewer than requested means the end, or an
    /// error.
    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> usize;
}

impl Source for &[u8] {
    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> usize {
        let rest = usize::try_from(offset).ok().and_then(|o| self.get(o..)).unwrap_or_default();
        let n = rest.len().min(out.len());
        out[..n].copy_from_slice(&rest[..n]);
        n
    }
}

/// A file of the system, or anything else that reads and seeks. Seeks only when reads are not in order.
pub struct Stream<R> {
    inner: R,
    at: u64,
}

impl<R: Read + Seek> Stream<R> {
    /// A source over `inner`, whose position is `at`.
    pub fn new(inner: R, at: u64) -> Self {
        Self { inner, at }
    }
}

impl<R: Read + Seek> Source for Stream<R> {
    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> usize {
        if self.at != offset {
            if self.inner.seek(SeekFrom::Start(offset)).is_err() {
                return 0;
            }
            self.at = offset;
        }
        let mut n = 0;
        while n < out.len() {
            match self.inner.read(&mut out[n..]) {
                Ok(0) => break,
                Ok(k) => n += k.min(out.len() - n),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.at += n as u64;
        n
    }
}

/// A function of the host that reads.
pub struct Callback {
    function: unsafe extern "C" fn(*mut c_void, *mut c_void, u64, usize) -> usize,
    userdata: *mut c_void,
    max_chunk: usize,
}

impl Callback {
    /// A source that calls `function` for at most `max_chunk` bytes at a time (0: no limit). `None` for NULL.
    ///
    /// # Safety
    /// `function` may be called with `userdata`, and writes at most the requested bytes.
    pub unsafe fn new(function: gguf_reader_callback_t, userdata: *mut c_void, max_chunk: usize) -> Option<Self> {
        let max_chunk = if max_chunk == 0 { usize::MAX } else { max_chunk };
        Some(Self { function: function?, userdata, max_chunk })
    }
}

impl Source for Callback {
    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> usize {
        let mut n = 0;
        while n < out.len() {
            let chunk = (out.len() - n).min(self.max_chunk);
            let Some(at) = offset.checked_add(n as u64) else { break };
            let (f, userdata, to) = (self.function.may_unwind(), self.userdata, out[n..].as_mut_ptr());
            // SAFETY: by the promise of `new`; `out` has `chunk` bytes from offset `n` on.
            let Some(got) = foreign::call_host(|| unsafe { f(userdata, to.cast(), at, chunk) }) else { break };
            // A host may claim to have read more than was requested.
            n += got.min(chunk);
            if got != chunk {
                break;
            }
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::reader::Reader;

    /// Fills the requested bytes, and returns a larger number.
    unsafe extern "C" fn boasts(_: *mut c_void, out: *mut c_void, _: u64, len: usize) -> usize {
        // SAFETY: `len` bytes there are writable, by the contract of the callback.
        unsafe { out.write_bytes(7, len) };
        len + 1000
    }

    #[test]
    fn a_callback_that_says_it_read_more_than_it_was_asked_for_is_not_believed() {
        // SAFETY: it ignores its argument and writes only the requested bytes.
        let mut source = unsafe { Callback::new(Some(boasts), std::ptr::null_mut(), 0) }.unwrap();
        let mut out = [0; 16];
        assert_eq!(source.read_at(3, &mut out), 16);
        assert_eq!(out, [7; 16]);
        let mut reader = Reader::new(&mut source, 0, 32);
        reader.fill(&mut out, "half").unwrap();
        assert_eq!(reader.rest(), 16);
    }

    /// A file of 8 bytes that says it has 32.
    #[test]
    fn bytes_that_do_not_come_are_an_error() {
        let mut source = &[1u8; 8][..];
        let mut reader = Reader::new(&mut source, 0, 32);
        let e = reader.fill(&mut [0; 12], "a number").unwrap_err();
        assert!(e.to_string().contains("4 bytes before the end of a number"), "{e}");
        assert_eq!(reader.rest(), 0, "nothing is taken for what does not come");
        assert!(reader.fill(&mut [0; 1], "the next").is_err());
    }
}
