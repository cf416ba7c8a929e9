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
/// copy, and copies follow each other. `head`: the time until the first copy can begin, and what the device needs
/// besides. The least number of copies that is best.
pub fn balance(misses: usize, head: Nanos, cpu: Nanos, copy: Nanos, device: Nanos) -> usize {
    let (n, head, cpu, device) =
        (misses as u128, u128::from(head), u128::from(cpu), u128::from(copy) + u128::from(device));
    let on_device = |copied: u128| if copied == 0 { 0 } else { copied.saturating_mul(device).saturating_add(head) };
    let time = |copied: u128| (n - copied).saturating_mul(cpu).max(on_device(copied));
    if cpu == 0 {
        return 0;
    }
    // The CPU's time falls and the device's rises with each copy. The best is the last copy with which the CPU needs
    // longer, or the next one, or none at all.
    let last = n.saturating_mul(cpu).saturating_sub(head) / (cpu + device);
    let candidates = [0, last.min(n), (last + 1).min(n)];
    candidates.into_iter().min_by_key(|&copied| (time(copied), copied)).unwrap_or(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same as [`balance`], by trying all numbers.
    fn tried(misses: usize, head: Nanos, cpu: Nanos, copy: Nanos, device: Nanos) -> usize {
        let (head, cpu, device) = (u128::from(head), u128::from(cpu), u128::from(copy) + u128::from(device));
        let time = |n: usize| ((misses - n) as u128 * cpu).max(n as u128 * device + if n > 0 { head } else { 0 });
        (0..=misses).min_by_key(|&n| (time(n), n)).unwrap()
    }

    #[test]
    fn balance_is_the_best_number() {
        let times = [0, 1, 2, 3, 7, 10, 99, 100, 101, 1000, 123_457];
        for misses in [0, 1, 2, 3, 5, 8, 31, 128] {
            for cpu in times {
                for copy in times {
                    for device in times {
                        for head in [0, 1, 50, 200, 10_000] {
                            let is = balance(misses, head, cpu, copy, device);
                            let best = tried(misses, head, cpu, copy, device);
                            assert_eq!(is, best, "{misses} misses, {head} {cpu} {copy} {device}");
                        }
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
                    for head in [0, Nanos::MAX] {
                        let (is, best) = (balance(9, head, cpu, copy, device), tried(9, head, cpu, copy, device));
                        assert_eq!(is, best, "{head} {cpu} {copy} {device}");
                    }
                }
            }
        }
        assert!(balance(usize::MAX, 0, Nanos::MAX, Nanos::MAX, Nanos::MAX) < usize::MAX / 2);
        assert_eq!(balance(usize::MAX, 0, 1, 0, 0), usize::MAX);
    }
}
