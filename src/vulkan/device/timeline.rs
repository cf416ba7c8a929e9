//! Timeline semaphores, which count the progress of a stream.

use crate::error::{Error, Result};
use crate::vulkan::device::core::Core;
use ash::vk;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A timeline semaphore. Its owner signals increasing values. Marks keep it alive.
pub struct Timeline {
    core: Arc<Core>,
    /// The semaphore.
    pub semaphore: vk::Semaphore,
    /// Nanoseconds of the last two waits.
    last_waits: [AtomicU64; 2],
}

/// Waits that took longer last time are not polled: a processor would be busy for too long.
const LONGEST_POLLED: Duration = Duration::from_millis(50);
/// About how late a sleeping thread goes on.
const WAKES_WITHIN: Duration = Duration::from_micros(100);

/// A value that a timeline has reached: the driver has said so.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reached(u64);

impl Reached {
    /// Whether work that sets `value` is done.
    pub fn includes(&self, value: u64) -> bool {
        value <= self.0
    }
}

/// A value on a timeline: reached when the work that sets it is done.
#[derive(Clone)]
pub struct Mark {
    /// The timeline.
    pub timeline: Arc<Timeline>,
    /// The value.
    pub value: u64,
}

impl Timeline {
    /// A timeline at 0.
    pub fn new(core: &Arc<Core>) -> Result<Arc<Self>> {
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE).initial_value(0);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: `Core`: the device is valid. `Info::probe` accepts only devices with timeline semaphores, and `info`
        // borrows `kind`.
        let semaphore =
            unsafe { core.vk.create_semaphore(&info, None) }.map_err(|e| core.failed("making a semaphore", e))?;
        Ok(Arc::new(Self { core: core.clone(), semaphore, last_waits: Default::default() }))
    }

    /// Whether it belongs to a device.
    pub fn is_of(&self, core: &Arc<Core>) -> bool {
        Arc::ptr_eq(&self.core, core)
    }

    /// The device.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The value reached so far.
    pub fn reached(&self) -> Result<Reached> {
        // SAFETY: the semaphore was created from this device, as a timeline, and lives until drop.
        unsafe { self.core.vk.get_semaphore_counter_value(self.semaphore) }
            .map(Reached)
            .map_err(|e| self.core.failed("asking for progress", e))
    }

    /// Sets the value from the host. It must be higher than the value so far, and no queued work may set it.
    pub fn open(&self, value: u64) -> Result<()> {
        let info = vk::SemaphoreSignalInfo::default().semaphore(self.semaphore).value(value);
        // SAFETY: the semaphore was created from this device, as a timeline, and lives until drop. `info` borrows
        // nothing else. A value that is not higher, or that work sets as well, is against the rules, but is no access
        // to memory.
        unsafe { self.core.vk.signal_semaphore(&info) }.map_err(|e| self.core.failed("opening a gate", e))
    }

    /// Waits for all work of the device.
    pub fn wait_idle(&self) {
        self.core.wait_idle();
    }

    /// Waits for a value.
    pub fn wait(&self, value: u64) -> Result<Reached> {
        let begin = Instant::now();
        let reached = match self.poll_the_end(value, begin)? {
            Some(reached) => reached,
            // Drivers report a device that hangs as lost; this long wait is for drivers that do not.
            None => self.sleep(value, Duration::from_secs(600))?.ok_or_else(|| {
                Error::Backend(format!("{}: no progress for ten minutes", self.core.info.identity.name))
            })?,
        };
        let took = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let last = self.last_waits[0].swap(took, Ordering::Relaxed);
        self.last_waits[1].store(last, Ordering::Relaxed);
        Ok(reached)
    }

    /// Waits for a value by polling the driver, at the start and around the time that the longer one of the last two
    /// waits took. A thread that sleeps until an interrupt continues much later than the device is done, after each
    /// token. Returns `None` if the value is not reached in that time, or if polling does not pay.
    fn poll_the_end(&self, value: u64, begin: Instant) -> Result<Option<Reached>> {
        // A host waits in turn for a graph and for the copies after it, so the longer wait counts.
        let last = self.last_waits.iter().map(|w| w.load(Ordering::Relaxed)).max().unwrap_or(0);
        let last = Duration::from_nanos(last);
        // A software driver needs the processor itself.
        if self.core.info.software || last > LONGEST_POLLED {
            return Ok(None);
        }
        if let Some(reached) = self.poll(value, begin + WAKES_WITHIN / 2)? {
            return Ok(Some(reached));
        }
        let asleep = (last - last / 8).saturating_sub(WAKES_WITHIN + begin.elapsed());
        if !asleep.is_zero()
            && let Some(reached) = self.sleep(value, asleep)?
        {
            return Ok(Some(reached));
        }
        self.poll(value, begin + last + last / 8 + WAKES_WITHIN)
    }

    /// Polls the driver until the value is reached. Returns `None` if it is not reached before `end`.
    fn poll(&self, value: u64, end: Instant) -> Result<Option<Reached>> {
        loop {
            let reached = self.reached()?;
            if reached.includes(value) {
                return Ok(Some(reached));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            (0..32).for_each(|_| std::hint::spin_loop());
        }
    }

    /// Sleeps until a value is reached, or for so long: `None`.
    fn sleep(&self, value: u64, limit: Duration) -> Result<Option<Reached>> {
        let (semaphores, values) = ([self.semaphore], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the semaphore was created from this device, as a timeline, and lives until drop. `info` borrows both
        // arrays.
        match unsafe { self.core.vk.wait_semaphores(&info, limit) } {
            Ok(()) => Ok(Some(Reached(value))),
            Err(vk::Result::TIMEOUT) => Ok(None),
            Err(e) => Err(self.core.failed("waiting for the device", e)),
        }
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        // SAFETY: the semaphore was created from this device. No submitted work uses it: a recorder holds its own
        // timeline, and those it waits for (`Keep`), until its work is done.
        unsafe { self.core.vk.destroy_semaphore(self.semaphore, None) };
    }
}
