//! Devices, and the families they belong to.

use super::{asked_buft, asked_device, asked_reg, need_device};
use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::abi::ggml::*;
use crate::abi::raw;
use crate::backend::{BackendBox, BufferBox, BufferTypeRef, DeviceRef, RegRef};
use crate::capi::convert::{opt_tensor, put};
use crate::guard::guarded;
use crate::log_error;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;

/// The text at `p`, or `None` for NULL.
///
/// # Safety
/// `p` is NULL or a valid C string for as long as the result is used.
pub(super) unsafe fn text<'a>(p: *const c_char) -> Option<&'a CStr> {
    // SAFETY: by the caller's promise.
    (!p.is_null()).then(|| unsafe { CStr::from_ptr(p) })
}

/// Short name of a device, such as "CPU" or "Vulkan0". The text lives as long as the device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_name(device: ggml_backend_dev_t) -> *const c_char {
    // SAFETY: NULL or a valid device, by the contract.
    unsafe { asked_device(device) }.map_or(c"NULL".as_ptr(), |it| it.name_ptr())
}

/// The product, for people to read. The text lives as long as the device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_description(device: ggml_backend_dev_t) -> *const c_char {
    // SAFETY: NULL or a valid device, by the contract.
    unsafe { asked_device(device) }.map_or(c"NULL".as_ptr(), |it| it.description_ptr())
}

/// Free and total memory of the device in bytes; 0 when it tells nothing. Either address may be NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_memory(device: ggml_backend_dev_t, free: *mut usize, total: *mut usize) {
    // SAFETY: NULL or a valid device, by the contract.
    let memory = unsafe { asked_device(device) }.map_or((0, 0), |d| d.memory());
    // SAFETY: NULL or writable, by the contract.
    unsafe {
        put(free, memory.0);
        put(total, memory.1);
    }
}

/// Kind of device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_type(device: ggml_backend_dev_t) -> raw::ggml_backend_dev_type {
    // SAFETY: NULL or a valid device, by the contract.
    unsafe { asked_device(device) }.map_or(0, |it| it.kind_raw())
}

/// Fills `props` with all properties of the device. Texts in it live as long as the device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_get_props(device: ggml_backend_dev_t, props: *mut ggml_backend_dev_props) {
    // SAFETY: NULL or a valid device, by the contract.
    let Some(device) = (unsafe { asked_device(device) }) else { return };
    // SAFETY: writable, by the contract.
    unsafe { put(props, device.props()) }
}

/// The family that the device belongs to.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_backend_reg(device: ggml_backend_dev_t) -> ggml_backend_reg_t {
    // SAFETY: NULL or a valid device, by the contract.
    unsafe { asked_device(device) }
        .map_or(std::ptr::null_mut(), |it| it.reg().map_or(std::ptr::null_mut(), RegRef::as_ptr))
}

/// A new backend (a stream of work) on the device, freed with `ggml_backend_free`; NULL on failure. What `params` means
/// is the device's own; it may be NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_init(device: ggml_backend_dev_t, params: *const c_char) -> ggml_backend_t {
    // SAFETY: NULL or a valid device, and NULL or a valid C string, by the contract.
    let backend = unsafe { asked_device(device).and_then(|d| d.init(text(params))) };
    backend.map_or(std::ptr::null_mut(), BackendBox::into_raw)
}

/// The buffer type that the device prefers.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_buffer_type(device: ggml_backend_dev_t) -> ggml_backend_buffer_type_t {
    // SAFETY: NULL or a valid device, by the contract.
    unsafe { asked_device(device) }
        .map_or(std::ptr::null_mut(), |it| it.buffer_type().map_or(std::ptr::null_mut(), BufferTypeRef::as_ptr))
}

/// A buffer type in host memory that makes transfers to and from the device fast; NULL when there is none.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_host_buffer_type(device: ggml_backend_dev_t) -> ggml_backend_buffer_type_t {
    // SAFETY: NULL or a valid device, by the contract.
    unsafe { asked_device(device) }
        .map_or(std::ptr::null_mut(), |it| it.host_buffer_type().map_or(std::ptr::null_mut(), BufferTypeRef::as_ptr))
}

/// A buffer over `size` bytes at `ptr` that the host already has, such as a mapped file, and keeps while the buffer
/// lives. `max_tensor_size` is the size of the largest tensor that will lie in it. NULL when the device cannot do that.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_buffer_from_host_ptr(
    device: ggml_backend_dev_t,
    ptr: *mut c_void,
    size: usize,
    max_tensor_size: usize,
) -> ggml_backend_buffer_t {
    // SAFETY: a valid device and memory that outlives the buffer, by the contract.
    let (device, buffer) = unsafe {
        let device = need_device(device);
        (device, device.buffer_from_host_ptr(ptr, size, max_tensor_size))
    };
    if buffer.is_none() {
        log_error!("device {} made no buffer of {size} bytes of host memory", device.name());
    }
    buffer.map_or(std::ptr::null_mut(), BufferBox::into_raw)
}

/// Whether the device can compute the node `op`, with the types, shapes and strides that it and its sources have.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_supports_op(device: ggml_backend_dev_t, op: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid device and a valid tensor, by the contract.
    unsafe { asked_device(device).zip(opt_tensor(op)) }.is_some_and(|(it, op)| it.supports_op(op))
}

/// Whether the device can compute with tensors in buffers of the type.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_supports_buft(
    device: ggml_backend_dev_t,
    buft: ggml_backend_buffer_type_t,
) -> bool {
    // SAFETY: NULL or a valid device and a valid buffer type, by the contract.
    unsafe { asked_device(device).zip(asked_buft(buft)) }.is_some_and(|(it, buft)| it.supports_buft(buft))
}

/// Whether `op` is worth computing on the device although its weights lie in host memory and must be copied for it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_offload_op(device: ggml_backend_dev_t, op: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid device and a valid tensor, by the contract.
    unsafe { asked_device(device).zip(opt_tensor(op)) }.is_some_and(|(it, op)| it.offload_op(op))
}

/// Name of a family of devices, such as "CPU" or "Vulkan".
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_reg_name(reg: ggml_backend_reg_t) -> *const c_char {
    // SAFETY: NULL or a valid registry, by the contract.
    unsafe { asked_reg(reg) }.map_or(c"NULL".as_ptr(), |it| it.name_ptr())
}

/// Number of devices in a family.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_reg_dev_count(reg: ggml_backend_reg_t) -> usize {
    // SAFETY: NULL or a valid registry, by the contract.
    unsafe { asked_reg(reg) }.map_or(0, |it| it.device_count())
}

/// Device `index` of a family.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_reg_dev_get(reg: ggml_backend_reg_t, index: usize) -> ggml_backend_dev_t {
    // SAFETY: NULL or a valid registry, by the contract.
    unsafe { asked_reg(reg) }
        .map_or(std::ptr::null_mut(), |it| it.device(index).map_or(std::ptr::null_mut(), DeviceRef::as_ptr))
}

/// Address of a function that a family offers beyond this interface, such as "ggml_backend_set_n_threads"; NULL when
/// there is none of this name.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_reg_get_proc_address(
    reg: ggml_backend_reg_t,
    name: *const c_char,
) -> *mut c_void {
    // SAFETY: NULL or a valid registry, and NULL or a valid C string, by the contract.
    let (reg, name) = unsafe { (asked_reg(reg), text(name)) };
    reg.zip(name).and_then(|(reg, name)| reg.proc_address(name)).map_or(std::ptr::null_mut(), NonNull::as_ptr)
}
