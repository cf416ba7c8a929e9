//! Clocks.

use std::time::Duration;

/// Nanoseconds of a monotonic clock. On Unix it is `CLOCK_MONOTONIC`, because graphics drivers can relate their clocks to it;
/// elsewhere it starts at the first call.
pub fn monotonic_ns() -> u64 {
    #[cfg(unix)]
    let since = read(libc::CLOCK_MONOTONIC);
    #[cfg(not(unix))]
    let since = {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed()
    };
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Microseconds of the clock of [`monotonic_ns`].
pub fn monotonic_us() -> i64 {
    i64::try_from(monotonic_ns() / 1_000).unwrap_or(i64::MAX)
}

/// Processor time of the process on Unix; elsewhere the result of C's `clock`, which is the time since the start of the process on
/// Windows.
pub fn process_time() -> Duration {
    #[cfg(unix)]
    {
        read(libc::CLOCK_PROCESS_CPUTIME_ID)
    }
    #[cfg(not(unix))]
    {
        // SAFETY: `clock` takes no arguments and has no preconditions.
        let milliseconds = unsafe { libc::clock() };
        Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
    }
}

#[cfg(unix)]
fn read(clock: libc::clockid_t) -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is writable. If the clock fails, `t` stays zero.
    unsafe { libc::clock_gettime(clock, &raw mut t) };
    Duration::new(u64::try_from(t.tv_sec).unwrap_or(0), u32::try_from(t.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward_in_their_units() {
        let (ns, us, process) = (monotonic_ns(), monotonic_us(), process_time());
        std::thread::sleep(Duration::from_millis(2));
        assert!(monotonic_ns() >= ns + 2_000_000 && monotonic_us() >= us + 2_000);
        assert!(process_time() >= process && us.abs_diff(i64::try_from(ns / 1_000).unwrap()) < 60_000_000);
    }
}
