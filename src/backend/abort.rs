//! The host's callback that cancels computations: the CPU backend calls it between nodes and between the parts of large
//! ones, the Vulkan backend between submissions.

use crate::abi::ggml::ggml_abort_callback;
use crate::sys::foreign;
use crate::sys::unwind::MayUnwind;
use std::ffi::c_void;

/// A callback that returns true if the computation should end, and its argument.
#[derive(Clone, Copy)]
pub struct Abort {
    /// The callback.
    pub callback: ggml_abort_callback,
    /// Its argument.
    pub data: *mut c_void,
}

// SAFETY: an `Abort` only passes `data` to the callback, and only the thread that computes a graph calls it, as the
// header's contract allows.
unsafe impl Send for Abort {}
// SAFETY: the same: other threads only copy it.
unsafe impl Sync for Abort {}

impl Abort {
    /// No callback.
    pub const NEVER: Self = Self { callback: None, data: std::ptr::null_mut() };

    /// Whether there is a callback.
    pub fn is_set(&self) -> bool {
        self.callback.is_some()
    }

    /// Calls the callback. Returns whether the computation should end, which is false if there is no callback.
    pub fn is_wanted(&self) -> bool {
        let Some(f) = self.callback.map(MayUnwind::may_unwind) else { return false };
        let data = self.data;
        // SAFETY: the header's contract of the abort callback: it may be called with its data while a graph is
        // computed.
        foreign::call_host(|| unsafe { f(data) }).unwrap_or(true)
    }
}
