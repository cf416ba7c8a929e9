//! The same bytes as a buffer, through a callback that reads short, a stream in the middle of a file, and a path: all
//! accept, or all refuse, and find the same contents.
#![no_main]

use ggml::abi::ggml::ggml_context;
use ggml::abi::gguf::{gguf_context, gguf_init_params};
use ggml::capi::ggml::{ggml_free, ggml_used_mem};
use ggml::capi::gguf::*;
use libfuzzer_sys::fuzz_target;
use std::ffi::{CString, c_void};
use std::io::Write;
use std::ptr::null_mut;

/// A source that gives at most `chunk` bytes, and once fewer than requested.
struct Source {
    bytes: Box<[u8]>,
    short_at: u64,
}

unsafe extern "C" fn read(source: *mut c_void, out: *mut c_void, offset: u64, len: usize) -> usize {
    // SAFETY: the source that `main_of` passes, and `len` writable bytes.
    unsafe {
        let source = &*source.cast::<Source>();
        let rest = source.bytes.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
        let n = len.min(rest.len()).min(if offset == source.short_at { len / 2 } else { len });
        out.cast::<u8>().copy_from_nonoverlapping(rest.as_ptr(), n);
        n
    }
}

/// The contents of a file: the metadata as it would be written, and the size of the memory of the tensors. Frees both
/// contexts.
unsafe fn found(g: *mut gguf_context, c: *mut ggml_context) -> Option<(Vec<u8>, usize)> {
    if g.is_null() {
        assert!(c.is_null(), "refused, but a context is left");
        return None;
    }
    // SAFETY: contexts of the library, freed once.
    unsafe {
        let mut meta = vec![0u8; gguf_get_meta_size(g)];
        gguf_get_meta_data(g, meta.as_mut_ptr().cast());
        let used = ggml_used_mem(c);
        gguf_free(g);
        ggml_free(c);
        Some((meta, used))
    }
}

fn main_of(data: &[u8]) {
    libggml_rs_fuzz::quiet();
    let [chunk, short, bytes @ ..] = data else { return };
    let mut c: *mut ggml_context = null_mut();
    let params = |c: &mut *mut ggml_context| {
        *c = null_mut();
        gguf_init_params { no_alloc: false, ctx: &raw mut *c }
    };
    let copy: Box<[u8]> = bytes.into();
    let n = copy.len();
    // A pointer to no bytes, and a file without any, are refused alike.
    // SAFETY: the bytes, streams and sources are those of this function, and live during the calls.
    unsafe {
        let g = gguf_init_from_buffer(copy.as_ptr().cast(), n, params(&mut c));
        let expected = found(g, c);

        let mut whole = Source { bytes: copy.clone(), short_at: u64::MAX };
        let g =
            gguf_init_from_callback(Some(read), (&raw mut whole).cast(), usize::from(*chunk), n as u64, params(&mut c));
        assert!(found(g, c) == expected, "a callback");

        // If bytes are missing, the file is read or refused.
        let mut short = Source { bytes: copy.clone(), short_at: u64::from(*short) * 8 };
        let g =
            gguf_init_from_callback(Some(read), (&raw mut short).cast(), usize::from(*chunk), n as u64, params(&mut c));
        found(g, c);

        let path = format!("/proc/self/fd/{}", file(b"", bytes));
        let name = CString::new(path.clone()).expect("no zero byte");
        let g = gguf_init_from_file(name.as_ptr(), params(&mut c));
        assert!(found(g, c) == expected, "a path");

        // In the middle of a file.
        let fd = file(&[7; 13], bytes);
        let stream = libc::fdopen(fd, c"rb".as_ptr());
        libc::fseek(stream, 13, libc::SEEK_SET);
        let g = gguf_init_from_file_ptr(stream.cast(), params(&mut c));
        assert!(found(g, c) == expected, "a stream");
        libc::fclose(stream);
        let fd = path.rsplit('/').next().and_then(|n| n.parse().ok()).expect("a number");
        libc::close(fd);
    }
}

/// A descriptor of a file in memory with these bytes.
fn file(before: &[u8], bytes: &[u8]) -> i32 {
    use std::os::fd::{FromRawFd, IntoRawFd};
    // SAFETY: a valid name; the descriptor is new, and this function's.
    let mut file = unsafe { std::fs::File::from_raw_fd(libc::memfd_create(c"gguf".as_ptr(), 0)) };
    file.write_all(before).and_then(|()| file.write_all(bytes)).expect("memory");
    file.into_raw_fd()
}

fuzz_target!(|data: &[u8]| main_of(data));
