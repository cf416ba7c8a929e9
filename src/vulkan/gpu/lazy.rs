//! Devices that are opened on first use.

#![forbid(unsafe_code)]

use crate::environment;
use crate::error::{Result, invalid};
use crate::log_warn;
use crate::sys::fork;
use crate::sys::sync::lock;
use crate::vulkan::device::Info;
use crate::vulkan::device::instance::Instance;
use crate::vulkan::gpu::open::Gpu;
use std::sync::{Arc, Mutex};

/// A device that is opened on first use, and again after it was lost.
pub struct LazyGpu {
    /// The instance.
    pub instance: &'static Instance,
    info: Arc<Info>,
    direct: bool,
    opened: Mutex<Option<Arc<Gpu>>>,
    /// The process that has started Vulkan. Drivers have threads, which a child of it does not have.
    process: u32,
}

impl LazyGpu {
    /// A device that is not open. `direct`: the host reads and writes mapped device memory directly.
    pub fn new(instance: &'static Instance, info: Arc<Info>, direct: bool) -> Self {
        Self { instance, info, direct, opened: Mutex::new(None), process: fork::generation() }
    }

    /// The description of the device.
    pub fn info(&self) -> &Arc<Info> {
        &self.info
    }

    /// The open device. Fails in a child of the process that started Vulkan.
    pub fn gpu(&self) -> Result<Arc<Gpu>> {
        if self.process != fork::generation() {
            return Err(invalid!(
                "Vulkan was started by the process that this one was forked from, and does not work here"
            ));
        }
        let mut opened = lock(&self.opened);
        match &*opened {
            Some(gpu) if !gpu.core.is_lost() => Ok(gpu.clone()),
            _ => {
                if opened.take().is_some() {
                    log_warn!("ggml_vulkan: {} was lost and is opened again", self.info.identity.name);
                }
                Ok(opened.insert(Gpu::open(self.instance, &self.info, self.direct)?).clone())
            }
        }
    }

    /// Recommended maximum size of a buffer in bytes.
    pub fn max_buffer_size(&self) -> u64 {
        const DEFAULT: u64 = 1 << 30;
        let l = &self.info.limits;
        environment::VK_SUBALLOCATION_BLOCK_SIZE.number().unwrap_or(DEFAULT).min(l.allocation).min(l.buffer)
    }
}
