//! Writing files.

use crate::abi::gguf::*;
use crate::backend::tensor_io;
use crate::capi::convert::{logged, optional};
use crate::error::{Error, Result};
use crate::gguf::Gguf;
use crate::guard::guarded;
use crate::sys::file;
use crate::sys::patient::Patient;
use crate::sys::stream::CStream;
use crate::sys::thread::Shield;
use crate::tensor::TensorRef;
use crate::{ggml_assert, log_error};
use libc::FILE;
use std::ffi::{c_char, c_void};
use std::io::Write;

/// Copies a tensor's data, through its buffer if it has one.
///
/// # Safety
/// If `t` has no buffer, its data is NULL or points to `out.len()` readable bytes.
pub(super) unsafe fn fetch(t: TensorRef, out: &mut [u8]) -> Result<()> {
    if !t.buffer_raw().is_null() {
        tensor_io::get_bytes(t, out, 0);
    } else if !t.data().is_null() {
        // SAFETY: there is no buffer, and the data is not NULL: the caller's promise.
        out.copy_from_slice(unsafe { std::slice::from_raw_parts(t.data(), out.len()) });
    } else if !out.is_empty() {
        return Err(Error::Invalid(format!("tensor '{}' has no data", t.name())));
    }
    Ok(())
}

/// Writes the file to an open stream: all of it or, with `only_meta`, everything before the tensor data. On failure
/// logs an error and returns false.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_write_to_file_ptr(ctx: *const gguf_context, file: *mut FILE, only_meta: bool) -> bool {
    let _shield = Shield::new();
    ggml_assert!(!file.is_null());
    optional!(ctx);
    let Some(gguf) = ctx else { return false };
    // SAFETY: the header requires an open stream that no other code uses during the call; NULL was refused above.
    let mut out = unsafe { CStream::new(file) };
    // SAFETY: data without a buffer was set by `gguf_add_tensor` or `gguf_set_tensor_data`. The header requires the
    // host to keep such data until the file is written.
    let fetch = |t: TensorRef, bytes: &mut [u8]| unsafe { fetch(t, bytes) };
    logged("gguf_write_to_file_ptr", gguf.unspoiled().and_then(|g| g.write(&mut out, only_meta, &fetch))).is_some()
}

/// Writes the file with this UTF-8 path; see `gguf_write_to_file_ptr`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_write_to_file(ctx: *const gguf_context, fname: *const c_char, only_meta: bool) -> bool {
    let _shield = Shield::new();
    optional!(ctx, fname);
    let Some((gguf, name)) = ctx.zip(fname) else { return false };
    let Some(path) = file::path(name.to_bytes()) else {
        log_error!("gguf_write_to_file: the path is not UTF-8");
        return false;
    };
    // SAFETY: data without a buffer was set by `gguf_add_tensor` or `gguf_set_tensor_data`. The header requires the
    // host to keep such data until the file is written.
    let fetch = |t: TensorRef, bytes: &mut [u8]| unsafe { fetch(t, bytes) };
    let io = |source| Error::Io { what: format!("failed to write '{}'", path.display()), source };
    let write = || -> Result<()> {
        gguf.unspoiled()?;
        let mut out = std::io::BufWriter::new(Patient::create(path).map_err(io)?);
        gguf.write(&mut out, only_meta, &fetch)?;
        out.flush().map_err(io)
    };
    logged("gguf_write_to_file", write()).is_some()
}

/// Returns the size in bytes of everything before the tensor data; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_meta_size(ctx: *const gguf_context) -> usize {
    optional!(ctx);
    let whole = ctx.and_then(|f| logged("gguf_get_meta_size", f.unspoiled()));
    whole.map_or(0, Gguf::meta_size)
}

/// Copies everything before the tensor data to `data`, which must have room for `gguf_get_meta_size` bytes.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_meta_data(ctx: *const gguf_context, data: *mut c_void) {
    optional!(ctx);
    let Some(gguf) = ctx.and_then(|f| logged("gguf_get_meta_data", f.unspoiled())) else { return };
    ggml_assert!(!data.is_null());
    let (bytes, data) = (gguf.meta_bytes(), data.cast::<u8>());
    let padding = bytes.len().next_multiple_of(gguf.alignment) - bytes.len();
    // SAFETY: the header requires room for `gguf_get_meta_size` bytes, the length of `bytes` and `padding` together.
    unsafe {
        data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        data.add(bytes.len()).write_bytes(0, padding);
    }
}
