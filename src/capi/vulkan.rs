//! ggml-vulkan.h: the Vulkan backend.

use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::backend::{BackendBox, DeviceRef, RegRef};
use crate::capi::convert::{optional, outputs};
use crate::cpu::check;
use crate::guard::guarded;
use crate::vulkan::backend::stream::VkStream;
use crate::{log_error, vulkan};
use std::ffi::{c_char, c_int};

/// The Vulkan backend. It computes only nodes that the CPU backend would accept.
pub(in crate::capi) fn reg() -> Option<RegRef> {
    vulkan::reg(check::accepts)
}

/// Device `index`. Logs an error if there is none.
fn found(function: &str, index: usize) -> Option<DeviceRef> {
    let device = reg().filter(|reg| index < reg.device_count()).and_then(|reg| reg.device(index));
    if device.is_none() {
        log_error!("{function}: there is no Vulkan device {index}");
    }
    device
}

/// Creates a backend on Vulkan device `dev_num`. Free it with `ggml_backend_free`. If there is no such device, or it
/// cannot be opened, logs an error and returns NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_init(dev_num: usize) -> ggml_backend_t {
    let backend = found("ggml_backend_vk_init", dev_num).and_then(|d| d.init(None));
    backend.map_or(std::ptr::null_mut(), BackendBox::into_raw)
}

/// Returns whether this is a Vulkan backend of this library. False for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_is_vk(backend: ggml_backend_t) -> bool {
    optional!(backend);
    backend.is_some_and(|b| crate::backend::author::stream_author::<VkStream>(&b).is_some())
}

/// Returns the number of Vulkan devices; 0 without a Vulkan library. The first call opens the Vulkan library.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_get_device_count() -> c_int {
    reg().map_or(0, |r| c_int::try_from(r.device_count()).unwrap_or(c_int::MAX))
}

/// Writes the product name of a Vulkan device, cut to `description_size` bytes including the zero byte. Empty if
/// there is no such device.
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
    // SAFETY: the header requires `description_size` writable bytes, and `n` is less; NULL was refused above.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), description.cast(), n);
        description.add(n).write(0);
    }
}

/// Writes the free and the total memory of a Vulkan device in bytes; 0 if there is no such device. If the driver does
/// not report the free memory, it is the total.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_get_device_memory(device: c_int, free: *mut usize, total: *mut usize) {
    let index = usize::try_from(device).unwrap_or(usize::MAX);
    let memory = found("ggml_backend_vk_get_device_memory", index).map_or((0, 0), DeviceRef::memory);
    outputs!(free, total);
    free.put(memory.0);
    total.put(memory.1);
}

/// Returns the buffer type of Vulkan device `dev_num`. NULL if there is no such device. The `data` of its tensors is
/// not a host address.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_buffer_type(dev_num: usize) -> ggml_backend_buffer_type_t {
    let buft = found("ggml_backend_vk_buffer_type", dev_num).and_then(DeviceRef::buffer_type);
    buft.map_or(std::ptr::null_mut(), |b| b.as_ptr())
}

/// Returns the buffer type in pinned host memory, for fast transfers to and from Vulkan devices. NULL without
/// devices.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_host_buffer_type() -> ggml_backend_buffer_type_t {
    let buft = found("ggml_backend_vk_host_buffer_type", 0).and_then(DeviceRef::host_buffer_type);
    buft.map_or(std::ptr::null_mut(), |b| b.as_ptr())
}

/// Returns the registration of all Vulkan devices. NULL if there is no Vulkan library, or if the environment variable
/// GGML_DISABLE_VULKAN is set.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_reg() -> ggml_backend_reg_t {
    reg().map_or(std::ptr::null_mut(), RegRef::as_ptr)
}
