//! The cost of interleaving, and the time that computations lose without it while they use weights where their file is
//! mapped. Their threads interleave after they have lost as much time as interleaving would cost. A program that stops
//! before has not paid for what it would not have used. A program that continues has lost at most as much again. From
//! then on, its threads may spend as much time on interleaving as they have spent on computing.

use super::resident;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Picoseconds in which a thread interleaves a byte: at first as usual, then as measured. Memory that is new may take
/// ten times as long as memory that was just used.
static COST: AtomicU64 = AtomicU64::new(500);

/// Nanoseconds of threads: what computations have lost, less what they have spent.
static LOST: AtomicI64 = AtomicI64::new(0);
/// The same that they may spend, when they have lost enough: as long as they have computed.
static PACE: AtomicI64 = AtomicI64::new(0);

/// Bytes that are worth it for threads to begin together.
const ENOUGH: u64 = 4 << 20;

/// Nanoseconds in which a thread interleaves so many bytes.
fn cost(bytes: u64) -> i64 {
    let picoseconds = u128::from(bytes) * u128::from(COST.load(Ordering::Relaxed));
    i64::try_from(picoseconds / 1000).unwrap_or(i64::MAX)
}

/// The part of its time that a computation with so many columns loses. Measured with formats from 4.25 to 8.5 bits: 0
/// to a sixth of the time of text and of prompts, a tenth to a third of that of a few columns.
fn lost(time: i64, columns: usize) -> i64 {
    time / if (2..=16).contains(&columns) { 4 } else { 10 }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// Threads have computed for so long, with so many columns, and interleaved for so long.
pub fn computed(time: Duration, columns: usize, interleaving: Duration) {
    let most = cost(resident::away());
    let (time, interleaving) = (nanoseconds(time), nanoseconds(interleaving));
    let change = |of: &AtomicI64, more: i64| {
        let changed = |n: i64| Some(n.saturating_add(more).saturating_sub(interleaving).min(most));
        let _ = of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    };
    change(&LOST, lost(time, columns));
    change(&PACE, time);
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
    /// `None` if they have not lost enough, or may not spend enough to begin.
    pub fn open() -> Option<Self> {
        /// Whether they have begun: they go on unless it costs much more than was thought.
        static BEGUN: AtomicBool = AtomicBool::new(false);
        let (away, pace) = (resident::away(), PACE.load(Ordering::Relaxed));
        let enough = cost(away) / if BEGUN.load(Ordering::Relaxed) { 2 } else { 1 };
        let may = LOST.load(Ordering::Relaxed) >= enough;
        BEGUN.store(may, Ordering::Relaxed);
        (may && pace > 0 && pace >= cost(ENOUGH.min(away))).then_some(Self(pace))
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
    fn few_columns_lose_most() {
        let [text, few, prompt] = [1, 8, 512].map(|columns| lost(1000, columns));
        assert!(0 < text && text < few && 0 < prompt && prompt < few && few < 1000);
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
