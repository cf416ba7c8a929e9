//! Waits for a number in memory to change. On Linux this takes no lock, so that a fork, or a thread that ends, leaves
//! nothing locked. Elsewhere there are lists of threads (`parked`), whose locks no fork leaves held.

use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// For systems without a call for it that every version has: macOS has one since 14.4.
#[cfg(any(not(linux_kernel), test))]
mod parked {
    use crate::sys::sync::brief;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread::{self, Thread};
    use std::time::Duration;

    /// The address of a word, and a thread that waits for it.
    type Waiting = (usize, Thread);
    const LISTS: usize = 64;
    static WAITING: [Mutex<Vec<Waiting>>; LISTS] = [const { Mutex::new(Vec::new()) }; LISTS];

    fn list(word: &AtomicU32) -> (usize, &'static Mutex<Vec<Waiting>>) {
        let address = word.as_ptr().addr();
        // Words are in cache lines of their own.
        (address, &WAITING[address / 64 % LISTS])
    }

    pub fn wait(word: &AtomicU32, expected: u32, longest: Option<Duration>) {
        let (address, list) = list(word);
        let own = thread::current();
        let id = own.id();
        let mut waiting = brief(list);
        if word.load(Ordering::SeqCst) != expected {
            return;
        }
        waiting.push((address, own));
        drop(waiting);
        match longest {
            Some(longest) => thread::park_timeout(longest),
            None => thread::park(),
        }
        brief(list).retain(|(at, thread)| *at != address || thread.id() != id);
    }

    pub fn wake(word: &AtomicU32, n: u32) {
        let (address, list) = list(word);
        let mut left = n;
        brief(list).retain(|(at, thread)| {
            let is_woken = *at == address && left > 0;
            if is_woken {
                left -= 1;
                thread.unpark();
            }
            !is_woken
        });
    }
}

/// Returns when `word` has another value than `expected`, after `longest`, or for no reason. The caller looks again.
pub fn wait(word: &AtomicU32, expected: u32, longest: Option<Duration>) {
    #[cfg(linux_kernel)]
    {
        let limit = longest
            .map(|l| libc::timespec { tv_sec: l.as_secs() as libc::time_t, tv_nsec: l.subsec_nanos() as libc::c_long });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the system reads the word and the limit during the call only.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, limit) };
    }
    #[cfg(not(linux_kernel))]
    parked::wait(word, expected, longest);
}

/// Wakes `n` of the threads that wait for `word`.
pub fn wake(word: &AtomicU32, n: u32) {
    #[cfg(linux_kernel)]
    {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the system uses the address only to find threads.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, n.min(i32::MAX as u32)) };
    }
    #[cfg(not(linux_kernel))]
    parked::wake(word, n);
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

    type Wait = fn(&AtomicU32, u32, Option<Duration>);
    type Wake = fn(&AtomicU32, u32);
    /// That of this system, and that of systems without one.
    const BOTH: [(Wait, Wake); 2] = [(wait, wake), (parked::wait, parked::wake)];

    #[test]
    fn as_many_threads_are_woken_as_requested() {
        const THREADS: u32 = 8;
        for (wait, wake) in BOTH {
            let (word, woken) = (AtomicU32::new(0), AtomicU32::new(0));
            std::thread::scope(|s| {
                for _ in 0..THREADS {
                    s.spawn(|| {
                        wait(&word, 0, None);
                        woken.fetch_add(1, Ordering::SeqCst);
                    });
                }
                let begun = Instant::now();
                // A wake before all threads wait wakes fewer.
                while woken.load(Ordering::SeqCst) < 3 && begun.elapsed() < Duration::from_secs(20) {
                    std::thread::sleep(Duration::from_millis(50));
                    let before = woken.load(Ordering::SeqCst);
                    wake(&word, 1);
                    std::thread::sleep(Duration::from_millis(20));
                    assert!(woken.load(Ordering::SeqCst) <= before + 1);
                }
                while woken.load(Ordering::SeqCst) < THREADS && begun.elapsed() < Duration::from_secs(20) {
                    wake(&word, u32::MAX);
                    std::thread::yield_now();
                }
            });
            assert_eq!(woken.load(Ordering::SeqCst), THREADS);
        }
    }

    #[test]
    fn a_wait_ends_by_a_wake_by_another_value_or_by_its_limit() {
        for (wait, wake) in BOTH {
            ends(wait, wake);
        }
    }

    fn ends(wait: Wait, wake: Wake) {
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
