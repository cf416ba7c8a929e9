//! Waits for a number in memory to change. On Linux this takes no lock, so that a fork, or a thread that ends, leaves
//! nothing locked.

use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// Where threads wait for any word.
#[cfg(not(target_os = "linux"))]
static PARKED: (std::sync::Mutex<()>, std::sync::Condvar) = (std::sync::Mutex::new(()), std::sync::Condvar::new());

/// Returns when `word` has another value than `expected`, after `longest`, or for no reason. The caller looks again.
pub fn wait(word: &AtomicU32, expected: u32, longest: Option<Duration>) {
    #[cfg(target_os = "linux")]
    {
        let limit = longest
            .map(|l| libc::timespec { tv_sec: l.as_secs() as libc::time_t, tv_nsec: l.subsec_nanos() as libc::c_long });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the system reads the word and the limit during the call only.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, limit) };
    }
    #[cfg(not(target_os = "linux"))]
    {
        let guard = super::sync::lock(&PARKED.0);
        if word.load(std::sync::atomic::Ordering::SeqCst) == expected {
            drop(PARKED.1.wait_timeout(guard, longest.unwrap_or(Duration::from_secs(1))));
        }
    }
}

/// Wakes `n` of the threads that wait for `word`.
pub fn wake(word: &AtomicU32, n: u32) {
    #[cfg(target_os = "linux")]
    {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the system uses the address only to find threads.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, n.min(i32::MAX as u32)) };
    }
    #[cfg(not(target_os = "linux"))]
    {
        // All threads wait at one place: those of other words look again.
        let _ = (word, n);
        drop(super::sync::lock(&PARKED.0));
        PARKED.1.notify_all();
    }
}

/// Spins until `done` returns true, or for about `longest`; whether it has returned true.
#[inline]
pub fn spin(longest: Duration, mut done: impl FnMut() -> bool) -> bool {
    /// Rounds between two readings of the clock: one or two microseconds.
    const ROUNDS: u32 = 64;
    let mut begun = None;
    loop {
        for _ in 0..ROUNDS {
            if done() {
                return true;
            }
            std::hint::spin_loop();
        }
        let now = Instant::now();
        if now - *begun.get_or_insert(now) >= longest {
            return done();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_wait_ends_by_a_wake_by_another_value_or_by_its_limit() {
        let word = AtomicU32::new(0);
        let begun = Instant::now();
        wait(&word, 1, None);
        wait(&word, 0, Some(Duration::from_millis(5)));
        assert!(begun.elapsed() < Duration::from_secs(5));
        std::thread::scope(|s| {
            s.spawn(|| {
                while word.load(Ordering::SeqCst) == 0 {
                    wait(&word, 0, None);
                }
            });
            std::thread::sleep(Duration::from_millis(20));
            word.store(1, Ordering::SeqCst);
            wake(&word, u32::MAX);
        });
    }
}
