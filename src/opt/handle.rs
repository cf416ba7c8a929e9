//! Objects that hosts hold by a C pointer, and that callbacks of the host may use while a loop of ours runs.

use std::ptr::NonNull;

/// Handle on an object that a host, or a loop of ours, owns. Making one is the promise; using one is safe.
pub struct Handle<T>(NonNull<T>);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Handle<T> {}

impl<T> Handle<T> {
    /// The handle, or `None` for NULL.
    ///
    /// # Safety
    /// `p` is NULL, or an object of this kind for as long as the handle, or a copy of it, is used, and no other thread uses
    /// it meanwhile.
    pub unsafe fn from_ptr(p: *mut T) -> Option<Self> {
        NonNull::new(p).map(Self)
    }

    /// A handle on what `owner` owns; dead when the owner is dropped.
    pub fn of(owner: &mut Box<T>) -> Self {
        Self(NonNull::from(&mut **owner))
    }

    /// The object's address.
    pub fn as_ptr<C>(self) -> *mut C {
        self.0.as_ptr().cast()
    }

    /// Works on the object. `work` must be code of this library that calls nothing of the host's, and must not use another
    /// handle on the same object.
    pub fn with<R>(self, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the object is valid and no other thread uses it, by the promise of the handle; no host code runs meanwhile, so
        // this is the only reference.
        work(unsafe { &mut *self.0.as_ptr() })
    }
}
