//! Threads of the library's own.
#![forbid(unsafe_code)]

use std::thread::Builder;

/// Stack of a thread that runs operations, in bytes. Hosts' own operations run there too, written for what Linux gives a program's
/// first thread, and the original's threads; Rust would give 2 MiB.
pub const STACK: usize = 8 << 20;

/// Starts threads with a stack of [`STACK`] bytes.
pub fn builder() -> Builder {
    Builder::new().stack_size(STACK)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes into an array of its own, and so down to its far end.
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
