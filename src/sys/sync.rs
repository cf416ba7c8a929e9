//! Locks that outlive a panic.
//!
//! What a lock of this library guards is whole after every statement, so a thread that panicked while it held one leaves
//! nothing half done; and a host that goes on after an error must not meet a poisoned lock in every later call.
#![forbid(unsafe_code)]

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Takes `m`, also after a panic.
#[inline]
pub fn lock<T: ?Sized>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes `l` for reading, also after a panic.
#[inline]
pub fn read<T: ?Sized>(l: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    l.read().unwrap_or_else(PoisonError::into_inner)
}

/// Takes `l` for writing, also after a panic.
#[inline]
pub fn write<T: ?Sized>(l: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    l.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `c` is notified (or wakes for no reason), also after a panic.
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
