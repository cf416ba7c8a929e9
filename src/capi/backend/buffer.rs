//! Buffers.

use super::need_buffer;
use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::abi::ggml::*;
use crate::abi::raw;
use crate::backend::{BufferBox, BufferRef};
use crate::capi::convert::{known, tensor as need_tensor};
use std::ffi::{c_char, c_void};

/// Name of the buffer's type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_name(buffer: ggml_backend_buffer_t) -> *const c_char {
    // SAFETY: a valid buffer, by the contract.
    unsafe { need_buffer(buffer) }.buft().name_ptr()
}

/// Frees a buffer; tensors in it lose their memory. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_free(buffer: ggml_backend_buffer_t) {
    // SAFETY: a valid buffer that is the caller's and not used afterwards, by the contract.
    drop(unsafe { BufferRef::from_ptr(buffer).map(|b| BufferBox::own(b)) });
}

/// Address of the first byte; may be no host address (see `ggml_backend_buffer_is_host`). NULL for a buffer without
/// bytes and for several buffers joined into one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_get_base(buffer: ggml_backend_buffer_t) -> *mut c_void {
    // SAFETY: a valid buffer, by the contract.
    unsafe { need_buffer(buffer) }.base().cast()
}

/// Bytes in the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_get_size(buffer: ggml_backend_buffer_t) -> usize {
    // SAFETY: a valid buffer, by the contract.
    unsafe { need_buffer(buffer) }.size()
}

/// Tells the buffer about a tensor that has been placed in it by hand.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_init_tensor(
    buffer: ggml_backend_buffer_t,
    tensor: *mut ggml_tensor,
) -> raw::ggml_status {
    // SAFETY: a valid buffer and a valid tensor, by the contract.
    unsafe { need_buffer(buffer).init_tensor(need_tensor(tensor, "tensor")) as raw::ggml_status }
}

/// Alignment of tensors in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_get_alignment(buffer: ggml_backend_buffer_t) -> usize {
    // SAFETY: a valid buffer, by the contract.
    unsafe { need_buffer(buffer) }.alignment()
}

/// Bytes that a buffer of this type may have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_get_max_size(buffer: ggml_backend_buffer_t) -> usize {
    // SAFETY: a valid buffer, by the contract.
    unsafe { need_buffer(buffer) }.max_size()
}

/// Bytes that `tensor` takes in this buffer, padding included.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_get_alloc_size(
    buffer: ggml_backend_buffer_t,
    tensor: *const ggml_tensor,
) -> usize {
    // SAFETY: a valid buffer and a valid tensor, by the contract.
    unsafe { need_buffer(buffer).alloc_size(need_tensor(tensor, "tensor")) }
}

/// Sets every byte of the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_clear(buffer: ggml_backend_buffer_t, value: u8) {
    // SAFETY: a valid buffer, by the contract.
    unsafe { need_buffer(buffer) }.clear(value)
}

/// Whether the data lies in host memory in the usual layout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_is_host(buffer: ggml_backend_buffer_t) -> bool {
    // SAFETY: a valid buffer, by the contract.
    unsafe { need_buffer(buffer) }.is_host()
}

/// Says what the buffer is for. The scheduler runs operations where their weights lie.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_set_usage(
    buffer: ggml_backend_buffer_t,
    usage: raw::ggml_backend_buffer_usage,
) {
    let usage = known(ggml_backend_buffer_usage::from_raw(usage), "usage", usage);
    // SAFETY: a valid buffer, by the contract.
    unsafe { need_buffer(buffer) }.set_usage(usage)
}

/// What the buffer is for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_get_usage(
    buffer: ggml_backend_buffer_t,
) -> raw::ggml_backend_buffer_usage {
    // SAFETY: a valid buffer, by the contract.
    unsafe { need_buffer(buffer) }.usage_raw()
}

/// The buffer's type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_get_type(buffer: ggml_backend_buffer_t) -> ggml_backend_buffer_type_t {
    // SAFETY: a valid buffer, by the contract.
    unsafe { need_buffer(buffer) }.buft().as_ptr()
}

/// Forgets what the backend prepared for tensors in the buffer; to be called before other tensors are placed in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_reset(buffer: ggml_backend_buffer_t) {
    // SAFETY: a valid buffer, by the contract.
    unsafe { need_buffer(buffer) }.reset()
}
