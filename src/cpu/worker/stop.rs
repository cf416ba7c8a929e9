//! Whether the host stops a computation.

use super::pace::Pace;
use crate::abi::ggml::ggml_abort_callback;
use crate::sys::foreign;
use crate::sys::unwind::MayUnwind;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The host's abort callback.
#[derive(Clone, Copy)]
pub struct Abort {
    /// Called after each node, and between the parts of large ones; may be NULL.
    pub callback: ggml_abort_callback,
    /// Argument of the callback.
    pub data: *mut c_void,
}
// SAFETY: a shared `Abort` only passes `data` to the callback, and only the thread that started the computation calls
// it.
unsafe impl Sync for Abort {}

impl Abort {
    /// No callback.
    pub const NEVER: Self = Self { callback: None, data: std::ptr::null_mut() };

    fn asked(&self) -> bool {
        let Some(f) = self.callback.map(MayUnwind::may_unwind) else { return false };
        let data = self.data;
        // SAFETY: the header's contract of the abort callback: it may be called with its data while the graph is
        // computed.
        foreign::host(|| unsafe { f(data) }).unwrap_or(true)
    }
}

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
    pub fn is_wanted_now_and_then(&self, ith: usize, pace: &Pace) -> bool {
        self.was_wanted() || self.can_ask(ith) && pace.is_due(Instant::now) && self.ask()
    }

    #[inline]
    fn can_ask(&self, ith: usize) -> bool {
        ith == 0 && self.abort.callback.is_some()
    }

    #[cold]
    fn ask(&self) -> bool {
        let stop = self.abort.asked();
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
