//! Locks that may be held for long, such as during a computation. A fork does not wait for them (`fork`).

use super::fork::generation;
use super::sync::{brief, lock};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// A lock that may be held for long. A child that a fork made finds it free, with the value that it had, or with a
/// default value if another thread held it.
pub struct Lasting<T> {
    /// What this process uses, or an ancestor of it; NULL before the first use.
    current: AtomicPtr<OfProcess<T>>,
}

struct OfProcess<T> {
    generation: u32,
    lock: Mutex<T>,
    /// That of an ancestor. The thread that made the fork may be inside of it.
    older: *mut Self,
}

// SAFETY: the pointers are to boxes that belong to this object, and give access to a `Mutex<T>` only.
unsafe impl<T: Send> Send for Lasting<T> {}
// SAFETY: shared, it gives a shared `Mutex<T>` only, which threads may share if `T` may move between them.
unsafe impl<T: Send> Sync for Lasting<T> {}

impl<T: Default> Default for Lasting<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Default> Lasting<T> {
    /// A lock over a default value.
    pub const fn new() -> Self {
        Self { current: AtomicPtr::new(null_mut()) }
    }

    /// Locks it. In this process, another thread that holds it is waited for.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        lock(self.of_process())
    }

    /// What [`Self::current`] points to.
    fn current(&self) -> Option<&OfProcess<T>> {
        // SAFETY: NULL, or a box that `renew` has made and that only `drop` frees. It is written before it is stored
        // (Release), and afterwards only inside of its lock.
        unsafe { self.current.load(Ordering::Acquire).as_ref() }
    }

    fn of_process(&self) -> &Mutex<T> {
        match self.current() {
            Some(current) if current.generation == generation() => &current.lock,
            _ => self.renew(),
        }
    }

    /// Like [`Self::lock`], but `None` if it is held.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.of_process().try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[cold]
    fn renew(&self) -> &Mutex<T> {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = brief(&ONE);
        let older = self.current();
        if let Some(other) = older.filter(|o| o.generation == generation()) {
            return &other.lock;
        }
        let value = match older.map(|o| o.lock.try_lock()) {
            Some(Ok(mut value)) => std::mem::take(&mut *value),
            Some(Err(TryLockError::Poisoned(e))) => std::mem::take(&mut *e.into_inner()),
            Some(Err(TryLockError::WouldBlock)) | None => T::default(),
        };
        let older = self.current.load(Ordering::Relaxed);
        let made = Box::new(OfProcess { generation: generation(), lock: Mutex::new(value), older });
        self.current.store(Box::into_raw(made), Ordering::Release);
        match self.current() {
            Some(made) => &made.lock,
            None => unreachable!("a box is never NULL"),
        }
    }
}

impl<T> Drop for Lasting<T> {
    fn drop(&mut self) {
        let mut next = *self.current.get_mut();
        while !next.is_null() {
            // SAFETY: a box of this object, which is visited once.
            let of = unsafe { Box::from_raw(next) };
            next = of.older;
            if of.generation != generation() && of.lock.try_lock().is_err_and(|e| matches!(e, TryLockError::WouldBlock))
            {
                // A thread that this process does not have was changing the value.
                std::mem::forget(of);
            } else {
                drop(of.lock.into_inner().unwrap_or_else(PoisonError::into_inner));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_lock_is_a_lock() {
        let count = Lasting::<usize>::new();
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..1000).for_each(|_| *count.lock() += 1));
            }
        });
        assert_eq!(*count.lock(), 4000);
    }
}
