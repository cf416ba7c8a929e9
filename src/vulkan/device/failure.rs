//! Errors of Vulkan calls.

#![forbid(unsafe_code)]

use crate::error::Error;
use ash::vk;

/// The error for a failed Vulkan call.
pub fn failed(what: &str, result: vk::Result) -> Error {
    match result {
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
            Error::OutOfMemory { what: format!("Vulkan: {what}"), bytes: 0 }
        }
        vk::Result::ERROR_DEVICE_LOST => {
            Error::Backend(format!("Vulkan: {what}: the device is lost; free the backend and create it again"))
        }
        other => Error::Backend(format!("Vulkan: {what}: {other:?}")),
    }
}
