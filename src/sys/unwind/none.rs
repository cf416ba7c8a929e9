//! Where nothing stops unwinding.

use super::Unwinding;

/// As the module says.
#[inline]
pub fn call<T: Copy>(function: impl FnOnce() -> T + Copy) -> Result<T, Unwinding> {
    Ok(function())
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
