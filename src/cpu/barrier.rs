//! A barrier for threads that meet often: waiting threads first spin, then sleep.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Rounds of spinning before a thread goes to sleep, when there is a processor for each thread.
const SPIN: usize = 1 << 13;
/// The same when threads must share processors: the one that is waited for may need ours.
const SPIN_CROWDED: usize = 64;

/// Lets `n` threads wait for each other, again and again.
pub struct Barrier {
    n: usize,
    spin: usize,
    arrived: AtomicUsize,
    generation: AtomicUsize,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Barrier {
    /// A barrier for `n` threads.
    pub fn new(n: usize) -> Self {
        Self {
            n,
            spin: if n <= processors() { SPIN } else { SPIN_CROWDED },
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Returns when all threads have called it. Writes before the call are visible to all threads after it.
    #[inline]
    pub fn wait(&self) {
        self.wait_with(|| {});
    }

    /// As [`Self::wait`]; the thread that arrives last calls `last` before any thread goes on.
    #[inline]
    pub fn wait_with(&self, last: impl FnOnce()) {
        if self.n == 1 {
            return last();
        }
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.n {
            last();
            self.arrived.store(0, Ordering::Relaxed);
            // With the `SeqCst` pair in `sleep`: either we see the sleeper, or it sees the new generation.
            self.generation.store(generation.wrapping_add(1), Ordering::SeqCst);
            if self.sleepers.load(Ordering::SeqCst) > 0 {
                drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
                self.wake.notify_all();
            }
            return;
        }
        for _ in 0..self.spin {
            if self.generation.load(Ordering::Acquire) != generation {
                return;
            }
            std::hint::spin_loop();
        }
        self.sleep(generation);
    }

    #[cold]
    fn sleep(&self, generation: usize) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while self.generation.load(Ordering::SeqCst) == generation {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        drop(guard);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Processors that this process may use.
pub fn processors() -> usize {
    static N: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *N.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_early() {
        for n in [1, 2, 5] {
            let (barrier, count) = (Barrier::new(n), AtomicUsize::new(0));
            std::thread::scope(|s| {
                for _ in 0..n {
                    s.spawn(|| {
                        for round in 1..=300 {
                            count.fetch_add(1, Ordering::Relaxed);
                            barrier.wait();
                            assert_eq!(count.load(Ordering::Relaxed), round * n);
                            barrier.wait();
                        }
                    });
                }
            });
        }
    }
}
