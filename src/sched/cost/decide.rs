//! Choices by cost, as functions of times alone.
#![forbid(unsafe_code)]

use super::estimate::Nanos;

/// A side of the choice between the CPU and a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The CPU, which reads the weights where they are.
    Cpu,
    /// The device, which needs a copy of them.
    Device,
}

/// Of `misses` experts that the device does not have, how many to copy there, so that all are done first if the CPU
/// computes the others at the same time. The times are those of one expert; the device computes an expert after its
/// copy, and copies follow each other. The least number of copies that is best.
pub fn balance(misses: usize, cpu: Nanos, copy: Nanos, device: Nanos) -> usize {
    let (n, cpu, device) = (misses as u128, u128::from(cpu), u128::from(copy) + u128::from(device));
    let time = |copied: u128| (n - copied).saturating_mul(cpu).max(copied.saturating_mul(device));
    if cpu == 0 {
        return 0;
    }
    // The CPU's time falls and the device's rises with each copy. The best is the last copy with which the CPU needs
    // longer, or the next one.
    let last = n.saturating_mul(cpu) / (cpu + device);
    let copied = if last < n && time(last + 1) < time(last) { last + 1 } else { last };
    copied as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same as [`balance`], by trying all numbers.
    fn tried(misses: usize, cpu: Nanos, copy: Nanos, device: Nanos) -> usize {
        let (cpu, device) = (u128::from(cpu), u128::from(copy) + u128::from(device));
        let time = |n: usize| ((misses - n) as u128 * cpu).max(n as u128 * device);
        (0..=misses).min_by_key(|&n| (time(n), n)).unwrap()
    }

    #[test]
    fn balance_is_the_best_number() {
        let times = [0, 1, 2, 3, 7, 10, 99, 100, 101, 1000, 123_457];
        for misses in [0, 1, 2, 3, 5, 8, 31, 128] {
            for cpu in times {
                for copy in times {
                    for device in times {
                        let (is, best) = (balance(misses, cpu, copy, device), tried(misses, cpu, copy, device));
                        assert_eq!(is, best, "{misses} misses, {cpu} {copy} {device}");
                    }
                }
            }
        }
    }

    #[test]
    fn balance_of_extreme_times() {
        for cpu in [0, 1, 1 << 40, Nanos::MAX] {
            for copy in [0, 1, 1 << 40, Nanos::MAX] {
                for device in [0, 1, Nanos::MAX] {
                    assert_eq!(balance(9, cpu, copy, device), tried(9, cpu, copy, device), "{cpu} {copy} {device}");
                }
            }
        }
        assert!(balance(usize::MAX, Nanos::MAX, Nanos::MAX, Nanos::MAX) < usize::MAX / 2);
        assert_eq!(balance(usize::MAX, 1, 0, 0), usize::MAX);
    }
}
