//! Counters of weights that are read from files, for reports.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes that have been read.
static READ: AtomicU64 = AtomicU64::new(0);
/// Microseconds for which computations have waited.
static WAITED: AtomicU64 = AtomicU64::new(0);

/// Bytes of a weight have been read.
pub fn read(bytes: usize) {
    READ.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// A computation has waited for a weight.
pub fn waited(time: Duration) {
    WAITED.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
}

/// Bytes that have been read, and for how long computations have waited.
pub fn counted() -> (u64, Duration) {
    (READ.load(Ordering::Relaxed), Duration::from_micros(WAITED.load(Ordering::Relaxed)))
}
