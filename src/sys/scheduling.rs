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
    #[cfg(windows)]
    {
        let own = groups::own()?;
        let first = groups::first(own.Group);
        let mut mask = Box::new([false; GGML_MAX_N_THREADS]);
        let bits = mask.iter_mut().skip(first).zip(0..usize::BITS);
        bits.for_each(|(bit, i)| *bit = own.Mask >> i & 1 != 0);
        Some(mask)
    }
    #[cfg(not(any(linux_kernel, windows)))]
    None
}

/// The processor that the calling thread runs on; `None` if the system does not say.
pub fn own_processor() -> Option<usize> {
    #[cfg(linux_kernel)]
    // SAFETY: the call has no conditions.
    return usize::try_from(unsafe { libc::sched_getcpu() }).ok();
    #[cfg(windows)]
    {
        let mut number = Default::default();
        // SAFETY: a struct that the call may write.
        unsafe { windows_sys::Win32::System::Threading::GetCurrentProcessorNumberEx(&raw mut number) };
        Some(groups::first(number.Group) + usize::from(number.Number))
    }
    #[cfg(not(any(linux_kernel, windows)))]
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
    #[cfg(windows)]
    affinity: Option<windows_sys::Win32::System::SystemInformation::GROUP_AFFINITY>,
    #[cfg(windows)]
    level: Option<i32>,
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

/// Windows numbers processors in groups of at most 64. Here the second group's numbers follow the first's. A thread is
/// in one group at a time.
#[cfg(windows)]
mod groups {
    use super::*;
    use ggml_sched_priority::*;
    use windows_sys::Win32::Foundation::ERROR_INVALID_PARAMETER;
    use windows_sys::Win32::System::SystemInformation::GROUP_AFFINITY;
    use windows_sys::Win32::System::Threading::{
        GetActiveProcessorCount, GetActiveProcessorGroupCount, GetCurrentThread, GetThreadGroupAffinity,
        GetThreadPriority, SetThreadGroupAffinity, SetThreadPriority, THREAD_PRIORITY_ABOVE_NORMAL,
        THREAD_PRIORITY_BELOW_NORMAL, THREAD_PRIORITY_HIGHEST, THREAD_PRIORITY_TIME_CRITICAL,
    };

    /// What `GetThreadPriority` returns if it fails.
    const UNKNOWN: i32 = i32::MAX;

    fn size(group: u16) -> usize {
        // SAFETY: the call takes any number.
        unsafe { GetActiveProcessorCount(group) as usize }
    }

    /// The number of a group's first processor.
    pub fn first(group: u16) -> usize {
        (0..group).map(size).sum()
    }

    /// The calling thread's group, and the processors in it that it may use.
    pub fn own() -> Option<GROUP_AFFINITY> {
        let mut own = GROUP_AFFINITY::default();
        // SAFETY: the calling thread, and a struct that the call may write.
        (unsafe { GetThreadGroupAffinity(GetCurrentThread(), &raw mut own) } != 0).then_some(own)
    }

    fn enter(group: &GROUP_AFFINITY) -> std::io::Result<()> {
        // SAFETY: the calling thread, and a struct that the call reads.
        match unsafe { SetThreadGroupAffinity(GetCurrentThread(), group, std::ptr::null_mut()) } {
            0 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    fn level() -> Option<i32> {
        // SAFETY: the calling thread.
        Some(unsafe { GetThreadPriority(GetCurrentThread()) }).filter(|&level| level != UNKNOWN)
    }

    fn set_level(level: i32) -> bool {
        // SAFETY: the calling thread; the call takes any number.
        unsafe { SetThreadPriority(GetCurrentThread(), level) != 0 }
    }

    /// The processors of a mask by groups: the group that has most of them.
    pub fn of_mask(mask: &[bool], sizes: impl Iterator<Item = usize>) -> Option<GROUP_AFFINITY> {
        let mut rest = mask;
        let groups = (0..).zip(sizes).map(|(group, size)| {
            let (own, next) = rest.split_at(size.min(rest.len()));
            rest = next;
            let bits = own.iter().enumerate().fold(0, |bits, (i, &bit)| bits | usize::from(bit) << i);
            GROUP_AFFINITY { Mask: bits, Group: group, Reserved: [0; 3] }
        });
        // The first of those that have as many.
        groups.filter(|g| g.Mask != 0).reduce(|a, b| if b.Mask.count_ones() > a.Mask.count_ones() { b } else { a })
    }

    impl Scheduling {
        /// Sets the affinity and the priority of the calling thread.
        pub fn apply(&self) {
            if let Some(mask) = &self.mask {
                // SAFETY: the function takes no arguments.
                let groups = unsafe { GetActiveProcessorGroupCount() };
                let entered = of_mask(&mask[..], (0..groups).map(size))
                    .ok_or_else(|| std::io::Error::from_raw_os_error(ERROR_INVALID_PARAMETER as i32))
                    .and_then(|group| enter(&group));
                if let Err(reason) = entered {
                    warn(&format!("cannot bind a thread to its processors: {reason}"));
                }
            }
            let level = match self.priority {
                GGML_SCHED_PRIO_NORMAL => return,
                GGML_SCHED_PRIO_LOW => THREAD_PRIORITY_BELOW_NORMAL,
                GGML_SCHED_PRIO_MEDIUM => THREAD_PRIORITY_ABOVE_NORMAL,
                GGML_SCHED_PRIO_HIGH => THREAD_PRIORITY_HIGHEST,
                GGML_SCHED_PRIO_REALTIME => THREAD_PRIORITY_TIME_CRITICAL,
            };
            if !set_level(level) {
                let reason = std::io::Error::last_os_error();
                warn(&format!("cannot set the priority of a thread: {reason}"));
            }
        }

        /// Like [`Self::apply`], and returns the settings from before.
        pub fn apply_for_now(&self) -> Before {
            let affinity = self.mask.as_ref().and_then(|_| own());
            let level = if self.priority == GGML_SCHED_PRIO_NORMAL { None } else { level() };
            self.apply();
            Before { affinity, level }
        }
    }

    impl Before {
        /// Restores the settings of the thread.
        pub fn restore(self) {
            self.affinity.map(|group| enter(&group).is_ok());
            self.level.map(set_level);
        }
    }
}

#[cfg(not(any(linux_kernel, target_vendor = "apple", windows)))]
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

#[cfg(not(any(linux_kernel, target_vendor = "apple", windows)))]
impl Before {
    /// Restores the settings of the thread.
    pub fn restore(self) {}
}

#[cfg(all(test, windows))]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_one_group_of_processors() {
        let group = |bits: &[usize], sizes: &[usize]| {
            let mut mask = [false; GGML_MAX_N_THREADS];
            bits.iter().for_each(|&bit| mask[bit] = true);
            groups::of_mask(&mask, sizes.iter().copied()).map(|g| (g.Group, g.Mask))
        };
        assert_eq!(group(&[0, 3], &[64]), Some((0, 0b1001)));
        assert_eq!(group(&[63, 64, 66], &[64, 64]), Some((1, 0b101)));
        assert_eq!(group(&[1, 40], &[36, 36]), Some((0, 0b10)));
        assert_eq!((group(&[], &[64]), group(&[70], &[64])), (None, None));
    }

    #[test]
    fn a_thread_gets_its_settings_back() {
        let own = || own_mask().unwrap();
        let (before, here) = (own(), own_processor().unwrap());
        assert!(before[here]);
        let mut mask = Box::new([false; GGML_MAX_N_THREADS]);
        mask[here] = true;
        let settings = Scheduling::on(Some(mask.clone())).apply_for_now();
        assert_eq!(own(), mask);
        settings.restore();
        assert_eq!(own(), before);
    }
}
