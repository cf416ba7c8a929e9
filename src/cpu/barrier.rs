//! A barrier for threads that wait for each other often: they first spin, then sleep.
#![forbid(unsafe_code)]

use crate::sys::sync::once;
use crate::sys::{fork, futex};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time to spin before a thread sleeps, if there is a processor for each thread.
const SPIN: Duration = Duration::from_micros(200);
/// The same if threads share processors: the last thread may need the processor of a spinning one.
const SPIN_CROWDED: Duration = Duration::from_micros(2);
/// Longest time that a thread sleeps before it looks again.
pub const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// A reusable barrier for `n` threads.
pub struct Barrier {
    n: u32,
    spin: Duration,
    arrived: AtomicU32,
    generation: AtomicU32,
    sleepers: AtomicU32,
    broken: AtomicBool,
    /// The process that has the threads.
    process: u32,
}

impl Barrier {
    /// Creates a barrier for `n` threads.
    pub fn new(n: usize) -> Self {
        Self {
            n: n as u32,
            spin: if n <= processors() { SPIN } else { SPIN_CROWDED },
            arrived: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            broken: AtomicBool::new(false),
            process: fork::generation(),
        }
    }

    /// Returns when all threads have called it.
    #[cfg(test)]
    pub fn wait(&self) {
        self.wait_with(|| {});
    }

    /// Returns when all threads have called it. Writes before the call are visible to all threads after it. The last
    /// thread to arrive calls `last` before any thread continues. The result is the time that a thread has waited, if
    /// it was so long that the thread slept.
    #[inline]
    pub fn wait_with(&self, last: impl FnOnce()) -> Duration {
        if self.n == 1 {
            last();
            return Duration::ZERO;
        }
        if self.broken.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.n {
            last();
            self.arrived.store(0, Ordering::Relaxed);
            // Pairs with the `SeqCst` accesses in `sleep`: either this load sees the sleeper, or the sleeper sees the
            // new generation.
            self.generation.store(generation.wrapping_add(1), Ordering::SeqCst);
            if self.sleepers.load(Ordering::SeqCst) > 0 {
                futex::wake(&self.generation, u32::MAX);
            }
            return Duration::ZERO;
        }
        if futex::spin(self.spin, || self.generation.load(Ordering::Acquire) != generation) {
            return Duration::ZERO;
        }
        self.sleep(generation)
    }

    /// Breaks the barrier: all waits return at once, now and later. For a thread that will not arrive because its
    /// kernel panicked.
    pub fn give_up(&self) {
        self.broken.store(true, Ordering::SeqCst);
        self.generation.fetch_add(1, Ordering::SeqCst);
        futex::wake(&self.generation, u32::MAX);
    }

    #[cold]
    fn sleep(&self, generation: u32) -> Duration {
        let begun = Instant::now();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while self.generation.load(Ordering::SeqCst) == generation && !self.broken.load(Ordering::SeqCst) {
            // The host has forked in a kernel, and the child does not have the other threads.
            if self.process != fork::generation() {
                self.give_up();
                break;
            }
            futex::wait(&self.generation, generation, Some(LONGEST_SLEEP));
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        begun.elapsed() + self.spin
    }
}

/// Processors that this process may use.
pub fn processors() -> usize {
    static N: OnceLock<usize> = OnceLock::new();
    *once(&N, || std::thread::available_parallelism().map_or(1, usize::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

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

    #[test]
    fn a_thread_that_waits_long_says_so() {
        let barrier = Barrier::new(2);
        let slept = std::thread::scope(|s| {
            let waits = s.spawn(|| barrier.wait_with(|| {}));
            std::thread::sleep(Duration::from_millis(20));
            barrier.wait();
            waits.join().unwrap()
        });
        assert!(slept >= Duration::from_millis(5), "{slept:?}");
    }
}
