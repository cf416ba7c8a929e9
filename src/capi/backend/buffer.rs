//! Buffers.

use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{known, need, optional, query, take};
use crate::guard::guarded;
use std::ffi::{c_char, c_void};

/// Returns the name of the buffer's type.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_name(buffer: ggml_backend_buffer_t) -> *const c_char {
    query!(buffer);
    buffer.map_or(c"NULL".as_ptr(), |it| it.buft().name_ptr())
}

/// Frees a buffer; the tensors in it lose their memory. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_free(buffer: ggml_backend_buffer_t) {
    take!(buffer);
    drop(buffer);
}

/// Returns the address of the first byte, which need not be a host address (see `ggml_backend_buffer_is_host`). NULL
/// for an empty buffer and for a buffer made of several.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_get_base(buffer: ggml_backend_buffer_t) -> *mut c_void {
    query!(buffer);
    buffer.map_or(std::ptr::null_mut(), |it| it.base().cast())
}

/// Returns the size in bytes.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_get_size(buffer: ggml_backend_buffer_t) -> usize {
    query!(buffer);
    buffer.map_or(0, |it| it.size())
}

/// Initialises a tensor that the caller has placed in the buffer.
#[guarded(ggml_status::GGML_STATUS_FAILED as i32)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_init_tensor(
    buffer: ggml_backend_buffer_t,
    tensor: *mut ggml_tensor,
) -> raw::ggml_status {
    need!(buffer, tensor);
    buffer.init_tensor(tensor) as raw::ggml_status
}

/// Returns the alignment of tensors in bytes.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_get_alignment(buffer: ggml_backend_buffer_t) -> usize {
    query!(buffer);
    buffer.map_or(0, |it| it.alignment())
}

/// Returns the maximum size in bytes of a buffer of this type.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_get_max_size(buffer: ggml_backend_buffer_t) -> usize {
    query!(buffer);
    buffer.map_or(0, |it| it.max_size())
}

/// Returns the number of bytes that `tensor` needs in this buffer, padding included.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_get_alloc_size(
    buffer: ggml_backend_buffer_t,
    tensor: *const ggml_tensor,
) -> usize {
    query!(buffer);
    optional!(tensor);
    buffer.zip(tensor).map_or(0, |(it, tensor)| it.alloc_size(tensor))
}

/// Sets every byte of the buffer to `value`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_clear(buffer: ggml_backend_buffer_t, value: u8) {
    need!(buffer);
    buffer.clear(value)
}

/// Returns whether the host can read and write the data: it is in host memory, in the usual layout.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_is_host(buffer: ggml_backend_buffer_t) -> bool {
    query!(buffer);
    buffer.is_some_and(|it| it.is_host())
}

/// Sets the purpose of the buffer. The scheduler runs operations where their weights are.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_set_usage(
    buffer: ggml_backend_buffer_t,
    usage: raw::ggml_backend_buffer_usage,
) {
    let usage = known(ggml_backend_buffer_usage::from_raw(usage), "usage", usage);
    need!(buffer);
    buffer.set_usage(usage)
}

/// Returns the purpose of the buffer.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_get_usage(
    buffer: ggml_backend_buffer_t,
) -> raw::ggml_backend_buffer_usage {
    query!(buffer);
    buffer.map_or(0, |it| it.usage_raw())
}

/// Returns the type of the buffer.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_get_type(buffer: ggml_backend_buffer_t) -> ggml_backend_buffer_type_t {
    query!(buffer);
    buffer.map_or(std::ptr::null_mut(), |it| it.buft().as_ptr())
}

/// Discards what the backend has prepared for the tensors in the buffer. Call it before other tensors are placed in
/// the buffer.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_reset(buffer: ggml_backend_buffer_t) {
    need!(buffer);
    buffer.reset()
}
