//! Timeline semaphores: counted progress of one stream of work.

use super::core::Core;
use crate::error::{Error, Result};
use ash::vk;
use std::sync::Arc;
use std::time::Duration;

/// A timeline semaphore. The owner signals rising values; those who wait keep it alive.
pub struct Timeline {
    core: Arc<Core>,
    /// The semaphore.
    pub semaphore: vk::Semaphore,
}

/// A value on a timeline: reached when the work that sets it is done.
#[derive(Clone)]
pub struct Mark {
    /// Where.
    pub timeline: Arc<Timeline>,
    /// Which.
    pub value: u64,
}

impl Timeline {
    /// A timeline at 0.
    pub fn new(core: &Arc<Core>) -> Result<Arc<Self>> {
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE).initial_value(0);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: timelines are a feature of every device here.
        let semaphore =
            unsafe { core.vk.create_semaphore(&info, None) }.map_err(|e| core.failed("making a semaphore", e))?;
        Ok(Arc::new(Self { core: core.clone(), semaphore }))
    }

    /// Whether it belongs to a device.
    pub fn is_of(&self, core: &Arc<Core>) -> bool {
        Arc::ptr_eq(&self.core, core)
    }

    /// The value reached so far.
    pub fn reached(&self) -> Result<u64> {
        // SAFETY: the semaphore lives.
        unsafe { self.core.vk.get_semaphore_counter_value(self.semaphore) }
            .map_err(|e| self.core.failed("asking for progress", e))
    }

    /// Waits for a value.
    pub fn wait(&self, value: u64) -> Result<()> {
        let (semaphores, values) = ([self.semaphore], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // Drivers report a device that hangs as lost; this long wait is for drivers that do not.
        let limit = u64::try_from(Duration::from_secs(600).as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the semaphore lives.
        match unsafe { self.core.vk.wait_semaphores(&info, limit) } {
            Ok(()) => Ok(()),
            Err(vk::Result::TIMEOUT) => {
                Err(Error::Backend(format!("{}: no progress for ten minutes", self.core.info.identity.name)))
            }
            Err(e) => Err(self.core.failed("waiting for the device", e)),
        }
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        // SAFETY: whoever waits for it or sets it holds it.
        unsafe { self.core.vk.destroy_semaphore(self.semaphore, None) };
    }
}
