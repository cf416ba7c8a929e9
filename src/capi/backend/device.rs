//! Devices, and the backends they belong to.

use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::abi::ggml::*;
use crate::abi::raw;
use crate::backend::{BackendBox, BufferBox, BufferTypeRef, DeviceRef, RegRef};
use crate::capi::convert::{need, optional, outputs, query};
use crate::guard::guarded;
use crate::log_error;
use std::ffi::{c_char, c_void};
use std::ptr::NonNull;

/// Returns the short name, such as "CPU" or "Vulkan0". The string lives as long as the device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_name(device: ggml_backend_dev_t) -> *const c_char {
    query!(device);
    device.map_or(c"NULL".as_ptr(), |it| it.name_ptr())
}

/// Returns a description for people, such as the product name. The string lives as long as the device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_description(device: ggml_backend_dev_t) -> *const c_char {
    query!(device);
    device.map_or(c"NULL".as_ptr(), |it| it.description_ptr())
}

/// Writes the free and the total memory of the device in bytes; 0 if it reports none. Both addresses may be NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_memory(device: ggml_backend_dev_t, free: *mut usize, total: *mut usize) {
    query!(device);
    let memory = device.map_or((0, 0), |d| d.memory());
    outputs!(free, total);
    free.put(memory.0);
    total.put(memory.1);
}

/// Kind of device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_type(device: ggml_backend_dev_t) -> raw::ggml_backend_dev_type {
    query!(device);
    device.map_or(0, |it| it.kind_raw())
}

/// Writes all properties of the device to `props`. Its strings live as long as the device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_get_props(device: ggml_backend_dev_t, props: *mut ggml_backend_dev_props) {
    query!(device);
    let Some(device) = device else { return };
    outputs!(props);
    props.put(device.props());
}

/// Returns the backend that the device belongs to.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_backend_reg(device: ggml_backend_dev_t) -> ggml_backend_reg_t {
    query!(device);
    device.map_or(std::ptr::null_mut(), |it| it.reg().map_or(std::ptr::null_mut(), RegRef::as_ptr))
}

/// Creates a backend, a stream of work, on the device. Free it with `ggml_backend_free`. The device defines the
/// meaning of `params`, which may be NULL. Returns NULL on failure.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_init(device: ggml_backend_dev_t, params: *const c_char) -> ggml_backend_t {
    query!(device);
    optional!(params);
    device.and_then(|d| d.init(params)).map_or(std::ptr::null_mut(), BackendBox::into_raw)
}

/// Returns the default buffer type of the device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_buffer_type(device: ggml_backend_dev_t) -> ggml_backend_buffer_type_t {
    query!(device);
    device.map_or(std::ptr::null_mut(), |it| it.buffer_type().map_or(std::ptr::null_mut(), BufferTypeRef::as_ptr))
}

/// Returns a buffer type in pinned host memory, for fast transfers to and from the device. NULL if there is none.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_host_buffer_type(device: ggml_backend_dev_t) -> ggml_backend_buffer_type_t {
    query!(device);
    device.map_or(std::ptr::null_mut(), |it| it.host_buffer_type().map_or(std::ptr::null_mut(), BufferTypeRef::as_ptr))
}

/// Makes a buffer of the `size` bytes at `ptr`, such as a mapped file. The memory stays the caller's, and must
/// outlive the buffer. `max_tensor_size` is the size of the largest tensor that will be placed in it. Returns NULL if
/// the device cannot do this.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_buffer_from_host_ptr(
    device: ggml_backend_dev_t,
    ptr: *mut c_void,
    size: usize,
    max_tensor_size: usize,
) -> ggml_backend_buffer_t {
    need!(device);
    // SAFETY: the header requires `size` bytes at `ptr` that outlive the buffer.
    let buffer = unsafe { device.buffer_from_host_ptr(ptr, size, max_tensor_size) };
    if buffer.is_none() {
        log_error!("the device {} cannot use {size} bytes of host memory as a buffer", device.name());
    }
    buffer.map_or(std::ptr::null_mut(), BufferBox::into_raw)
}

/// Returns whether the device can compute the node `op`, with the types, shapes and strides that it and its sources
/// have.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_supports_op(device: ggml_backend_dev_t, op: *const ggml_tensor) -> bool {
    query!(device);
    optional!(op);
    device.zip(op).is_some_and(|(it, op)| it.supports_op(op))
}

/// Returns whether the device can use tensors in buffers of this type.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_supports_buft(
    device: ggml_backend_dev_t,
    buft: ggml_backend_buffer_type_t,
) -> bool {
    query!(device, buft);
    device.zip(buft).is_some_and(|(it, buft)| it.supports_buft(buft))
}

/// Returns whether the device should compute `op` although its weights are in host memory and must be copied.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_offload_op(device: ggml_backend_dev_t, op: *const ggml_tensor) -> bool {
    query!(device);
    optional!(op);
    device.zip(op).is_some_and(|(it, op)| it.offload_op(op))
}

/// Returns the name of the backend, such as "CPU" or "Vulkan".
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_reg_name(reg: ggml_backend_reg_t) -> *const c_char {
    query!(reg);
    reg.map_or(c"NULL".as_ptr(), |it| it.name_ptr())
}

/// Returns the number of its devices.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_reg_dev_count(reg: ggml_backend_reg_t) -> usize {
    query!(reg);
    reg.map_or(0, |it| it.device_count())
}

/// Returns device `index` of the backend.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_reg_dev_get(reg: ggml_backend_reg_t, index: usize) -> ggml_backend_dev_t {
    query!(reg);
    reg.map_or(std::ptr::null_mut(), |it| it.device(index).map_or(std::ptr::null_mut(), DeviceRef::as_ptr))
}

/// Returns the address of a function that the backend offers beyond this interface, such as
/// "ggml_backend_set_n_threads". NULL if it has none with this name.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_reg_get_proc_address(
    reg: ggml_backend_reg_t,
    name: *const c_char,
) -> *mut c_void {
    query!(reg);
    optional!(name);
    reg.zip(name).and_then(|(reg, name)| reg.proc_address(name)).map_or(std::ptr::null_mut(), NonNull::as_ptr)
}
