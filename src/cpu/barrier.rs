//! A barrier for threads that wait for each other often: they first spin, then sleep.

use crate::sys::sync::{lock, wait};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

/// Spins before a thread sleeps, if there is a processor for each thread.
const SPIN: usize = 1 << 13;
/// Spins before a thread sleeps, if threads share processors: the last thread may need the processor of a spinning one.
const SPIN_CROWDED: usize = 64;

/// A reusable barrier for `n` threads.
pub struct Barrier {
    n: usize,
    spin: usize,
    arrived: AtomicUsize,
    generation: AtomicUsize,
    sleepers: AtomicUsize,
    broken: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Barrier {
    /// Creates a barrier for `n` threads.
    pub fn new(n: usize) -> Self {
        Self {
            n,
            spin: if n <= processors() { SPIN } else { SPIN_CROWDED },
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Returns when all threads have called it.
    #[cfg(test)]
    pub fn wait(&self) {
        self.wait_with(|| {});
    }

    /// Returns when all threads have called it. Writes before the call are visible to all threads after it. The last thread to arrive
    /// calls `last` before any thread continues.
    #[inline]
    pub fn wait_with(&self, last: impl FnOnce()) {
        if self.n == 1 {
            return last();
        }
        if self.broken.load(Ordering::Acquire) {
            return;
        }
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.n {
            last();
            self.arrived.store(0, Ordering::Relaxed);
            // Pairs with the `SeqCst` accesses in `sleep`: either this load sees the sleeper, or the sleeper sees the new generation.
            self.generation.store(generation.wrapping_add(1), Ordering::SeqCst);
            if self.sleepers.load(Ordering::SeqCst) > 0 {
                drop(lock(&self.lock));
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

    /// Breaks the barrier: all waits return at once, now and later. For a thread that will not arrive because its kernel panicked.
    pub fn give_up(&self) {
        self.broken.store(true, Ordering::SeqCst);
        drop(lock(&self.lock));
        self.wake.notify_all();
    }

    #[cold]
    fn sleep(&self, generation: usize) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let mut guard = lock(&self.lock);
        while self.generation.load(Ordering::SeqCst) == generation && !self.broken.load(Ordering::SeqCst) {
            guard = wait(&self.wake, guard);
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

    #[test]
    fn giving_up_frees_those_who_wait() {
        let barrier = Barrier::new(3);
        std::thread::scope(|s| {
            s.spawn(|| barrier.wait());
            s.spawn(|| barrier.wait());
            std::thread::sleep(std::time::Duration::from_millis(20));
            barrier.give_up();
        });
        barrier.wait();
    }
}
