//! The time of a copy, by its size.
#![forbid(unsafe_code)]

use super::estimate::{Estimate, Nanos, Unit};
use super::key::Size;

/// An estimate of the time of copies over one way. It begins as a line, of a latency and a time for each byte. Around
/// some sizes it then follows what is measured there, and between them its ratio to the line changes steadily. Sizes
/// without measurements have the ratio of the nearest one that has some.
///
/// A line through all measurements would need fewer figures, but a single outlier turns it if its size is seldom
/// copied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    latency: f64,
    per_byte: f64,
    sizes: [Estimate; Size::ALL.len()],
}

impl Curve {
    /// A way over which nothing has been measured.
    pub fn new(latency: f64, per_byte: f64) -> Self {
        let line = |size: Size| Estimate::new(Unit::Nanos, latency + per_byte * size.bytes());
        Self { latency, per_byte, sizes: Size::ALL.map(line) }
    }

    /// The way from one device to another, through host memory. Nothing has been measured on it as a whole.
    pub fn sum(&self, other: &Self) -> Self {
        let mut sum = Self::new(self.latency + other.latency, self.per_byte + other.per_byte);
        for size in Size::ALL {
            let ns = self.exact(size.bytes()) + other.exact(size.bytes());
            sum.sizes[size as usize] =
                Estimate::kept(Unit::Nanos, ns, self.at(size).count().min(other.at(size).count()));
        }
        sum
    }

    fn line(&self, bytes: f64) -> f64 {
        self.latency + self.per_byte * bytes
    }

    /// The logarithm of the ratio to the line around a size.
    fn ratio(&self, size: Size) -> f64 {
        let measured = |s: &&Size| self.sizes[**s as usize].count() > 0;
        let nearest = Size::ALL.iter().filter(measured).min_by_key(|s| (size as usize).abs_diff(**s as usize));
        nearest.map_or(0.0, |s| (self.sizes[*s as usize].value() / self.line(s.bytes())).ln())
    }

    fn exact(&self, bytes: f64) -> f64 {
        let place = Size::place(bytes);
        let (low, share) = (place.floor(), place.fract());
        let [low, high] = [low, low + 1.0].map(|i| Size::ALL[(i as usize).min(Size::ALL.len() - 1)]);
        self.line(bytes) * (self.ratio(low) * (1.0 - share) + self.ratio(high) * share).exp()
    }

    /// The time of a copy.
    pub fn time(&self, bytes: usize) -> Nanos {
        self.exact(bytes as f64).round() as Nanos
    }

    /// The time of copies of a size. If none was measured, it follows from the others.
    pub fn at(&self, size: Size) -> Estimate {
        match self.sizes[size as usize] {
            measured if measured.count() > 0 => measured,
            _ => Estimate::new(Unit::Nanos, self.exact(size.bytes())),
        }
    }

    /// Replaces the time of copies of a size.
    pub fn set(&mut self, size: Size, estimate: Estimate) {
        self.sizes[size as usize] = estimate;
    }

    /// How often it was measured.
    pub fn count(&self) -> u32 {
        self.sizes.iter().fold(0, |n, e| n.saturating_add(e.count()))
    }

    /// The time of a copy of the nearest size that follows from one.
    fn nearest(&self, bytes: usize, ns: Nanos) -> (Size, f64) {
        let bytes = bytes as f64;
        let size = Size::ALL[Size::place(bytes).round() as usize];
        (size, ns as f64 * self.line(size.bytes()) / self.line(bytes))
    }

    /// Adds a measurement. A time of 0 says nothing.
    pub fn note(&mut self, bytes: usize, ns: Nanos) {
        let (size, ns) = self.nearest(bytes, ns);
        let mut estimate = self.at(size);
        estimate.note(ns);
        if estimate.count() > 0 {
            self.set(size, estimate);
        }
    }

    /// Replaces the time of copies of a size by one that was measured `count` times.
    pub fn measure(&mut self, bytes: usize, ns: Nanos, count: u32) {
        let (size, ns) = self.nearest(bytes, ns);
        self.set(size, Estimate::kept(Unit::Nanos, ns, count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 7] = [0, 100, 4 << 10, 100 << 10, 1 << 20, 3 << 20, 64 << 20];

    fn time(latency: f64, per_byte: f64, bytes: usize) -> Nanos {
        (latency + per_byte * bytes as f64) as Nanos
    }

    fn ratio(curve: &Curve, latency: f64, per_byte: f64, bytes: usize) -> f64 {
        curve.time(bytes) as f64 / time(latency, per_byte, bytes) as f64
    }

    #[test]
    fn a_curve_begins_as_a_line() {
        let curve = Curve::new(15e3, 0.083);
        assert!(SIZES.iter().all(|&bytes| curve.time(bytes).abs_diff(time(15e3, 0.083, bytes)) <= 1));
        assert_eq!(curve.count(), 0);
        let sum = curve.sum(&curve);
        assert!(SIZES.iter().all(|&bytes| sum.time(bytes).abs_diff(2 * curve.time(bytes)) <= 2) && sum.count() == 0);
    }

    #[test]
    fn it_follows_copies_of_all_sizes() {
        // PCIe of several generations, host memory, a network, and something slow.
        for (latency, per_byte) in [(5e3, 0.04), (4e4, 0.3), (200.0, 0.05), (5e5, 8.0), (1e6, 0.01), (2e3, 2.0)] {
            let mut curve = Curve::new(15e3, 0.083);
            for i in 0..200 {
                let bytes = SIZES[i % SIZES.len()];
                curve.note(bytes, time(latency, per_byte, bytes));
            }
            for bytes in SIZES.into_iter().chain([20 << 10, 512 << 10, 20 << 20, 200 << 20]) {
                let ratio = ratio(&curve, latency, per_byte, bytes);
                assert!((0.4..2.5).contains(&ratio), "{latency} {per_byte}: {bytes} bytes {ratio}");
            }
        }
    }

    #[test]
    fn copies_of_one_size_suffice_for_that_size() {
        for bytes in [1, 4096, 1 << 20, usize::MAX >> 20] {
            let mut curve = Curve::new(15e3, 0.083);
            (0..3).for_each(|_| curve.note(bytes, 3_000_000));
            assert!((2_999_990..=3_000_010).contains(&curve.time(bytes)), "{bytes}: {}", curve.time(bytes));
        }
    }

    #[test]
    fn an_outlier_changes_little() {
        for (bytes, factor) in [(4096, 100), (4 << 20, 100), (64, 10_000), (64 << 20, 100)] {
            let mut curve = Curve::new(15e3, 0.083);
            // The first copy of all, as one for which a driver allocates memory.
            curve.note(bytes, factor * curve.time(bytes));
            assert!(curve.time(bytes) <= 4 * time(15e3, 0.083, bytes) + 9, "{bytes}");
            for i in 0..70 {
                let bytes = SIZES[i % SIZES.len()];
                curve.note(bytes, time(15e3, 0.083, bytes));
            }
            let is_near = |curve: &Curve| SIZES.iter().all(|&b| (0.98..1.02).contains(&ratio(curve, 15e3, 0.083, b)));
            assert!(is_near(&curve));
            for (slow, quick) in [(factor, 1), (1, factor)] {
                curve.note(bytes, slow * time(15e3, 0.083, bytes) / quick);
                assert!(is_near(&curve), "{bytes} {slow} {quick}");
                curve.note(bytes, time(15e3, 0.083, bytes));
            }
        }
    }

    #[test]
    fn a_lasting_change_is_followed() {
        let mut curve = Curve::new(15e3, 0.083);
        for (latency, per_byte) in [(5e3, 0.04), (5e4, 0.4), (1e3, 0.02), (1e5, 8.0)] {
            for i in 0..100 {
                let bytes = [64 << 10, 4096, 1 << 20, 16 << 20][i % 4];
                curve.note(bytes, time(latency, per_byte, bytes));
            }
            for bytes in [4096, 100 << 10, 1 << 20, 8 << 20] {
                let ratio = ratio(&curve, latency, per_byte, bytes);
                assert!((0.7..1.4).contains(&ratio), "{latency} {per_byte}: {bytes} bytes {ratio}");
            }
        }
    }

    #[test]
    fn nonsense_leaves_a_curve_as_it_is() {
        let mut curve = Curve::new(15e3, 0.083);
        let before = curve;
        curve.note(0, 0);
        curve.note(1 << 20, 0);
        assert_eq!(curve, before);
        for _ in 0..100 {
            curve.note(usize::MAX, Nanos::MAX);
            curve.note(usize::MAX, 1);
            curve.note(0, Nanos::MAX);
            curve.note(0, 1);
        }
        assert!(Size::ALL.iter().all(|&s| Unit::Nanos.admits(curve.at(s).value())) && curve.time(usize::MAX) > 0);
    }

    #[test]
    fn measured_sizes_replace_the_line() {
        let mut curve = Curve::new(15e3, 0.083);
        curve.measure(4096, 5_000_000, 3);
        assert!(curve.time(4096).abs_diff(5_000_000) < 9 && curve.count() == 3);
        curve.measure(4 << 20, 40_000_000, 3);
        curve.measure(1 << 20, 14_000_000, 3);
        assert!(curve.time(1 << 20).abs_diff(14_000_000) < 9, "{}", curve.time(1 << 20));
        assert!((30_000_000..60_000_000).contains(&curve.time(4 << 20)));
    }
}
