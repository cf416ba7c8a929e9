//! Whether the host stops a computation.

use super::pace::Pace;
use crate::backend::Abort;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Whether the host stops a region.
pub struct Stop {
    abort: Abort,
    wanted: AtomicBool,
}

impl Stop {
    /// Not yet.
    pub fn new(abort: Abort) -> Self {
        Self { abort, wanted: AtomicBool::new(false) }
    }

    /// Returns whether the host has stopped the region. On thread 0, this calls the abort callback of the host.
    #[inline]
    pub fn is_wanted(&self, ith: usize) -> bool {
        self.was_wanted() || self.can_ask(ith) && self.ask()
    }

    /// As [`Self::is_wanted`], but thread 0 calls the abort callback only if `pace` says so.
    #[inline]
    pub fn poll(&self, ith: usize, pace: &Pace) -> bool {
        self.was_wanted() || self.can_ask(ith) && pace.is_due(Instant::now) && self.ask()
    }

    #[inline]
    fn can_ask(&self, ith: usize) -> bool {
        ith == 0 && self.abort.is_set()
    }

    #[cold]
    fn ask(&self) -> bool {
        let stop = self.abort.is_wanted();
        if stop {
            self.wanted.store(true, Ordering::Relaxed);
        }
        stop
    }

    /// Whether the host has stopped it, as far as is known.
    #[inline]
    pub fn was_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }
}
