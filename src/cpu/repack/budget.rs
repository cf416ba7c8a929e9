//! How much memory interleaved weights may take whose bytes can be read again from a file.

use super::strips::LARGE;
use crate::backend::keeper::Fit;
use crate::environment;
use crate::sys::available::{self, AvailableMemory};
use crate::sys::sync::once;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What weights leave free, at most: memory for what the host allocates or touches later, such as its cache of keys and
/// values, and for pages of files.
const RESERVE: u64 = 4 << 30;

/// Bytes of all such weights in memory.
static TAKEN: AtomicU64 = AtomicU64::new(0);
/// Bytes of all buffers for weights.
static PLANNED: AtomicU64 = AtomicU64::new(0);
/// Bytes of those that are being loaded.
static LOADING: AtomicU64 = AtomicU64::new(0);

/// When memory is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before a graph was computed: the host will still allocate memory for that.
    Loading,
    /// While graphs are computed: the host has what it needs, or says what it allocates (`make_room`).
    Computing,
}

/// What weights leave free in a memory: less if all of them fit in, because then none is read again, which takes
/// memory, too.
pub fn reserve(memory: AvailableMemory, when: When) -> u64 {
    reserve_for(PLANNED.load(Ordering::Relaxed).saturating_sub(taken()), memory, when)
}

/// The same, where weights of `more` bytes are not in memory yet.
fn reserve_for(more: u64, memory: AvailableMemory, when: When) -> u64 {
    let part = if when == When::Loading { 16 } else { 64 };
    let usual = (memory.total / part + (40 << 20)).min(RESERVE);
    let close = (memory.total / 128 + (6 << 20)).min(usual);
    if more.saturating_add(close) <= memory.free { close } else { usual }
}

/// Memory for weights that are being loaded, and that stay.
pub struct Room(u64);

impl Room {
    /// Memory for `bytes` bytes; `None` if there is not so much. Without a limit
    /// there always is for small ones.
    pub fn ask(bytes: usize, when: When) -> Option<Self> {
        let room = Self(bytes as u64);
        // Others that are being loaded have not taken theirs yet, or only a part of it.
        let all = LOADING.fetch_add(room.0, Ordering::Relaxed) + room.0;
        (bytes < LARGE && limit().is_none() || shortage(all, when) == 0).then_some(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        LOADING.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Bytes of weights to give back before `bytes` more may stay in memory.
pub fn shortage(bytes: u64, when: When) -> u64 {
    match limit() {
        Some(limit) => taken().saturating_add(bytes).saturating_sub(limit),
        None => available::memory().map_or(0, |m| reserve(m, when).saturating_add(bytes).saturating_sub(m.free)),
    }
}

/// How memory is.
pub struct Pressure {
    /// Bytes of weights to give back because something else has taken memory.
    pub excess: u64,
    /// Whether little is left for pages of files, so that each should be read alone.
    pub is_tight: bool,
}

impl Pressure {
    /// As it is now.
    pub fn now() -> Self {
        /// With so much, nothing is tight.
        const PLENTY: u64 = 512 << 20;
        if limit().is_some() {
            return Self { excess: shortage(0, When::Computing), is_tight: true };
        }
        let of = |m: AvailableMemory| {
            let reserve = reserve(m, When::Computing);
            // Not before half of it is gone: what is free changes all the time.
            let excess = if m.free < reserve / 2 { reserve - m.free } else { 0 };
            Self { excess, is_tight: m.free < PLENTY }
        };
        available::memory().map_or(Self { excess: 0, is_tight: false }, of)
    }
}

/// What there is room for, of `away` bytes of weights.
pub fn fit(away: u64, is_tight: bool) -> Fit {
    #[cfg(test)]
    if let Some(fit) = tests::fit() {
        return fit;
    }
    if limit().is_some() {
        Fit::Some
    } else if !is_tight && shortage(away.saturating_mul(2), When::Computing) == 0 {
        Fit::Copies
    } else if shortage(away, When::Computing) == 0 {
        Fit::Pages
    } else {
        Fit::Some
    }
}

/// Bytes that weights may take which are in memory only while they are needed.
pub fn window() -> usize {
    /// At least and at most: enough that the system reads while a computation goes on.
    const BYTES: std::ops::RangeInclusive<u64> = 16 << 20..=64 << 20;
    let free = if limit().is_some() { 0 } else { available::memory().map_or(0, |m| m.free / 4) };
    free.clamp(*BYTES.start(), *BYTES.end()) as usize
}

/// Bytes of all weights in memory that can be read again.
pub fn taken() -> u64 {
    TAKEN.load(Ordering::Relaxed)
}

/// A place for weights, of so many bytes, while it lives.
pub struct Planned(u64);

impl Planned {
    /// There will be weights of so many bytes.
    pub fn new(bytes: usize) -> Self {
        PLANNED.fetch_add(bytes as u64, Ordering::Relaxed);
        Self(bytes as u64)
    }
}

impl Drop for Planned {
    fn drop(&mut self) {
        PLANNED.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Weights of `bytes` bytes are in memory.
pub fn take(bytes: usize) {
    TAKEN.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// They are not any more.
pub fn give(bytes: usize) {
    TAKEN.fetch_sub(bytes as u64, Ordering::Relaxed);
}

/// The limit that was set.
pub fn limit() -> Option<u64> {
    #[cfg(test)]
    if let Some(limit) = tests::limit() {
        return Some(limit);
    }
    static LIMIT: OnceLock<Option<u64>> = OnceLock::new();
    *once(&LIMIT, || environment::CPU_COPIES.number())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::sys::sync::lock;
    use std::sync::{Mutex, MutexGuard};

    static SET: AtomicU64 = AtomicU64::new(u64::MAX);
    static FIT: Mutex<Fit> = Mutex::new(Fit::Some);

    pub(super) fn limit() -> Option<u64> {
        Some(SET.load(Ordering::Relaxed)).filter(|&limit| limit < u64::MAX)
    }

    pub(super) fn fit() -> Option<Fit> {
        limit().map(|_| *lock(&FIT))
    }

    /// A limit for weights, of all tests while this lives. Others see other speeds only.
    pub struct Limit(#[expect(dead_code, reason = "one at a time")] MutexGuard<'static, ()>);

    impl Limit {
        /// This many bytes.
        pub fn of(bytes: u64) -> Self {
            static ONE: Mutex<()> = Mutex::new(());
            let one = lock(&ONE);
            SET.store(bytes, Ordering::Relaxed);
            Self(one)
        }

        /// What there is room for.
        pub fn fit(&self, fit: Fit) {
            *lock(&FIT) = fit;
        }

        /// Another one.
        pub fn change(&self, bytes: u64) {
            SET.store(bytes, Ordering::Relaxed);
        }
    }

    impl Drop for Limit {
        fn drop(&mut self) {
            SET.store(u64::MAX, Ordering::Relaxed);
            *lock(&FIT) = Fit::Some;
        }
    }

    #[test]
    fn weights_leave_memory_free() {
        let of = |total: u64, when| reserve_for(200 << 20, AvailableMemory { total: total << 20, free: 0 }, when) >> 20;
        assert_eq!([256, 8192, 1 << 20].map(|total| of(total, When::Loading)), [56, 552, 4096]);
        assert_eq!([256, 8192, 1 << 20].map(|total| of(total, When::Computing)), [44, 168, 4096]);
        // If all of them fit in, the reserve is for the host alone.
        let of = |free: u64| {
            reserve_for(200 << 20, AvailableMemory { total: 256 << 20, free: free << 20 }, When::Loading) >> 20
        };
        assert_eq!([207, 208, 256].map(of), [56, 8, 8]);
    }
}
