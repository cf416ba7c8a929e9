//! ggml-vulkan.h: the Vulkan backend.

use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::backend::{BackendBox, BackendRef, DeviceRef, RegRef};
use crate::capi::convert::put;
use crate::guard::guarded;
use crate::vulkan::device;
use crate::vulkan::stream::VkStream;
use crate::{log_error, vulkan};
use std::ffi::{c_char, c_int};

/// Device `index`; a number that is none is told.
fn found(function: &str, index: usize) -> Option<DeviceRef> {
    let device = device::device(index);
    if device.is_none() {
        log_error!("{function}: there is no Vulkan device {index}");
    }
    device
}

/// A backend on Vulkan device `dev_num`, freed with `ggml_backend_free`; NULL, with a log line, when there is no such device
/// or it cannot be opened.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_init(dev_num: usize) -> ggml_backend_t {
    let backend = found("ggml_backend_vk_init", dev_num).and_then(|d| d.init(None));
    backend.map_or(std::ptr::null_mut(), BackendBox::into_raw)
}

/// Whether a backend works on a Vulkan device of this library; false for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_is_vk(backend: ggml_backend_t) -> bool {
    // SAFETY: NULL or a valid backend, by the contract.
    let backend = unsafe { BackendRef::from_ptr(backend) };
    backend.is_some_and(|b| crate::backend::author::stream_author::<VkStream>(&b).is_some())
}

/// Number of Vulkan devices. The first question opens the system's Vulkan library; 0 when there is none, or no device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_get_device_count() -> c_int {
    vulkan::reg().map_or(0, |r| c_int::try_from(r.device_count()).unwrap_or(c_int::MAX))
}

/// Writes the product name of a Vulkan device, cut to `description_size` bytes with the end mark; "" when there is no
/// such device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_get_device_description(
    device: c_int,
    description: *mut c_char,
    description_size: usize,
) {
    let index = usize::try_from(device).unwrap_or(usize::MAX);
    let text = found("ggml_backend_vk_get_device_description", index).map(DeviceRef::description).unwrap_or_default();
    if description_size == 0 || description.is_null() {
        return;
    }
    let bytes = text.as_bytes();
    let n = bytes.len().min(description_size - 1);
    // SAFETY: NULL, refused above, or `description_size` writable bytes, by the contract.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), description.cast(), n);
        description.add(n).write(0);
    }
}

/// Free and total memory of a Vulkan device in bytes; 0 when there is no such device. What is free is the driver's word where
/// it has one, else the total.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_get_device_memory(device: c_int, free: *mut usize, total: *mut usize) {
    let index = usize::try_from(device).unwrap_or(usize::MAX);
    let memory = found("ggml_backend_vk_get_device_memory", index).map_or((0, 0), DeviceRef::memory);
    // SAFETY: NULL or writable, by the contract.
    unsafe {
        put(free, memory.0);
        put(total, memory.1);
    }
}

/// The buffer type of Vulkan device `dev_num`; NULL when there is no such device. Its memory is the device's: `data` of
/// tensors in it is no address of the host.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_buffer_type(dev_num: usize) -> ggml_backend_buffer_type_t {
    let buft = found("ggml_backend_vk_buffer_type", dev_num).and_then(DeviceRef::buffer_type);
    buft.map_or(std::ptr::null_mut(), |b| b.as_ptr())
}

/// The buffer type in host memory that makes transfers to and from Vulkan devices fast; NULL without devices.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_host_buffer_type() -> ggml_backend_buffer_type_t {
    let buft = found("ggml_backend_vk_host_buffer_type", 0).and_then(DeviceRef::host_buffer_type);
    buft.map_or(std::ptr::null_mut(), |b| b.as_ptr())
}

/// The family of all Vulkan devices; NULL when the system has no Vulkan library, or GGML_DISABLE_VULKAN is set.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_reg() -> ggml_backend_reg_t {
    vulkan::reg().map_or(std::ptr::null_mut(), RegRef::as_ptr)
}
