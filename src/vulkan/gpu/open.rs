//! Everything that belongs to an open device.

use crate::error::Result;
use crate::sys::sync::{lock, read, write};
use crate::vulkan::device::core::Core;
use crate::vulkan::device::info::Info;
use crate::vulkan::device::instance::Instance;
use crate::vulkan::device::memory::Memory;
use crate::vulkan::shaders::pipeline::Pipelines;
use crate::vulkan::submit::recorder::Recorder;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

/// An open device. Buffers and streams keep it alive.
pub struct Gpu {
    /// The logical device.
    pub core: Arc<Core>,
    /// Its pipelines.
    pub pipelines: Pipelines,
    /// For copies outside of streams.
    transfer: Mutex<Recorder>,
    /// For copies outside of streams to a card.
    pub(in crate::vulkan) uploads: Mutex<Recorder>,
    pinned: RwLock<Vec<Pinned>>,
    /// Whether the host reads and writes mapped device memory directly.
    pub(in crate::vulkan) direct: bool,
}

/// Host memory that the device can copy from and to.
struct Pinned {
    start: usize,
    memory: Arc<Memory>,
}

impl Gpu {
    /// Opens a device. `direct`: the host reads and writes mapped device memory directly.
    pub fn open(instance: &'static Instance, info: &Arc<Info>, direct: bool) -> Result<Arc<Self>> {
        let core = Core::open(instance, info.clone())?;
        let transfer = Mutex::new(Recorder::new(&core)?);
        let uploads = Mutex::new(Recorder::for_copies(&core)?);
        let pipelines = Pipelines::new(&core)?;
        Ok(Arc::new(Self { core, pipelines, transfer, uploads, pinned: RwLock::default(), direct }))
    }

    /// The description of the device.
    pub fn info(&self) -> &Arc<Info> {
        &self.core.info
    }

    pub(in crate::vulkan) fn transfer(&self) -> MutexGuard<'_, Recorder> {
        lock(&self.transfer)
    }

    /// Registers host memory that the device can access.
    pub(in crate::vulkan) fn pin(&self, memory: &Arc<Memory>) {
        if let Some(start) = memory.mapped() {
            let entry = Pinned { start: start.as_ptr() as usize, memory: memory.clone() };
            write(&self.pinned).push(entry);
        }
    }

    /// Undoes [`Self::pin`].
    pub(in crate::vulkan) fn unpin(&self, memory: &Arc<Memory>) {
        write(&self.pinned).retain(|p| !Arc::ptr_eq(&p.memory, memory));
    }

    /// The pinned memory that contains `len` bytes at `ptr`, and their offset in it.
    pub(in crate::vulkan) fn pinned(&self, ptr: NonNull<u8>, len: usize) -> Option<(Arc<Memory>, u64)> {
        let all = read(&self.pinned);
        let at = ptr.as_ptr() as usize;
        all.iter().find_map(|p| {
            let offset = at.checked_sub(p.start)? as u64;
            (offset.checked_add(len as u64)? <= p.memory.size).then(|| (p.memory.clone(), offset))
        })
    }
}
