//! A race detector for kernels: debug builds record which thread writes which bytes between two barriers, and release
//! builds do nothing.
#![forbid(unsafe_code)]

#[cfg(debug_assertions)]
use crate::sys::sync::brief;
#[cfg(debug_assertions)]
use std::{collections::BTreeMap, sync::Mutex};

/// The bytes that the threads of a node have written since the last barrier. A thread that reads or writes bytes of
/// another thread panics, in whatever order the two run.
pub struct Claims {
    /// Disjoint ranges: the first byte as the key, the end and the thread as the value.
    #[cfg(debug_assertions)]
    written: Mutex<BTreeMap<usize, (usize, usize)>>,
}

impl Default for Claims {
    fn default() -> Self {
        Self::new()
    }
}

impl Claims {
    /// Creates an empty record.
    pub const fn new() -> Self {
        Self {
            #[cfg(debug_assertions)]
            written: Mutex::new(BTreeMap::new()),
        }
    }

    /// Removes all records. Called when all threads are at a barrier.
    pub fn clear(&self) {
        #[cfg(debug_assertions)]
        brief(&self.written).clear();
    }

    /// Records that `thread` writes `len` bytes at `start`.
    #[inline]
    pub fn write(&self, thread: usize, start: usize, len: usize) {
        self.record(thread, start, len, true);
    }

    /// Records that `thread` reads `len` bytes at `start` of memory that the node also writes.
    #[inline]
    pub fn read(&self, thread: usize, start: usize, len: usize) {
        self.record(thread, start, len, false);
    }

    #[cfg(not(debug_assertions))]
    #[inline]
    fn record(&self, _thread: usize, _start: usize, _len: usize, _writes: bool) {}

    #[cfg(debug_assertions)]
    fn record(&self, thread: usize, start: usize, len: usize, writes: bool) {
        if len == 0 {
            return;
        }
        let end = start + len;
        let mut written = brief(&self.written);
        // The ranges are disjoint, so their ends have the order of their starts.
        let near: Vec<_> =
            written.range(..=end).rev().take_while(|(_, (e, _))| *e >= start).map(|(&s, &r)| (s, r)).collect();
        if let Some((_, (_, other))) = near.iter().find(|(s, (e, owner))| *owner != thread && *s < end && start < *e) {
            let other = *other;
            drop(written);
            let what = if writes { "writes" } else { "reads" };
            panic!("thread {thread} {what} {len} bytes at {start:#x}, of which thread {other} has written some");
        }
        if writes {
            let (mut from, mut to) = (start, end);
            for (s, (e, _)) in near.into_iter().filter(|(_, (_, owner))| *owner == thread) {
                written.remove(&s);
                (from, to) = (from.min(s), to.max(e));
            }
            written.insert(from, (to, thread));
        }
    }
}
