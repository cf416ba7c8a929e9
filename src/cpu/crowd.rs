//! Whether other programs use the processors so much that several threads take longer than one.
//!
//! Threads that compute a graph together wait for each other after each step. If the system gives the processor of one
//! to another program, all wait for milliseconds, whatever the graph takes. So every region with several threads is
//! accounted for: it gains what a single thread would have taken longer, and loses what its first thread has waited
//! asleep. When the account is empty, all but large graphs are computed with one thread for a time in proportion to the
//! loss; then several threads are tried again. Results are the same with any number of threads.
#![forbid(unsafe_code)]

use crate::environment::debug;
use crate::sys::sync::once;
use crate::sys::time;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Most nanoseconds in the account: what may be lost to rare interruptions.
const MOST: i64 = 2_000_000;
/// Time with one thread for a loss: the trials cost one part in so many.
const TIMES: i64 = 20;
/// Longest time with one thread, in nanoseconds.
const LONGEST: i64 = 2_000_000_000;

/// The account of the process, because its processors are the same for all graphs.
static CROWD: Crowd = Crowd::new();

/// An account.
struct Crowd {
    balance: AtomicI64,
    /// When several threads are tried again, in nanoseconds; 0 while they are used.
    until: AtomicU64,
}

impl Crowd {
    const fn new() -> Self {
        Self { balance: AtomicI64::new(MOST), until: AtomicU64::new(0) }
    }

    fn is_crowded(&self, now: impl FnOnce() -> u64) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        if until == 0 || now() < until {
            return until != 0;
        }
        self.until.store(0, Ordering::Relaxed);
        self.balance.store(MOST / 4, Ordering::Relaxed);
        false
    }

    /// Accounts for a region of `n` threads that took `whole` nanoseconds, of which its first thread waited `slept`.
    fn account(&self, n: usize, whole: u64, slept: u64, now: impl FnOnce() -> u64) {
        let limit = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX).min(LONGEST);
        let gain = limit(whole.saturating_sub(slept)).saturating_mul(n as i64 - 1);
        let before = self.balance.load(Ordering::Relaxed);
        if slept == 0 && before >= MOST {
            return;
        }
        let after = before.saturating_add(gain).saturating_sub(limit(slept)).min(MOST);
        self.balance.store(after, Ordering::Relaxed);
        if after < 0 {
            self.until.store(now() + after.saturating_mul(-TIMES).min(LONGEST) as u64, Ordering::Relaxed);
        }
    }
}

/// Whether graphs are to be computed with one thread for now.
#[inline]
pub fn is_crowded() -> bool {
    CROWD.is_crowded(time::monotonic_ns)
}

/// Accounts for a region. Not in tests, which compare the results of several threads.
pub fn account(n: usize, whole: Duration, slept: Duration) {
    static OFF: OnceLock<bool> = OnceLock::new();
    if cfg!(any(test, fuzzing, ggml_tsan)) || *once(&OFF, || debug::THREADS.is("all")) {
        return;
    }
    CROWD.account(n, whole.as_nanos() as u64, slept.as_nanos() as u64, time::monotonic_ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;

    #[test]
    fn rare_interruptions_of_useful_threads_change_nothing() {
        let crowd = Crowd::new();
        for i in 0..10_000u64 {
            crowd.account(2, 100 * US, 0, || 0);
            if i % 100 == 0 {
                crowd.account(2, 1100 * US, MS, || 0);
            }
            assert!(!crowd.is_crowded(|| 0), "{i}");
        }
        // Many threads of which the first waits for half of the time are worth it.
        (0..1000).for_each(|_| crowd.account(8, 20 * MS, 10 * MS, || 0));
        assert!(!crowd.is_crowded(|| 0));
    }

    #[test]
    fn threads_that_lose_are_left_out_for_a_time_that_depends_on_the_loss() {
        for lost in [5 * MS, 50 * MS] {
            let crowd = Crowd::new();
            crowd.account(2, lost + 50 * US, lost, || 7 * MS);
            let deficit = lost - MOST as u64 - 50 * US;
            let until = 7 * MS + TIMES as u64 * deficit;
            assert!(crowd.is_crowded(|| until - 1) && !crowd.is_crowded(|| until) && !crowd.is_crowded(|| until));
            // A trial has less to lose.
            crowd.account(2, MS + 50 * US, MS, || until);
            assert!(crowd.is_crowded(|| until + 5 * MS));
        }
        let crowd = Crowd::new();
        crowd.account(2, u64::MAX, u64::MAX, || 1);
        assert!(crowd.is_crowded(|| LONGEST as u64) && !crowd.is_crowded(|| 1 + LONGEST as u64));
    }
}
