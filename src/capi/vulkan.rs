//! ggml-vulkan.h: the Vulkan backend. This version of the library has no Vulkan devices: counts are 0, objects NULL.

use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::capi::convert::put;
use crate::guard::guarded;
use crate::log_error;
use std::ffi::{c_char, c_int};

/// Says that there is no device to work with.
fn absent(function: &str) {
    log_error!("{function}: this version of the library has no Vulkan devices");
}

/// A backend on Vulkan device `dev_num`, freed with `ggml_backend_free`; NULL when there is no such device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_init(dev_num: usize) -> ggml_backend_t {
    let _ = dev_num;
    absent("ggml_backend_vk_init");
    std::ptr::null_mut()
}

/// Whether a backend works on a Vulkan device; false for NULL. This version of the library has none: false.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_is_vk(backend: ggml_backend_t) -> bool {
    let _ = backend;
    false
}

/// Number of Vulkan devices. This version of the library has none: 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_get_device_count() -> c_int {
    0
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
    let _ = device;
    absent("ggml_backend_vk_get_device_description");
    if description_size > 0 {
        // SAFETY: NULL or `description_size` writable bytes, by the contract.
        unsafe { put(description, 0) }
    }
}

/// Free and total memory of a Vulkan device in bytes; 0 when there is no such device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_get_device_memory(device: c_int, free: *mut usize, total: *mut usize) {
    let _ = device;
    absent("ggml_backend_vk_get_device_memory");
    // SAFETY: NULL or writable, by the contract.
    unsafe {
        put(free, 0);
        put(total, 0);
    }
}

/// The buffer type of Vulkan device `dev_num`; NULL when there is no such device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_buffer_type(dev_num: usize) -> ggml_backend_buffer_type_t {
    let _ = dev_num;
    absent("ggml_backend_vk_buffer_type");
    std::ptr::null_mut()
}

/// The buffer type in host memory that makes transfers to and from Vulkan devices fast; NULL without devices.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_host_buffer_type() -> ggml_backend_buffer_type_t {
    absent("ggml_backend_vk_host_buffer_type");
    std::ptr::null_mut()
}

/// The family of all Vulkan devices; NULL without devices.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_vk_reg() -> ggml_backend_reg_t {
    absent("ggml_backend_vk_reg");
    std::ptr::null_mut()
}
