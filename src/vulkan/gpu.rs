//! Everything that one opened device has.

use super::command::Recorder;
use super::core::Core;
use super::info::Info;
use super::instance::Instance;
use super::memory::Memory;
use super::pipeline::Pipelines;
use crate::error::Result;
use crate::sys::sync::{lock, read, write};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

/// An open device. Buffers and streams keep it alive; the last of them frees it.
pub struct Gpu {
    /// The logical device.
    pub core: Arc<Core>,
    /// Its pipelines.
    pub pipelines: Pipelines,
    /// For copies that belong to no stream.
    transfer: Mutex<Recorder>,
    pinned: RwLock<Vec<Pinned>>,
    /// Whether device memory is written and read directly where the host can reach it.
    pub(super) direct: bool,
}

/// Host memory that the device can copy from and to.
struct Pinned {
    start: usize,
    memory: Arc<Memory>,
}

impl Gpu {
    /// Opens a device; `direct`: its memory is written and read directly where the host can reach it.
    pub fn open(instance: &'static Instance, info: &Arc<Info>, direct: bool) -> Result<Arc<Self>> {
        let core = Core::open(instance, info.clone())?;
        let transfer = Mutex::new(Recorder::new(&core)?);
        let pipelines = Pipelines::new(&core)?;
        Ok(Arc::new(Self { core, pipelines, transfer, pinned: RwLock::default(), direct }))
    }

    /// What the device can do.
    pub fn info(&self) -> &Arc<Info> {
        &self.core.info
    }

    pub(super) fn transfer(&self) -> MutexGuard<'_, Recorder> {
        lock(&self.transfer)
    }

    /// Remembers host memory that the device reaches.
    pub(super) fn pin(&self, memory: &Arc<Memory>) {
        if let Some(start) = memory.mapped() {
            let entry = Pinned { start: start.as_ptr() as usize, memory: memory.clone() };
            write(&self.pinned).push(entry);
        }
    }

    /// Forgets it.
    pub(super) fn unpin(&self, memory: &Arc<Memory>) {
        write(&self.pinned).retain(|p| !Arc::ptr_eq(&p.memory, memory));
    }

    /// The pinned memory that `len` bytes from `ptr` on are in, and their offset.
    pub(super) fn pinned(&self, ptr: NonNull<u8>, len: usize) -> Option<(Arc<Memory>, u64)> {
        let all = read(&self.pinned);
        let at = ptr.as_ptr() as usize;
        all.iter().find_map(|p| {
            let offset = at.checked_sub(p.start)? as u64;
            (offset.checked_add(len as u64)? <= p.memory.size).then(|| (p.memory.clone(), offset))
        })
    }
}
