//! Decides when threads that interleave weights in the background may use processors: only processors that no
//! computation of the host uses, and not before the host has been quiet for a moment. Page faults of these threads also
//! block threads that change the mappings of the process.

use crate::cpu::barrier::processors;
use crate::sys::time::monotonic_ns;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long the host must be quiet.
const QUIET: Duration = Duration::from_millis(50);

/// Threads of computations.
static COMPUTING: AtomicUsize = AtomicUsize::new(0);
/// Threads that interleave in the background.
static INTERLEAVING: AtomicUsize = AtomicUsize::new(0);
/// When the host did something.
static LAST: AtomicU64 = AtomicU64::new(0);

/// The host does something.
pub fn disturb() {
    LAST.store(monotonic_ns(), Ordering::Relaxed);
}

/// While it lives, a computation uses so many threads.
pub struct Computing {
    threads: usize,
    begun: Instant,
}

impl Computing {
    /// A computation begins.
    pub fn begin(threads: usize) -> Self {
        COMPUTING.fetch_add(threads, Ordering::Relaxed);
        Self { threads, begun: Instant::now() }
    }

    /// The time that its threads have taken, of all together.
    pub fn time(&self) -> Duration {
        self.begun.elapsed() * self.threads as u32
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        let all = COMPUTING.fetch_sub(self.threads, Ordering::Relaxed);
        if all >= processors() {
            // The next one may begin soon.
            disturb();
        }
    }
}

/// While it lives, a thread may interleave in the background.
pub struct Turn(());

impl Turn {
    /// `None` if the thread should wait, which only one that `may_wait` does.
    pub fn take(may_wait: bool) -> Option<Self> {
        INTERLEAVING.fetch_add(1, Ordering::Relaxed);
        let turn = Self(());
        (!may_wait || !is_busy()).then_some(turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        INTERLEAVING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a thread that has a turn should end it.
pub fn is_busy() -> bool {
    let threads = COMPUTING.load(Ordering::Relaxed) + INTERLEAVING.load(Ordering::Relaxed);
    let since = monotonic_ns().saturating_sub(LAST.load(Ordering::Relaxed));
    threads > processors() || u128::from(since) < QUIET.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_wait_for_the_host() {
        // This thread may be stopped for longer than the host must be quiet.
        let is_refused = |_| {
            disturb();
            Turn::take(true).is_none()
        };
        assert!((0..1000).any(is_refused) && Turn::take(false).is_some());
        let all = Computing::begin(processors());
        assert!(Turn::take(true).is_none());
        drop(all);
        // Others may compute at the same time.
        let is_given = |_| {
            std::thread::sleep(Duration::from_millis(5));
            Turn::take(true).is_some()
        };
        assert!((0..12_000).any(is_given), "in a minute");
    }
}
