//! What interleaving costs, and how much of it computations may do: as much as the time that they have taken. A host's
//! first answers come first, so they take some time before they do any.

use super::resident;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Picoseconds in which a thread interleaves a byte: at first as usual, then as measured. Memory that is new may take
/// ten times as long as memory that was just used.
static COST: AtomicU64 = AtomicU64::new(500);

/// Nanoseconds of threads that computations may spend. Less than none: before, they compute for so long.
static CREDIT: AtomicI64 = AtomicI64::new(0);

/// Bytes that are worth it for threads to begin together.
const ENOUGH: u64 = 4 << 20;

/// Nanoseconds in which a thread interleaves so many bytes.
fn cost(bytes: u64) -> i64 {
    let picoseconds = u128::from(bytes) * u128::from(COST.load(Ordering::Relaxed));
    i64::try_from(picoseconds / 1000).unwrap_or(i64::MAX)
}

/// What is owed for so many bytes when they were set.
fn debt(bytes: u64) -> i64 {
    cost(bytes) / 2
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// A weight of so many bytes was set.
pub fn owe(bytes: usize) {
    CREDIT.fetch_sub(debt(bytes as u64), Ordering::Relaxed);
}

/// Threads have computed for so long, and interleaved for so long.
pub fn computed(time: Duration, interleaving: Duration) {
    let away = resident::away();
    let (more, less) = (nanoseconds(time), nanoseconds(interleaving));
    // What was owed for weights that are gone is not.
    let pay = |credit: i64| credit.max(-debt(away)).saturating_add(more).saturating_sub(less).min(cost(away));
    let _ = CREDIT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |credit| Some(pay(credit)));
}

/// A thread has interleaved so many bytes.
pub fn learn(bytes: usize, time: Duration) {
    let _ = COST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |cost| Some(learned(cost, bytes, time)));
}

/// The cost after a measurement.
fn learned(cost: u64, bytes: usize, time: Duration) -> u64 {
    /// Of one in so many measurements: some have new memory, and most have not.
    const OF: u128 = 16;
    const MOST: u128 = 100_000;
    let measured = (time.as_nanos() * 1000 / bytes.max(1) as u128).min(MOST);
    ((OF - 1) * u128::from(cost) + measured).div_ceil(OF) as u64
}

/// What a computation may spend.
pub struct Purse(i64);

impl Purse {
    /// `None` if it is not enough to begin.
    pub fn open() -> Option<Self> {
        let credit = CREDIT.load(Ordering::Relaxed);
        (credit > 0 && credit >= cost(ENOUGH.min(resident::away()))).then_some(Self(credit))
    }

    /// Pays for so many bytes. Returns false if there is not so much.
    pub fn pay(&mut self, bytes: usize) -> bool {
        let left = self.0 - cost(bytes as u64);
        if left >= 0 {
            self.0 = left;
        }
        left >= 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purse_pays_for_what_it_has() {
        let mut purse = Purse(cost(10 << 20));
        // Other tests measure what it costs meanwhile.
        while !purse.pay(4 << 20) {
            purse = Purse(cost(10 << 20));
        }
        let left = purse.0;
        assert!(!purse.pay(1 << 40) && purse.0 == left);
    }

    #[test]
    fn costs_are_learned() {
        // Whatever it was, it is what was measured: 954 for a millisecond.
        for first in [1, 500, 100_000] {
            let cost = (0..200).fold(first, |cost, _| learned(cost, 1 << 20, Duration::from_millis(1)));
            assert!((950..970).contains(&cost), "{cost} ps");
        }
    }
}
