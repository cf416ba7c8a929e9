//! Starting threads.

use std::thread::Builder;

/// Minimum stack size in bytes of a thread that runs operations. Custom operations of the host run there, too. They may expect the 8 MiB that
/// Linux gives the main thread and the threads of C; Rust's default is 2 MiB.
pub const STACK: usize = 8 << 20;

/// Builder of threads with a stack of the size that threads of C have here, and of at least [`STACK`] bytes.
pub fn builder() -> Builder {
    Builder::new().stack_size(default_of_c().max(STACK))
}

/// Stack size in bytes of a thread that C starts without saying how large; on Linux it follows `ulimit -s`. 0 if the system does not say.
fn default_of_c() -> usize {
    #[cfg(unix)]
    {
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
        let mut size = 0;
        // SAFETY: the attributes are initialised before they are read, and destroyed only if they were; `size` is writable.
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
