//! Making and freeing file contents.

use crate::abi::ggml::ggml_context;
use crate::abi::gguf::*;
use crate::capi::convert::{ctx_into_raw, logged};
use crate::error::{Error, Result};
use crate::gguf::reader::Reader;
use crate::gguf::source::{Callback, Source, Stream};
use crate::gguf::{Gguf, load};
use crate::guard::guarded;
use crate::sys::cstr;
use crate::sys::file::{self, CStream};
use crate::{log_error, mutant};
use libc::FILE;
use std::ffi::{c_char, c_void};

/// Parses the file and, if `params.ctx` is set, creates the context with its tensors. Writes `*params.ctx` on success only, and
/// set to NULL when the description was right but the tensors could not be made.
///
/// # Safety
/// `params.ctx` is NULL or valid for writing a pointer.
unsafe fn read(source: &mut dyn Source, start: u64, rest: u64, params: gguf_init_params) -> Result<Gguf> {
    let mut reader = Reader::new(source, start, rest);
    let gguf = reader.meta()?;
    if !params.ctx.is_null() {
        // SAFETY: the host gets the context, and uses its tensors only while it lives, by the contract of `ggml_free`.
        let ctx = unsafe { load::load(&gguf, &mut reader, params.no_alloc) };
        let (raw, result) = match ctx {
            Ok(ctx) => (ctx_into_raw(ctx), Ok(())),
            Err(e) if mutant::on("G26") => (std::ptr::dangling_mut(), Err(e)),
            Err(e) => (std::ptr::null_mut::<ggml_context>(), Err(e)),
        };
        // SAFETY: not NULL, so by the caller's promise valid for writing.
        unsafe { params.ctx.write(raw) };
        result?;
    }
    Ok(gguf)
}

fn give(what: &str, gguf: Result<Gguf>) -> *mut gguf_context {
    logged(what, gguf).map_or(std::ptr::null_mut(), |g| Box::into_raw(Box::new(g)).cast())
}

/// Creates a context without keys and tensors. Free it with `gguf_free`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_empty() -> *mut gguf_context {
    give("gguf_init_empty", Ok(Gguf::default()))
}

/// Reads a GGUF file from the current position of an open, seekable stream. If `params.ctx` is not NULL, stores a new
/// context with the tensors there, with their data unless `params.no_alloc`; the caller frees it. If the file is
/// invalid, incomplete, or of an unknown version, logs an error and returns NULL. Free the result with `gguf_free`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_from_file_ptr(file: *mut FILE, params: gguf_init_params) -> *mut gguf_context {
    if file.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: an open stream, by the contract.
    let mut stream = unsafe { CStream::new(file) };
    let Some((at, rest)) = stream.position_and_rest() else {
        log_error!("gguf_init_from_file_ptr: the stream is not seekable");
        return std::ptr::null_mut();
    };
    // SAFETY: `params` by the contract.
    give("gguf_init_from_file_ptr", unsafe { read(&mut Stream::new(stream, at), at, rest, params) })
}

/// Reads the GGUF file with this UTF-8 path; see `gguf_init_from_file_ptr`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_from_file(fname: *const c_char, params: gguf_init_params) -> *mut gguf_context {
    // SAFETY: NULL or a valid C string, by the contract.
    let Some(name) = (unsafe { cstr::bytes(fname) }) else { return std::ptr::null_mut() };
    let Some(path) = file::path(name) else {
        log_error!("gguf_init_from_file: the path is not UTF-8");
        return std::ptr::null_mut();
    };
    let what = || format!("'{}'", path.display());
    let opened = std::fs::File::open(path).and_then(|f| Ok((f.metadata()?.len(), f)));
    let result = match opened {
        Err(source) => Err(Error::Io { what: format!("failed to open GGUF file {}", what()), source }),
        Ok((len, f)) => {
            let mut source = Stream::new(std::io::BufReader::with_capacity(1 << 16, f), 0);
            // SAFETY: `params` by the contract.
            unsafe { read(&mut source, 0, len, params) }
        }
    };
    give(&format!("gguf_init_from_file: {}", what()), result)
}

/// Reads a GGUF file from memory, which is not needed afterwards; see `gguf_init_from_file_ptr`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_from_buffer(
    data: *const c_void,
    size: usize,
    params: gguf_init_params,
) -> *mut gguf_context {
    if data.is_null() || size == 0 {
        log_error!("gguf_init_from_buffer: the buffer is NULL or empty");
        return std::ptr::null_mut();
    }
    // SAFETY: `data` points to `size` readable bytes, by the contract.
    let mut bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
    // SAFETY: `params` by the contract.
    give("gguf_init_from_buffer", unsafe { read(&mut bytes, 0, size as u64, params) })
}

/// Reads a GGUF file through a callback, which is asked for at most `max_chunk_read` bytes at a time (0: no limit),
/// and for at most `max_expected_size` bytes in total; see `gguf_init_from_file_ptr`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_from_callback(
    callback: gguf_reader_callback_t,
    userdata: *mut c_void,
    max_chunk_read: usize,
    max_expected_size: u64,
    params: gguf_init_params,
) -> *mut gguf_context {
    // SAFETY: the function keeps its word, by the contract.
    let Some(mut source) = (unsafe { Callback::new(callback, userdata, max_chunk_read) }) else {
        return std::ptr::null_mut();
    };
    // SAFETY: `params` by the contract.
    give("gguf_init_from_callback", unsafe { read(&mut source, 0, max_expected_size, params) })
}

/// Frees the contents of a file, but not the context with its tensors. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_free(ctx: *mut gguf_context) {
    if !ctx.is_null() {
        // SAFETY: made by a `gguf_init` function, and nobody uses it any more, by the contract.
        drop(unsafe { Box::from_raw(ctx.cast::<Gguf>()) });
    }
}
