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
    #[cfg(linux_kernel)]
    {
        let set = affinity()?;
        let mut mask = Box::new([false; GGML_MAX_N_THREADS]);
        // SAFETY: the set has CPU_SETSIZE (1024) bits, more than the mask.
        mask.iter_mut().enumerate().for_each(|(i, bit)| *bit = unsafe { libc::CPU_ISSET(i, &set) });
        Some(mask)
    }
    #[cfg(not(linux_kernel))]
    None
}

/// The processor that the calling thread runs on; `None` if the system does not say.
pub fn own_processor() -> Option<usize> {
    #[cfg(linux_kernel)]
    // SAFETY: the call has no conditions.
    return usize::try_from(unsafe { libc::sched_getcpu() }).ok();
    #[cfg(not(linux_kernel))]
    None
}

/// The affinity of the calling thread.
#[cfg(linux_kernel)]
fn affinity() -> Option<libc::cpu_set_t> {
    // SAFETY: all-zero bytes are an empty set, and the call writes only into it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (libc::sched_getaffinity(0, size_of_val(&set), &mut set) == 0).then_some(set)
    }
}

/// The settings of a thread before [`Scheduling::apply_for_now`].
pub struct Before {
    #[cfg(target_vendor = "apple")]
    class: Option<quality::Class>,
    #[cfg(linux_kernel)]
    affinity: Option<libc::cpu_set_t>,
    #[cfg(linux_kernel)]
    scheduling: Option<(libc::c_int, libc::sched_param)>,
}

#[cfg(linux_kernel)]
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

#[cfg(linux_kernel)]
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

/// The scheduler of macOS goes by classes of threads: on which kind of core a thread runs, and when. A thread that
/// sets a number instead leaves its class for ever, so the usual priority changes nothing. Threads cannot be bound
/// to cores.
#[cfg(target_vendor = "apple")]
mod quality {
    use super::*;
    use ggml_sched_priority::*;
    use std::ffi::{c_int, c_uint};

    /// A class, and a number in it.
    pub type Class = (c_uint, c_int);

    unsafe extern "C" {
        fn pthread_get_qos_class_np(thread: libc::pthread_t, class: *mut c_uint, relative: *mut c_int) -> c_int;
        fn pthread_set_qos_class_self_np(class: c_uint, relative: c_int) -> c_int;
    }
    const USER_INTERACTIVE: c_uint = 0x21;
    const USER_INITIATED: c_uint = 0x19;
    const UTILITY: c_uint = 0x11;

    fn class() -> Option<Class> {
        let (mut class, mut relative) = (0, 0);
        // SAFETY: the calling thread exists, and both results can be written.
        let rc = unsafe { pthread_get_qos_class_np(libc::pthread_self(), &raw mut class, &raw mut relative) };
        // 0 is the class of threads that have left theirs.
        (rc == 0 && class != 0).then_some((class, relative))
    }

    fn enter((class, relative): Class) -> c_int {
        // SAFETY: the call takes any numbers.
        unsafe { pthread_set_qos_class_self_np(class, relative) }
    }

    impl Scheduling {
        /// Sets the priority of the calling thread. Warns if it is to be bound to processors.
        pub fn apply(&self) {
            if self.mask.is_some() {
                warn("threads cannot be bound to processors on this system");
            }
            let class = match self.priority {
                GGML_SCHED_PRIO_NORMAL => return,
                GGML_SCHED_PRIO_LOW => UTILITY,
                GGML_SCHED_PRIO_MEDIUM => USER_INITIATED,
                GGML_SCHED_PRIO_HIGH | GGML_SCHED_PRIO_REALTIME => USER_INTERACTIVE,
            };
            let rc = enter((class, 0));
            if rc != 0 {
                let reason = std::io::Error::from_raw_os_error(rc);
                warn(&format!("cannot set the priority of a thread: {reason}"));
            }
        }

        /// Like [`Self::apply`], and returns the settings from before.
        pub fn apply_for_now(&self) -> Before {
            let class = if self.priority == GGML_SCHED_PRIO_NORMAL { None } else { class() };
            self.apply();
            Before { class }
        }
    }

    impl Before {
        /// Restores the settings of the thread.
        pub fn restore(self) {
            self.class.map(enter);
        }
    }
}

#[cfg(not(any(linux_kernel, target_vendor = "apple")))]
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

#[cfg(not(any(linux_kernel, target_vendor = "apple")))]
impl Before {
    /// Restores the settings of the thread.
    pub fn restore(self) {}
}
