//! Starting threads.
#![forbid(unsafe_code)]

use std::thread::Builder;

/// Stack size in bytes of a thread that runs operations. Custom operations of the host run there, too. They may expect the 8 MiB that
/// Linux gives the main thread and the threads of C; Rust's default is 2 MiB.
pub const STACK: usize = 8 << 20;

/// Builder of threads with a stack of [`STACK`] bytes.
pub fn builder() -> Builder {
    Builder::new().stack_size(STACK)
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
