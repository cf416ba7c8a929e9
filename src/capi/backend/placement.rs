//! Tensors bound to memory by hand, and host memory as buffers.

use super::need_buffer;
use crate::abi::alloc::*;
use crate::abi::ggml::*;
use crate::abi::raw;
use crate::backend::{host, view};
use crate::capi::convert::tensor as need_tensor;
use crate::guard::guarded;
use std::ffi::c_void;

/// Places a tensor that has no memory at the address `addr` in a buffer, which must have room for all its bytes.
#[guarded(ggml_status::GGML_STATUS_FAILED as i32)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_alloc(
    buffer: ggml_backend_buffer_t,
    tensor: *mut ggml_tensor,
    addr: *mut c_void,
) -> raw::ggml_status {
    // SAFETY: a valid buffer and a valid tensor, by the contract.
    unsafe { view::bind(need_buffer(buffer), need_tensor(tensor, "tensor"), addr.cast()) as raw::ggml_status }
}

/// Gives a view the memory of the tensor it is a view of, which must be allocated.
#[guarded(ggml_status::GGML_STATUS_FAILED as i32)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_view_init(tensor: *mut ggml_tensor) -> raw::ggml_status {
    // SAFETY: a valid tensor, by the contract.
    view::init(unsafe { need_tensor(tensor, "tensor") }) as raw::ggml_status
}

/// Makes a buffer of type "CPU_Mapped" of the `size` bytes at `ptr`, a multiple of 32. The memory stays the caller's,
/// and must outlive the buffer.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_buffer_from_ptr(ptr: *mut c_void, size: usize) -> ggml_backend_buffer_t {
    // SAFETY: memory that outlives the buffer, by the contract.
    unsafe { host::buffer_from_ptr(ptr, size) }.into_raw()
}

/// Returns the buffer type "CPU": plain host memory.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_buffer_type() -> ggml_backend_buffer_type_t {
    host::buffer_type().as_ptr()
}
