//! [`Pace`], which decides when a kernel calls the abort callback of the host.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Time between two calls of the callback. A request to stop is noticed after about this time.
const EVERY: Duration = Duration::from_millis(1);
/// How many items a kernel computes between two readings of the clock, if they take less than `QUICK` together.
const ITEMS: u32 = 16;
const QUICK: Duration = Duration::from_micros(20);

/// The time of a thread's last call of the callback. Most items of a kernel (rows, or elements with a window) take much
/// less time than a call of the host, and some take less than a reading of the clock.
#[derive(Default)]
pub struct Pace {
    /// Items until the next reading of the clock.
    left: Cell<u32>,
    read: Cell<Option<Instant>>,
    asked: Cell<Option<Instant>>,
}

impl Pace {
    /// Returns whether to call the callback now, and if so, stores this time as that of the last call. Kernels call
    /// this function once before each item. It returns false for the first item, because the callback is also called
    /// between nodes.
    pub fn is_due(&self, clock: impl FnOnce() -> Instant) -> bool {
        if self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
            return false;
        }
        let now = clock();
        if self.read.replace(Some(now)).is_some_and(|before| now - before < QUICK) {
            self.left.set(ITEMS - 1);
        }
        let due = self.asked.get().is_some_and(|before| now - before >= EVERY);
        if due || self.asked.get().is_none() {
            self.asked.set(Some(now));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the calls of the callback and the readings of the clock over items that take `each`, for a second.
    fn in_a_second(each: Duration) -> (usize, usize) {
        let (pace, readings, begun) = (Pace::default(), Cell::new(0), Instant::now());
        let items = (Duration::from_secs(1).as_nanos() / each.as_nanos()) as u32;
        let asked = (0..items).filter(|i| {
            pace.is_due(|| {
                readings.set(readings.get() + 1);
                begun + each * *i
            })
        });
        (asked.count(), readings.get())
    }

    #[test]
    fn questions_come_about_once_a_millisecond_whatever_items_take() {
        for nanoseconds in [10, 200, 1_000, 15_000, 100_000] {
            let (asked, readings) = in_a_second(Duration::from_nanos(nanoseconds));
            assert!((900..=1000).contains(&asked), "{asked} questions over items of {nanoseconds} ns");
            let most =
                if nanoseconds <= 1_000 { 1_100_000_000 / nanoseconds / 16 } else { 1_000_000_000 / nanoseconds };
            assert!(readings as u64 <= most, "the clock is read {readings} times over items of {nanoseconds} ns");
        }
        assert_eq!(in_a_second(Duration::from_millis(5)).0, 199);
    }

    #[test]
    fn items_that_become_long_are_noticed_within_a_few() {
        let pace = Pace::default();
        let mut now = Instant::now();
        for _ in 0..100 {
            now += Duration::from_nanos(50);
            pace.is_due(|| now);
        }
        let items = (0..100).take_while(|_| {
            now += Duration::from_millis(1);
            !pace.is_due(|| now)
        });
        assert!(items.count() <= ITEMS as usize);
    }
}
