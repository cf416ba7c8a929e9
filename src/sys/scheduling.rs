//! Affinity and priority of threads.

use super::warning::warn;
use crate::abi::ggml::{GGML_MAX_N_THREADS, ggml_sched_priority};

/// A set of processors.
pub type Mask = Box<[bool; GGML_MAX_N_THREADS]>;

/// Affinity and priority of a thread.
#[derive(Clone)]
pub struct Scheduling {
    /// Processors that the thread may use; `None` for all.
    pub mask: Option<Mask>,
    pub priority: ggml_sched_priority,
}

impl Scheduling {
    /// The processors in `mask`, or all, and the usual priority.
    pub fn on(mask: Option<Mask>) -> Self {
        Self { mask, priority: ggml_sched_priority::GGML_SCHED_PRIO_NORMAL }
    }
}

/// The processors that the calling thread may use; `None` if the system does not say.
pub fn own_mask() -> Option<Mask> {
    #[cfg(target_os = "linux")]
    {
        let set = affinity()?;
        let mut mask = Box::new([false; GGML_MAX_N_THREADS]);
        // SAFETY: the set has CPU_SETSIZE (1024) bits, more than the mask.
        mask.iter_mut().enumerate().for_each(|(i, bit)| *bit = unsafe { libc::CPU_ISSET(i, &set) });
        Some(mask)
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// The processor that the calling thread runs on; `None` if the system does not say.
pub fn own_processor() -> Option<usize> {
    #[cfg(target_os = "linux")]
    // SAFETY: the call has no conditions.
    return usize::try_from(unsafe { libc::sched_getcpu() }).ok();
    #[cfg(not(target_os = "linux"))]
    None
}

/// The affinity of the calling thread.
#[cfg(target_os = "linux")]
fn affinity() -> Option<libc::cpu_set_t> {
    // SAFETY: all-zero bytes are an empty set, and the call writes only into it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (libc::sched_getaffinity(0, size_of_val(&set), &mut set) == 0).then_some(set)
    }
}

/// The settings of a thread before [`Scheduling::apply_for_now`].
pub struct Before {
    #[cfg(target_os = "linux")]
    affinity: Option<libc::cpu_set_t>,
    #[cfg(target_os = "linux")]
    scheduling: Option<(libc::c_int, libc::sched_param)>,
}

#[cfg(target_os = "linux")]
impl Scheduling {
    /// Sets the affinity and the priority of the calling thread.
    pub fn apply(&self) {
        self.bind();
        self.prioritise();
    }

    fn bind(&self) {
        let Some(mask) = &self.mask else { return };
        // SAFETY: all-zero bytes are an empty set; it has CPU_SETSIZE (1024) bits, more than the mask. The call reads
        // the set only.
        let ok = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            (0..mask.len()).filter(|&i| mask[i]).for_each(|i| libc::CPU_SET(i, &mut set));
            libc::sched_setaffinity(0, size_of_val(&set), &set) == 0
        };
        if !ok {
            let reason = std::io::Error::last_os_error();
            warn(&format!("cannot bind a thread to its processors: {reason}"));
        }
    }

    fn prioritise(&self) {
        use ggml_sched_priority::*;
        let (policy, level) = match self.priority {
            GGML_SCHED_PRIO_NORMAL => return,
            GGML_SCHED_PRIO_LOW => (libc::SCHED_BATCH, 0),
            GGML_SCHED_PRIO_MEDIUM => (libc::SCHED_FIFO, 40),
            GGML_SCHED_PRIO_HIGH => (libc::SCHED_FIFO, 80),
            GGML_SCHED_PRIO_REALTIME => (libc::SCHED_FIFO, 90),
        };
        // SAFETY: all-zero bytes are a valid `sched_param`, and the calling thread exists.
        let rc = unsafe {
            let mut param: libc::sched_param = std::mem::zeroed();
            param.sched_priority = level;
            libc::pthread_setschedparam(libc::pthread_self(), policy, &param)
        };
        if rc != 0 {
            let reason = std::io::Error::from_raw_os_error(rc);
            warn(&format!("cannot set the priority of a thread: {reason}"));
        }
    }

    /// Like [`Self::apply`], and returns the settings from before.
    pub fn apply_for_now(&self) -> Before {
        let affinity = self.mask.as_ref().and_then(|_| affinity());
        // SAFETY: all-zero bytes are a valid `sched_param`, the call writes only into its arguments, and the calling
        // thread exists.
        let before = unsafe {
            let normal = self.priority == ggml_sched_priority::GGML_SCHED_PRIO_NORMAL;
            let mut policy = 0;
            let mut param: libc::sched_param = std::mem::zeroed();
            let scheduling = (!normal
                && libc::pthread_getschedparam(libc::pthread_self(), &mut policy, &mut param) == 0)
                .then_some((policy, param));
            Before { affinity, scheduling }
        };
        self.apply();
        before
    }
}

#[cfg(target_os = "linux")]
impl Before {
    /// Restores the settings of the thread.
    pub fn restore(self) {
        // SAFETY: the calls read structs that the system filled, and the calling thread exists.
        unsafe {
            if let Some(set) = self.affinity {
                libc::sched_setaffinity(0, size_of_val(&set), &set);
            }
            if let Some((policy, param)) = self.scheduling {
                libc::pthread_setschedparam(libc::pthread_self(), policy, &param);
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Scheduling {
    /// Warns that affinity and priority are not supported on this system.
    pub fn apply(&self) {
        if self.mask.is_some() || self.priority != ggml_sched_priority::GGML_SCHED_PRIO_NORMAL {
            warn("thread affinity and priority are not set on this system");
        }
    }

    /// Like [`Self::apply`]; there is nothing to restore.
    pub fn apply_for_now(&self) -> Before {
        self.apply();
        Before {}
    }
}

#[cfg(not(target_os = "linux"))]
impl Before {
    /// Restores the settings of the thread.
    pub fn restore(self) {}
}
