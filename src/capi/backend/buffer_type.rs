//! Buffer types.

use super::{asked_buft, buffer_out, need_buft};
use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::abi::ggml::*;
use crate::backend::DeviceRef;
use crate::capi::convert::{logged, opt_tensor};
use crate::guard::guarded;
use std::ffi::{c_char, c_int};

/// Returns the name, such as "CPU". The string lives as long as the buffer type.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_name(buft: ggml_backend_buffer_type_t) -> *const c_char {
    // SAFETY: NULL or a valid buffer type, by the contract.
    unsafe { asked_buft(buft) }.map_or(c"NULL".as_ptr(), |it| it.name_ptr())
}

/// Allocates a buffer of `size` bytes, to be freed with `ggml_backend_buffer_free`. Size 0 gives a buffer without
/// memory. Returns NULL when out of memory.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_alloc_buffer(
    buft: ggml_backend_buffer_type_t,
    size: usize,
) -> ggml_backend_buffer_t {
    // SAFETY: NULL or a valid buffer type, by the contract.
    let Some(buft) = (unsafe { asked_buft(buft) }) else { return std::ptr::null_mut() };
    buffer_out(buft, size, buft.alloc_buffer(size))
}

/// The tensors of a C list.
///
/// # Safety
/// `tensors` has `n_tensors` entries, or `n_tensors` is not positive.
unsafe fn list<'a>(tensors: *mut *mut ggml_tensor, n_tensors: c_int) -> &'a mut [*mut ggml_tensor] {
    match usize::try_from(n_tensors) {
        // SAFETY: by the caller's promise.
        Ok(n) if n > 0 && !tensors.is_null() => unsafe { std::slice::from_raw_parts_mut(tensors, n) },
        _ => &mut [],
    }
}

/// Allocates memory for all listed tensors that have none; views use the memory of the tensors they are views of. If
/// one buffer may be too small, the result is made of several. When out of memory, logs an error, returns NULL and
/// leaves the tensors unchanged. Also returns NULL if no tensor needs memory.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_alloc_buffer_n(
    buft: ggml_backend_buffer_type_t,
    tensors: *mut *mut ggml_tensor,
    n_tensors: c_int,
) -> ggml_backend_buffer_t {
    // SAFETY: a valid buffer type and a list of valid tensors, by the contract.
    let made = unsafe { need_buft(buft).alloc_buffer_n(list(tensors, n_tensors)) };
    logged("ggml_backend_buft_alloc_buffer_n", made).flatten().map_or(std::ptr::null_mut(), |b| b.into_raw())
}

/// Returns the alignment of tensors in bytes, a power of two.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_get_alignment(buft: ggml_backend_buffer_type_t) -> usize {
    // SAFETY: NULL or a valid buffer type, by the contract.
    unsafe { asked_buft(buft) }.map_or(0, |it| it.alignment())
}

/// Returns the maximum size of a buffer in bytes; `SIZE_MAX` if there is no limit.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_get_max_size(buft: ggml_backend_buffer_type_t) -> usize {
    // SAFETY: NULL or a valid buffer type, by the contract.
    unsafe { asked_buft(buft) }.map_or(0, |it| it.max_size())
}

/// Returns the number of bytes that `tensor` needs in a buffer of this type, padding included.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_get_alloc_size(
    buft: ggml_backend_buffer_type_t,
    tensor: *const ggml_tensor,
) -> usize {
    // SAFETY: NULL or a valid buffer type and a valid tensor, by the contract.
    unsafe { asked_buft(buft).zip(opt_tensor(tensor)) }.map_or(0, |(it, tensor)| it.alloc_size(tensor))
}

/// Returns the number of bytes that `ggml_backend_buft_alloc_buffer_n` would allocate for the listed tensors. If the
/// sizes overflow, logs an error and returns 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_get_alloc_size_n(
    buft: ggml_backend_buffer_type_t,
    tensors: *mut *mut ggml_tensor,
    n_tensors: c_int,
) -> usize {
    // SAFETY: a valid buffer type and a list of valid tensors, by the contract.
    let size = unsafe { need_buft(buft).alloc_size_n(list(tensors, n_tensors)) };
    logged("ggml_backend_buft_get_alloc_size_n", size).unwrap_or(0)
}

/// Returns whether the host can read and write the data of these buffers: it is in host memory, in the usual layout.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_is_host(buft: ggml_backend_buffer_type_t) -> bool {
    // SAFETY: NULL or a valid buffer type, by the contract.
    unsafe { asked_buft(buft) }.is_some_and(|it| it.is_host())
}

/// Returns the device of the buffer type. NULL for the type "CPU", which belongs to no device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_get_device(buft: ggml_backend_buffer_type_t) -> ggml_backend_dev_t {
    // SAFETY: NULL or a valid buffer type, by the contract.
    unsafe { asked_buft(buft) }
        .map_or(std::ptr::null_mut(), |it| it.device().map_or(std::ptr::null_mut(), DeviceRef::as_ptr))
}
