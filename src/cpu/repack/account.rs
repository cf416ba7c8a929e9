//! What reports say of weights that are read from files: counters, and the account of all.

use super::budget::{self, Pressure, When};
use super::{is_from_file, is_interleaved, resident};
use crate::backend::keeper::{self, Kept};
use crate::sys::available;
use crate::tensor::TensorRef;
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

/// The account as it is now.
pub fn account() -> keeper::Account {
    let (memory, away) = (available::memory(), resident::away());
    keeper::Account {
        memory,
        limit: budget::limit(),
        left_free: memory.map_or(0, |m| budget::reserve(m, When::Computing)),
        taken: budget::taken(),
        away,
        fit: budget::fit(away, Pressure::now().is_tight),
        read: READ.load(Ordering::Relaxed),
        waited: Duration::from_micros(WAITED.load(Ordering::Relaxed)),
    }
}

/// The buffers of this type.
pub struct Keeper;

impl keeper::Keeper for Keeper {
    fn kept(&self, t: TensorRef) -> Kept {
        if !is_interleaved(t) {
            return Kept::default();
        }
        let bytes = t.nbytes() as u64;
        Kept { interleaved: bytes, from_file: if is_from_file(t) { bytes } else { 0 } }
    }

    fn account(&self) -> keeper::Account {
        account()
    }
}
