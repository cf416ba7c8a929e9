//! Locks that ignore poisoning.
//!
//! The data behind a lock of this library is consistent after every statement, so a panic while the lock is held does not corrupt it.
//! A host that continues after an error must be able to use the library.
#![forbid(unsafe_code)]

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks `m`, even if it is poisoned.
#[inline]
pub fn lock<T: ?Sized>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // For ThreadSanitizer (scripts/tsan.sh): what a thread does that waits for a lock is in the standard library, which is not built with it.
    #[cfg(ggml_tsan)]
    loop {
        match m.try_lock() {
            Ok(guard) => return guard,
            Err(std::sync::TryLockError::Poisoned(e)) => return e.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    #[cfg(not(ggml_tsan))]
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks `l` for reading, even if it is poisoned.
#[inline]
pub fn read<T: ?Sized>(l: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    l.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks `l` for writing, even if it is poisoned.
#[inline]
pub fn write<T: ?Sized>(l: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    l.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for `c`, even if the lock is poisoned. Like every wait, it may wake spuriously.
#[inline]
pub fn wait<'a, T>(c: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    c.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_outlives_a_panic() {
        let m = Mutex::new(1);
        let l = RwLock::new(2);
        let thread = std::thread::scope(|s| {
            s.spawn(|| {
                let _held = (lock(&m), write(&l));
                panic!("on purpose");
            })
            .join()
        });
        assert!(thread.is_err() && m.is_poisoned() && l.is_poisoned());
        *lock(&m) += 1;
        *write(&l) += 1;
        assert_eq!((*lock(&m), *read(&l)), (2, 3));
    }
}
