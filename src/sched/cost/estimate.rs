//! One figure that follows what is measured.
#![forbid(unsafe_code)]

use std::ops::RangeInclusive;

/// Nanoseconds.
pub type Nanos = u64;

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanos,
    /// Nanoseconds for each byte.
    NanosPerByte,
}

impl Unit {
    /// Figures that a machine may have. Anything else is a fault of a clock or of a file.
    pub fn limits(self) -> RangeInclusive<f64> {
        match self {
            // 10 seconds: a network with a server that does not answer.
            Self::Nanos => 1.0..=1e10,
            // 100 TB/s and 1 KB/s.
            Self::NanosPerByte => 1e-5..=1e6,
        }
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nanos => "ns",
            Self::NanosPerByte => "ns/byte",
        }
    }

    /// Whether a figure is one that a machine may have. False for what is no number.
    pub fn admits(self, value: f64) -> bool {
        self.limits().contains(&value)
    }

    /// The nearest figure that a machine may have.
    pub fn clamp(self, value: f64) -> f64 {
        let limits = self.limits();
        value.clamp(*limits.start(), *limits.end())
    }
}

/// Most by which a measurement may differ from the estimate, as a factor. What differs more counts as that much.
const MOST: f64 = 4.0;
/// The same for the first measurement, which replaces a guess.
const MOST_OF_FIRST: f64 = 16.0;
/// The share of a new measurement.
const SHARE: f64 = 0.25;

/// A figure that begins as a default value. Figures are ratios to each other, so means are geometric.
///
/// The first two measurements replace the default value almost completely. Afterwards each one counts a quarter, after
/// a median of three, which removes single outliers, such as the first computation of a kernel that has to be compiled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    unit: Unit,
    value: f64,
    /// The last measurements; before them, what the figure began as.
    recent: [f64; 3],
    count: u32,
}

fn median([a, b, c]: [f64; 3]) -> f64 {
    a.min(b).max(a.max(b).min(c))
}

impl Estimate {
    /// A figure that nothing has measured.
    pub fn new(unit: Unit, default: f64) -> Self {
        Self::kept(unit, default, 0)
    }

    /// A figure that was measured `count` times before.
    pub fn kept(unit: Unit, value: f64, count: u32) -> Self {
        let value = unit.clamp(value);
        Self { unit, value, recent: [value; 3], count }
    }

    /// What it counts.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The figure.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// How often it was measured.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Adds a measurement. Zero, and what is no number, says nothing.
    pub fn note(&mut self, measured: f64) {
        if measured.is_nan() || measured <= 0.0 {
            return;
        }
        let measured = self.unit.clamp(measured);
        let before = self.value;
        self.recent = [self.recent[1], self.recent[2], measured];
        self.value = match self.count {
            0 => before * (measured / before).clamp(1.0 / MOST_OF_FIRST, MOST_OF_FIRST).sqrt(),
            1 | 2 => median(self.recent),
            _ => before * (median(self.recent) / before).clamp(1.0 / MOST, MOST).powf(SHARE),
        };
        self.count = self.count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(default: f64, measured: &[f64]) -> Estimate {
        let mut e = Estimate::new(Unit::NanosPerByte, default);
        measured.iter().for_each(|&m| e.note(m));
        e
    }

    #[test]
    fn medians_of_three() {
        for order in [[1., 2., 3.], [1., 3., 2.], [2., 1., 3.], [2., 3., 1.], [3., 1., 2.], [3., 2., 1.]] {
            assert_eq!(median(order), 2.0);
        }
        assert_eq!(median([5., 5., 1.]), 5.0);
    }

    #[test]
    fn two_measurements_replace_the_default_value() {
        assert_eq!(after(1.0, &[]).value(), 1.0);
        assert_eq!(after(1.0, &[9.0]).value(), 3.0);
        assert_eq!(after(1.0, &[9.0, 8.0]).value(), 8.0);
        assert_eq!(after(100.0, &[9.0, 8.0]).value(), 9.0);
        assert_eq!((after(1.0, &[9.0, 8.0, 9.0]).value(), after(1.0, &[9.0, 8.0, 9.0]).count()), (9.0, 3));
    }

    #[test]
    fn an_outlier_changes_little() {
        // The first of all, as a kernel that is compiled.
        assert!(after(1.0, &[100.0]).value() <= 4.0);
        assert_eq!(after(1.0, &[100.0, 1.1]).value(), 1.1);
        for at in 1..12 {
            for outlier in [0.01, 100.0, 1e5, f64::INFINITY] {
                let mut e = Estimate::new(Unit::NanosPerByte, 2.0);
                for i in 0..12 {
                    e.note(if i == at { outlier } else { 1.0 });
                    assert!(i == 0 || (0.99..=2.0).contains(&e.value()), "{at} {outlier} {i}: {}", e.value());
                }
                assert!((0.99..1.01).contains(&e.value()));
            }
        }
        // Two of them in a row.
        assert!(after(1.0, &[1.0, 1.0, 1.0, 1.0, 100.0, 100.0]).value() < 1.5);
    }

    #[test]
    fn a_lasting_change_is_followed() {
        let mut e = after(1.0, &[1.0; 50]);
        (0..16).for_each(|_| e.note(10.0));
        assert!((9.0..=10.0).contains(&e.value()), "{}", e.value());
        (0..24).for_each(|_| e.note(0.02));
        assert!((0.02..0.025).contains(&e.value()), "{}", e.value());
    }

    #[test]
    fn noise_does_not_matter() {
        let mut e = Estimate::new(Unit::Nanos, 5e4);
        (0..200u32).for_each(|i| e.note(1000.0 + 20.0 * f64::from(i * 7919 % 21)));
        assert!((1050.0..1350.0).contains(&e.value()), "{}", e.value());
    }

    #[test]
    fn what_no_machine_has_is_left_out_or_limited() {
        let e = after(1.0, &[0.0, -1.0, f64::NAN, f64::NEG_INFINITY]);
        assert_eq!((e.value(), e.count()), (1.0, 0));
        let e = after(1.0, &[f64::INFINITY; 400]);
        assert!(e.value() <= 1e6 && e.value() > 9e5);
        let e = after(1.0, &[f64::MIN_POSITIVE; 400]);
        assert!(e.value() >= 1e-5 && e.value() < 1.1e-5);
        assert!(![0.0, -1.0, f64::NAN, f64::INFINITY, 1e7].iter().any(|&v| Unit::NanosPerByte.admits(v)));
    }
}
