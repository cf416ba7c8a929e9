//! Where nothing stops unwinding.

use super::Unwinding;
use std::ffi::c_void;

pub type Returned = ();
/// What work returns.
pub const RETURNED: () = ();

pub type Work = unsafe extern "C-unwind" fn(*mut c_void);

/// Calls `work`.
///
/// # Safety
/// `work` may be called with `data`.
#[inline]
pub unsafe fn attempt(work: Work, data: *mut c_void) -> Option<Unwinding> {
    // SAFETY: the caller's promise.
    unsafe { work(data) };
    None
}

impl Unwinding {
    /// Continues on this thread, in its caller.
    ///
    /// # Safety
    /// The caller has nothing left to do but to return, and may be left by unwinding.
    pub unsafe fn resume(self) {}

    /// Prepares it to be resumed by another thread.
    pub fn leaves_thread(&self) -> bool {
        true
    }

    /// The counterpart of [`Self::leaves_thread`] on the other thread.
    pub fn enters_thread(&self) {}

    /// Frees an exception that no code is to catch.
    pub fn forget(self) {}
}
