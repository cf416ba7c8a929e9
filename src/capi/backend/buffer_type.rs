//! Buffer types.

use super::buffer_out;
use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::abi::ggml::*;
use crate::backend::DeviceRef;
use crate::capi::convert::{logged, need, optional, query};
use crate::guard::guarded;
use crate::sys::slices::values_mut;
use std::ffi::{c_char, c_int};

/// Returns the name, such as "CPU". The string lives as long as the buffer type.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_name(buft: ggml_backend_buffer_type_t) -> *const c_char {
    query!(buft);
    buft.map_or(c"NULL".as_ptr(), |it| it.name_ptr())
}

/// Allocates a buffer of `size` bytes, to be freed with `ggml_backend_buffer_free`. Size 0 gives a buffer without
/// memory. Returns NULL when out of memory.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_alloc_buffer(
    buft: ggml_backend_buffer_type_t,
    size: usize,
) -> ggml_backend_buffer_t {
    query!(buft);
    let Some(buft) = buft else { return std::ptr::null_mut() };
    buffer_out(buft, size, buft.alloc_buffer(size))
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
    need!(buft);
    // SAFETY: the header requires a list of `n_tensors` tensors that no other code uses during the call.
    let tensors = unsafe { values_mut(tensors, n_tensors.into()) };
    logged("ggml_backend_buft_alloc_buffer_n", buft.alloc_buffer_n(tensors))
        .flatten()
        .map_or(std::ptr::null_mut(), |b| b.into_raw())
}

/// Returns the alignment of tensors in bytes, a power of two.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_get_alignment(buft: ggml_backend_buffer_type_t) -> usize {
    query!(buft);
    buft.map_or(0, |it| it.alignment())
}

/// Returns the maximum size of a buffer in bytes; `SIZE_MAX` if there is no limit.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_get_max_size(buft: ggml_backend_buffer_type_t) -> usize {
    query!(buft);
    buft.map_or(0, |it| it.max_size())
}

/// Returns the number of bytes that `tensor` needs in a buffer of this type, padding included.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_get_alloc_size(
    buft: ggml_backend_buffer_type_t,
    tensor: *const ggml_tensor,
) -> usize {
    query!(buft);
    optional!(tensor);
    buft.zip(tensor).map_or(0, |(it, tensor)| it.alloc_size(tensor))
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
    need!(buft);
    // SAFETY: the header requires a list of `n_tensors` tensors that no other code uses during the call.
    let tensors = unsafe { values_mut(tensors, n_tensors.into()) };
    logged("ggml_backend_buft_get_alloc_size_n", buft.alloc_size_n(tensors)).unwrap_or(0)
}

/// Returns whether the host can read and write the data of these buffers: it is in host memory, in the usual layout.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_is_host(buft: ggml_backend_buffer_type_t) -> bool {
    query!(buft);
    buft.is_some_and(|it| it.is_host())
}

/// Returns the device of the buffer type. NULL for the type "CPU", which belongs to no device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_get_device(buft: ggml_backend_buffer_type_t) -> ggml_backend_dev_t {
    query!(buft);
    buft.map_or(std::ptr::null_mut(), |it| it.device().map_or(std::ptr::null_mut(), DeviceRef::as_ptr))
}
