//! Clocks.

use std::time::Duration;

/// Nanoseconds of a monotonic clock. On Unix it is `CLOCK_MONOTONIC`, because graphics drivers can relate their clocks
/// to it; elsewhere it starts at the first call.
pub fn monotonic_ns() -> u64 {
    #[cfg(unix)]
    let since = read(libc::CLOCK_MONOTONIC);
    #[cfg(not(unix))]
    let since = {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        crate::sys::sync::once(&START, std::time::Instant::now).elapsed()
    };
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Microseconds of the clock of [`monotonic_ns`].
pub fn monotonic_us() -> i64 {
    i64::try_from(monotonic_ns() / 1_000).unwrap_or(i64::MAX)
}

/// Processor time of the process on Unix; elsewhere the result of C's `clock`, which is the time since the start of the
/// process on Windows.
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

/// The current date and time in UTC, as 2026-02-28T23:59:59Z.
pub fn utc() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    shown(now.as_secs())
}

/// A number of seconds since 1970 as date and time.
fn shown(seconds: u64) -> String {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March, so that the leap day is the last of a year; 146097 days are 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + next;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", time / 3600, time / 60 % 60, time % 60)
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

    #[test]
    fn dates() {
        assert_eq!(super::shown(0), "1970-01-01T00:00:00Z");
        assert_eq!(super::shown(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(super::shown(951_868_799), "2000-02-29T23:59:59Z");
        assert_eq!(super::shown(1_767_225_600), "2026-01-01T00:00:00Z");
        assert_eq!(super::shown(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
