//! Starting threads, and keeping them from being cancelled.

use std::thread::Builder;

/// Minimum stack size in bytes of a thread that runs operations. Custom operations of the host run there, too. They may
/// expect the 8 MiB that Linux gives the main thread and the threads of C; Rust's default is 2 MiB.
pub const STACK: usize = 8 << 20;

/// Builder of threads with a stack of the size that threads of C have here, and of at least [`STACK`] bytes.
pub fn builder() -> Builder {
    Builder::new().stack_size(stack_size())
}

fn stack_size() -> usize {
    default_of_c().max(STACK)
}

/// Calls `f` with all numbers below `n`, on as many threads as there are processors. They are a pool for this call
/// only: a child that a fork makes would not have the threads of one that stays.
pub fn parallel(n: usize, f: impl Fn(usize) + Sync) {
    use rayon::prelude::*;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(n);
    let pool = || rayon::ThreadPoolBuilder::new().num_threads(threads).stack_size(stack_size()).build().ok();
    match if threads > 1 { pool() } else { None } {
        Some(pool) => pool.install(|| (0..n).into_par_iter().for_each(&f)),
        // The system refuses threads.
        None => (0..n).for_each(f),
    }
}

/// Stack size in bytes of a thread that C starts without saying how large; on Linux it follows `ulimit -s`. 0 if the
/// system does not say.
fn default_of_c() -> usize {
    #[cfg(unix)]
    {
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
        let mut size = 0;
        // SAFETY: the attributes are initialised before they are read, and destroyed only if they were; `size` is
        // writable.
        unsafe {
            if libc::pthread_attr_init(attributes.as_mut_ptr()) == 0 {
                libc::pthread_attr_getstacksize(attributes.as_ptr(), &raw mut size);
                libc::pthread_attr_destroy(attributes.as_mut_ptr());
            }
        }
        size
    }
    #[cfg(not(unix))]
    {
        0
    }
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
mod cancellation {
    use std::cell::Cell;
    use std::ffi::c_int;

    unsafe extern "C" {
        fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }
    const DISABLE: c_int = if cfg!(target_vendor = "apple") { 0 } else { 1 };
    /// Whether it unwinds, so that what a function of the host leaves is found (`unwind`).
    const UNWINDS: bool = cfg!(all(target_os = "linux", target_env = "gnu"));

    thread_local! {
        /// What the host has set; `None` outside of a [`Shield`].
        static OF_THE_HOST: Cell<Option<c_int>> = const { Cell::new(None) };
    }

    fn set(state: c_int) -> c_int {
        let mut before = 0;
        // SAFETY: a state that the function has returned, or `DISABLE`; `before` is writable.
        unsafe { pthread_setcancelstate(state, &raw mut before) };
        before
    }

    /// Keeps this thread from being cancelled in functions that wait, read or write: Rust code must not be left by
    /// that. The host's functions can be cancelled ([`exposed`]) where that unwinds.
    pub struct Shield {
        is_first: bool,
    }

    impl Shield {
        /// From here to the end of the scope.
        #[inline]
        pub fn new() -> Self {
            let is_first = OF_THE_HOST.get().is_none();
            if is_first {
                OF_THE_HOST.set(Some(set(DISABLE)));
            }
            Self { is_first }
        }
    }

    impl Drop for Shield {
        #[inline]
        fn drop(&mut self) {
            if self.is_first
                && let Some(state) = OF_THE_HOST.take()
            {
                set(state);
            }
        }
    }

    /// Runs `call`, which is not left by unwinding, as if there was no [`Shield`].
    #[inline]
    pub fn exposed<T>(call: impl FnOnce() -> T) -> T {
        if !UNWINDS {
            return call();
        }
        let Some(state) = OF_THE_HOST.take() else { return call() };
        set(state);
        let result = call();
        set(DISABLE);
        OF_THE_HOST.set(Some(state));
        result
    }
}
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
mod cancellation {
    /// Nothing: threads are not cancelled here.
    pub struct Shield;

    impl Shield {
        /// From here to the end of the scope.
        pub fn new() -> Self {
            Self
        }
    }

    /// Runs `call`.
    #[inline]
    pub fn exposed<T>(call: impl FnOnce() -> T) -> T {
        call()
    }
}
pub use cancellation::{Shield, exposed};

/// Name of the calling thread, as the system shows it: at most 15 bytes of it on Linux. `None` if it has none, or the
/// system does not say.
pub fn name() -> Option<String> {
    if cfg!(linux_kernel) {
        let text = std::fs::read_to_string("/proc/thread-self/comm").ok()?;
        return Some(text.trim_end().to_owned()).filter(|t| !t.is_empty());
    }
    #[cfg(target_vendor = "apple")]
    {
        let mut text = [0u8; 64];
        // SAFETY: the calling thread exists, and so many bytes can be written. The name ends with a 0.
        unsafe { libc::pthread_getname_np(libc::pthread_self(), text.as_mut_ptr().cast(), text.len()) };
        let text = std::ffi::CStr::from_bytes_until_nul(&text).ok()?.to_string_lossy().into_owned();
        return Some(text).filter(|t| !t.is_empty());
    }
    #[cfg(not(target_vendor = "apple"))]
    std::thread::current().name().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses 6 MiB of stack.
    #[inline(never)]
    fn deep(seed: u8) -> usize {
        let mut bytes = [seed; 6 << 20];
        std::hint::black_box(&mut bytes);
        bytes.iter().filter(|&&b| b == seed).count()
    }

    #[test]
    fn a_thread_has_a_deep_stack() {
        assert_eq!(builder().spawn(|| deep(7)).unwrap().join().unwrap(), 6 << 20);
    }
}
