//! The time of a copy: a latency, and a time for each byte.
#![forbid(unsafe_code)]

use super::estimate::{Estimate, Nanos, Unit};

/// A share of a measured time that the latency, or the bytes, have at least.
const LEAST_SHARE: f64 = 1.0 / 16.0;

/// An estimate of the time of copies over one way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// The time of a copy of nothing.
    pub latency: Estimate,
    /// The additional time of each byte.
    pub per_byte: Estimate,
}

impl Line {
    /// A way over which nothing has been measured.
    pub fn new(latency: f64, per_byte: f64) -> Self {
        Self { latency: Estimate::new(Unit::Nanos, latency), per_byte: Estimate::new(Unit::NanosPerByte, per_byte) }
    }

    fn of_bytes(&self, bytes: usize) -> f64 {
        bytes as f64 * self.per_byte.value()
    }

    /// The time of a copy.
    pub fn time(&self, bytes: usize) -> Nanos {
        (self.latency.value() + self.of_bytes(bytes)).round() as Nanos
    }

    /// Adds a measurement. It corrects the larger part of the estimate: the latency by small copies, the time of bytes
    /// by large ones.
    pub fn note(&mut self, bytes: usize, ns: Nanos) {
        let (measured, of_bytes, latency) = (ns as f64, self.of_bytes(bytes), self.latency.value());
        if latency >= of_bytes {
            self.latency.note((measured - of_bytes).max(LEAST_SHARE * measured));
        } else {
            self.per_byte.note((measured - latency).max(LEAST_SHARE * measured) / bytes as f64);
        }
    }

    /// Replaces the estimate by the line through two measurements, each of which is the median of `count`. `large` has
    /// more bytes than `small`.
    pub fn set(&mut self, small: (usize, f64), large: (usize, f64), count: u32) {
        let of_bytes = (large.1 - small.1).max(LEAST_SHARE * large.1);
        let per_byte = of_bytes / large.0.saturating_sub(small.0).max(1) as f64;
        self.per_byte = Estimate::kept(Unit::NanosPerByte, per_byte, count);
        self.set_latency(small, count);
    }

    /// Replaces the latency: `small` is the time of a small copy.
    pub fn set_latency(&mut self, small: (usize, f64), count: u32) {
        let latency = (small.1 - self.of_bytes(small.0)).max(LEAST_SHARE * small.1);
        self.latency = Estimate::kept(Unit::Nanos, latency, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(latency: f64, per_byte: f64, bytes: usize) -> Nanos {
        (latency + per_byte * bytes as f64) as Nanos
    }

    #[test]
    fn a_line_follows_copies_of_all_sizes() {
        // PCIe of several generations, host memory, a network, and something slow.
        for (latency, per_byte) in [(5e3, 0.04), (4e4, 0.3), (200.0, 0.05), (5e5, 8.0), (1e6, 0.01), (2e3, 1e3)] {
            let mut line = Line::new(15e3, 0.083);
            for i in 0..200usize {
                let bytes = [4 << 10, 4 << 20, 100, 64 << 10, 1 << 20][i % 5];
                line.note(bytes, time(latency, per_byte, bytes));
            }
            for bytes in [100, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 64 << 20] {
                let (is, should) = (line.time(bytes) as f64, time(latency, per_byte, bytes) as f64);
                assert!((0.7..1.5).contains(&(is / should)), "{latency} {per_byte}: {bytes} bytes {is}, not {should}");
            }
        }
    }

    #[test]
    fn copies_of_one_size_suffice_for_that_size() {
        for bytes in [1, 4096, 1 << 20] {
            let mut line = Line::new(15e3, 0.083);
            (0..40).for_each(|_| line.note(bytes, 3_000_000));
            let is = line.time(bytes);
            assert!((2_900_000..3_100_000).contains(&is), "{bytes}: {is}");
        }
    }

    #[test]
    fn nonsense_leaves_a_line_as_it_is() {
        let mut line = Line::new(15e3, 0.083);
        let before = line;
        line.note(0, 0);
        line.note(1 << 20, 0);
        assert_eq!(line, before);
        for _ in 0..100 {
            line.note(usize::MAX, Nanos::MAX);
            line.note(usize::MAX, 1);
            line.note(0, Nanos::MAX);
            line.note(0, 1);
        }
        assert!(Unit::Nanos.admits(line.latency.value()) && Unit::NanosPerByte.admits(line.per_byte.value()));
        assert!(line.time(usize::MAX) > 0);
    }

    #[test]
    fn two_points_make_a_line() {
        let mut line = Line::new(15e3, 0.083);
        line.set((4096, 10_000.0), (4 << 20, 430_000.0), 3);
        assert!((line.per_byte.value() - 0.1002).abs() < 1e-3 && (line.latency.value() - 9589.0).abs() < 5.0);
        assert_eq!((line.latency.count(), line.per_byte.count()), (3, 3));
        // The large copy was not slower.
        line.set((4096, 10_000.0), (4 << 20, 9_000.0), 3);
        assert!(line.per_byte.value() > 0.0 && line.latency.value() > 9_000.0);
    }
}
