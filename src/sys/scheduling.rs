//! Where a thread runs, and how urgently.

use crate::abi::ggml::{GGML_MAX_N_THREADS, ggml_sched_priority};
use crate::log_warn;

/// Where a thread may run, and how urgently.
#[derive(Clone)]
pub struct Scheduling {
    /// Processors; `None` for all.
    pub mask: Option<Box<[bool; GGML_MAX_N_THREADS]>>,
    /// Priority.
    pub priority: ggml_sched_priority,
}

/// What a thread had before; see [`Scheduling::apply_for_now`].
pub struct Before {
    #[cfg(target_os = "linux")]
    affinity: Option<libc::cpu_set_t>,
    #[cfg(target_os = "linux")]
    scheduling: Option<(libc::c_int, libc::sched_param)>,
}

#[cfg(target_os = "linux")]
impl Scheduling {
    /// Binds the calling thread and sets its priority.
    pub fn apply(&self) {
        self.bind();
        self.prioritise();
    }

    fn bind(&self) {
        let Some(mask) = &self.mask else { return };
        // SAFETY: all-zero bytes are an empty set; the set has CPU_SETSIZE (1024) places, more than the mask.
        let ok = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            (0..mask.len()).filter(|&i| mask[i]).for_each(|i| libc::CPU_SET(i, &mut set));
            libc::sched_setaffinity(0, size_of_val(&set), &set) == 0
        };
        if !ok {
            log_warn!("cannot bind a thread to its processors: {}", std::io::Error::last_os_error());
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
        // SAFETY: plain system call about the calling thread.
        let rc = unsafe {
            let mut param: libc::sched_param = std::mem::zeroed();
            param.sched_priority = level;
            libc::pthread_setschedparam(libc::pthread_self(), policy, &param)
        };
        if rc != 0 {
            log_warn!("cannot set the priority of a thread: {}", std::io::Error::from_raw_os_error(rc));
        }
    }

    /// As [`Self::apply`], and remembers what was before.
    pub fn apply_for_now(&self) -> Before {
        // SAFETY: plain system calls about the calling thread; all-zero bytes are valid values of both structs.
        let before = unsafe {
            let affinity = self.mask.as_ref().and_then(|_| {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                (libc::sched_getaffinity(0, size_of_val(&set), &mut set) == 0).then_some(set)
            });
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
    /// Gives the thread back what it had.
    pub fn restore(self) {
        // SAFETY: plain system calls about the calling thread with values that the system gave.
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
    /// Says that nothing is done here.
    pub fn apply(&self) {
        if self.mask.is_some() || self.priority != ggml_sched_priority::GGML_SCHED_PRIO_NORMAL {
            log_warn!("thread affinity and priority are not set on this system");
        }
    }

    /// As [`Self::apply`].
    pub fn apply_for_now(&self) -> Before {
        self.apply();
        Before {}
    }
}

#[cfg(not(target_os = "linux"))]
impl Before {
    /// Gives the thread back what it had.
    pub fn restore(self) {}
}
