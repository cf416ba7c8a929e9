//! Locks that ignore poisoning.
//!
//! The data that a lock of this library guards is consistent after every statement, so a panic while the lock is held
//! does not corrupt it. A host that continues after an error must be able to use the library.
#![forbid(unsafe_code)]

use super::first_use;
use super::fork::Section;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A guard whose lock no fork leaves held in the child.
pub struct Brief<G> {
    // Released before the section ends.
    guard: G,
    _section: Section,
}

impl<G: Deref> Deref for Brief<G> {
    type Target = G::Target;
    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Brief<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// Like [`lock`], for a lock that is held only briefly: not while other threads are waited for, or the host's code
/// runs. In a child that a fork made, it is free.
#[inline]
pub fn brief<T: ?Sized>(m: &Mutex<T>) -> Brief<MutexGuard<'_, T>> {
    let section = Section::enter();
    Brief { guard: lock(m), _section: section }
}

/// Like [`read`]; as [`brief`].
#[inline]
pub fn brief_read<T: ?Sized>(l: &RwLock<T>) -> Brief<RwLockReadGuard<'_, T>> {
    let section = Section::enter();
    Brief { guard: read(l), _section: section }
}

/// Like [`write`]; as [`brief`].
#[inline]
pub fn brief_write<T: ?Sized>(l: &RwLock<T>) -> Brief<RwLockWriteGuard<'_, T>> {
    let section = Section::enter();
    Brief { guard: write(l), _section: section }
}

/// The value of a cell, made on first use. No fork happens while it is made, so that no child waits for a thread that
/// it does not have. The host gets its log lines afterwards.
#[inline]
pub fn once<T>(cell: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    match cell.get() {
        Some(value) => value,
        None => first_use::make(|| {
            let _section = Section::enter();
            cell.get_or_init(make)
        }),
    }
}

/// Locks `m`, even if it is poisoned.
#[inline]
pub fn lock<T: ?Sized>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // For ThreadSanitizer (scripts/sanitizers.py): what a thread does that waits for a lock is in the standard
    // library, which is not built with it.
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
