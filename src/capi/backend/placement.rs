//! Tensors bound to memory by hand, and host memory as buffers.

use crate::abi::alloc::*;
use crate::abi::ggml::*;
use crate::abi::raw;
use crate::backend::{host, view};
use crate::capi::convert::need;
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
    need!(buffer, tensor);
    view::bind(buffer, tensor, addr.cast()) as raw::ggml_status
}

/// Gives a view the memory of the tensor it is a view of, which must be allocated.
#[guarded(ggml_status::GGML_STATUS_FAILED as i32)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_view_init(tensor: *mut ggml_tensor) -> raw::ggml_status {
    need!(tensor);
    view::init(tensor) as raw::ggml_status
}

/// Makes a buffer of type "CPU_Mapped" of the `size` bytes at `ptr`, a multiple of 32. The memory stays the caller's,
/// and must outlive the buffer.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_buffer_from_ptr(ptr: *mut c_void, size: usize) -> ggml_backend_buffer_t {
    // SAFETY: the header requires `size` bytes at `ptr` that outlive the buffer.
    unsafe { host::buffer_from_ptr(ptr, size) }.into_raw()
}

/// Returns the buffer type "CPU": plain host memory.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_buffer_type() -> ggml_backend_buffer_type_t {
    host::buffer_type().as_ptr()
}
