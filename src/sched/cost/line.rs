//! The time of a copy: a latency, and a time for each byte.
#![forbid(unsafe_code)]

use super::estimate::{Estimate, Nanos, Unit};
use super::key::Part;

/// Measurements that a line follows.
const HELD: usize = 16;
/// Until there are so many, the estimate before counts as two measurements, at these sizes.
const FEW: usize = 4;
const SIZES_BEFORE: [f64; 2] = [4096.0, 4_194_304.0];
/// Factors by which a measurement may change the estimate: while there are few, and later.
const MOST: [f64; 2] = [4.0, 1.5];
/// The weight with which latency and time of bytes each stay as they are. It decides where the measurements do not,
/// such as those of copies of one size.
const INERTIA: f64 = 0.02;
/// Differences from the line that weigh the same, as a part of the time. Larger ones weigh less, so that a few
/// measurements cannot pull the line away from the others.
const NOISE: f64 = 0.05;
/// Steps of the solution.
const STEPS: usize = 12;

/// A measured copy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sample {
    bytes: f64,
    ns: f64,
}

/// An estimate of the time of copies over one way: the line with the least sum of differences from the last
/// measurements, as parts of the times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    latency: f64,
    per_byte: f64,
    count: u32,
    recent: [Sample; HELD],
    held: usize,
}

impl Line {
    /// A way over which nothing has been measured.
    pub fn new(latency: f64, per_byte: f64) -> Self {
        Self {
            latency: Unit::Nanos.clamp(latency),
            per_byte: Unit::NanosPerByte.clamp(per_byte),
            count: 0,
            recent: [Sample::default(); HELD],
            held: 0,
        }
    }

    /// A figure of the line.
    pub fn part(&self, part: Part) -> Estimate {
        match part {
            Part::Latency => Estimate::kept(Unit::Nanos, self.latency, self.count),
            Part::PerByte => Estimate::kept(Unit::NanosPerByte, self.per_byte, self.count),
        }
    }

    /// Replaces a figure by one that was measured before.
    pub fn set_part(&mut self, part: Part, kept: Estimate) {
        match part {
            Part::Latency => self.latency = kept.value(),
            Part::PerByte => self.per_byte = kept.value(),
        }
        self.count = self.count.max(kept.count());
    }

    /// How often it was measured.
    pub fn count(&self) -> u32 {
        self.count
    }

    fn exact(&self, bytes: f64) -> f64 {
        self.latency + bytes * self.per_byte
    }

    /// The time of a copy.
    pub fn time(&self, bytes: usize) -> Nanos {
        self.exact(bytes as f64).round() as Nanos
    }

    /// Adds a measurement. A time of 0 says nothing.
    pub fn note(&mut self, bytes: usize, ns: Nanos) {
        if ns == 0 {
            return;
        }
        self.recent.rotate_right(1);
        self.recent[0] = Sample { bytes: bytes as f64, ns: Unit::Nanos.clamp(ns as f64) };
        self.held = HELD.min(self.held + 1);
        self.count = self.count.saturating_add(1);
        let before = *self;
        (0..STEPS).for_each(|_| self.step(&before));
        let most = MOST[usize::from(self.held > FEW)];
        let near = |new: f64, old: f64| new.clamp(old / most, old * most);
        self.latency = Unit::Nanos.clamp(near(self.latency, before.latency));
        self.per_byte = Unit::NanosPerByte.clamp(near(self.per_byte, before.per_byte));
    }

    /// Moves the line towards the least sum of differences: weighted least squares, in which a sample that is far away
    /// weighs less. The unknowns are the factors by which latency and time of bytes change.
    fn step(&mut self, before: &Self) {
        let (mut a11, mut a12, mut a22, mut r1, mut r2) = (INERTIA, 0.0, INERTIA, INERTIA, INERTIA);
        let mut add = |bytes: f64, ns: f64| {
            let expected = self.exact(bytes);
            let (latency, of_bytes) = (self.latency / expected, bytes * self.per_byte / expected);
            let measured = (ns / expected).clamp(1.0 / 16.0, 16.0);
            let weight = 1.0 / measured.ln().abs().max(NOISE);
            a11 += weight * latency * latency;
            a12 += weight * latency * of_bytes;
            a22 += weight * of_bytes * of_bytes;
            r1 += weight * latency * measured;
            r2 += weight * of_bytes * measured;
        };
        self.recent[..self.held].iter().for_each(|s| add(s.bytes, s.ns));
        if self.held < FEW {
            SIZES_BEFORE.iter().for_each(|&bytes| add(bytes, before.exact(bytes)));
        }
        let determinant = a11 * a22 - a12 * a12;
        let limit = |factor: f64| if factor.is_nan() { 1.0 } else { factor.clamp(0.25, 4.0) };
        let mut latency = limit((r1 * a22 - r2 * a12) / determinant);
        let of_bytes = limit((r2 - a12 * latency) / a22);
        latency = limit((r1 - a12 * of_bytes) / a11);
        self.latency = Unit::Nanos.clamp(self.latency * latency);
        self.per_byte = Unit::NanosPerByte.clamp(self.per_byte * of_bytes);
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
            // Larger copies than those that were measured, if the time of bytes was more than the latency.
            let larger = if per_byte * f64::from(4 << 20) > latency { 64 << 20 } else { 4 << 20 };
            for bytes in [100, 4 << 10, 64 << 10, 1 << 20, 4 << 20, larger] {
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
        assert!(Part::ALL.iter().all(|&p| line.part(p).unit().admits(line.part(p).value())));
        assert!(line.time(usize::MAX) > 0);
    }

    #[test]
    fn an_outlier_changes_little() {
        for (bytes, factor) in [(4096, 100), (4 << 20, 100), (64, 10_000), (64 << 20, 1000)] {
            let mut line = Line::new(15e3, 0.083);
            // The first copy of all, as one for which a driver allocates memory.
            line.note(bytes, factor * line.time(bytes));
            assert!(line.time(bytes) <= 4 * time(15e3, 0.083, bytes) + 9, "{bytes}");
            for i in 0..40 {
                let bytes = [4096, 4 << 20, 300 << 10][i % 3];
                line.note(bytes, time(15e3, 0.083, bytes));
            }
            let is_near =
                |line: &Line| [4096, 1 << 20, 4 << 20].map(|b| line.time(b) as f64 / time(15e3, 0.083, b) as f64);
            assert!(is_near(&line).iter().all(|r| (0.95..1.05).contains(r)), "{:?}", is_near(&line));
            for (slow, quick) in [(factor, 1), (1, factor)] {
                line.note(bytes, slow * time(15e3, 0.083, bytes) / quick);
                assert!(is_near(&line).iter().all(|r| (0.8..1.25).contains(r)), "{bytes} {:?}", is_near(&line));
            }
        }
    }

    #[test]
    fn a_lasting_change_is_followed() {
        let mut line = Line::new(15e3, 0.083);
        for (latency, per_byte) in [(5e3, 0.04), (5e4, 0.4), (1e3, 0.02), (1e5, 8.0)] {
            for i in 0..40 {
                let bytes = [64 << 10, 4 << 20, 4096, 1 << 20][i % 4];
                line.note(bytes, time(latency, per_byte, bytes));
            }
            for bytes in [4096, 1 << 20, 16 << 20] {
                let ratio = line.time(bytes) as f64 / time(latency, per_byte, bytes) as f64;
                assert!((0.8..1.25).contains(&ratio), "{latency} {per_byte}: {bytes} bytes {ratio}");
            }
        }
    }

    #[test]
    fn parts_are_kept() {
        let mut line = Line::new(15e3, 0.083);
        (0..9).for_each(|i| line.note([4096, 4 << 20][i % 2], time(7e3, 0.05, [4096, 4 << 20][i % 2])));
        let mut other = Line::new(1.0, 1.0);
        Part::ALL.into_iter().for_each(|part| other.set_part(part, line.part(part)));
        assert_eq!((other.time(1 << 20), other.count()), (line.time(1 << 20), 9));
    }
}
