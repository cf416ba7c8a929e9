//! Functions of the host that the scheduler calls, with their last arguments.

use crate::abi::backend::{
    ggml_backend_sched_copy_callback, ggml_backend_sched_eval_callback, ggml_backend_sched_realloc_callback,
};
use crate::backend::BackendRef;
use crate::graph::GraphRef;
use crate::guard;
use crate::sys::foreign;
use crate::sys::unwind::MayUnwind;
use crate::tensor::TensorRef;
use std::ffi::c_void;
use std::ptr::null_mut;

/// A host's function.
#[derive(Clone, Copy)]
pub struct Callback<F> {
    /// NULL for none.
    pub callback: F,
    /// Its last argument.
    pub user_data: *mut c_void,
}

impl<F: Default> Default for Callback<F> {
    fn default() -> Self {
        Self { callback: F::default(), user_data: null_mut() }
    }
}

/// Observes the nodes.
pub type Eval = Callback<ggml_backend_sched_eval_callback>;
/// Copies weights in place of the scheduler.
pub type CopyWeights = Callback<ggml_backend_sched_copy_callback>;
/// Called when buffers are allocated again.
pub type Realloc = Callback<ggml_backend_sched_realloc_callback>;

impl Eval {
    /// Calls the host's function for a node: before the node is computed (`ask`), to find out whether the host observes
    /// it, and after it has been computed. Returns its result, true if there is no function, and `None` if an exception
    /// has left the function.
    pub fn ask(&self, t: TensorRef, ask: bool) -> Option<bool> {
        let Some(f) = self.callback.map(MayUnwind::may_unwind) else { return Some(true) };
        // SAFETY: the host promised with `ggml_backend_sched_set_eval_callback` that its function may be called.
        foreign::call_host(|| unsafe { f(t.as_ptr(), ask, self.user_data) })
    }
}

impl CopyWeights {
    /// Lets the host copy `weight` to `copy` on a backend, for a split that computes `graph`; false where it has not.
    pub fn copy(&self, to: BackendRef, weight: TensorRef, copy: TensorRef, graph: GraphRef) -> bool {
        let Some(f) = self.callback.map(MayUnwind::may_unwind) else { return false };
        // SAFETY: the host promised with `ggml_backend_sched_set_copy_callback` that its function may be called.
        let call = || unsafe { f(to.as_ptr(), weight.as_ptr(), copy.as_ptr(), graph.as_ptr().cast(), self.user_data) };
        foreign::call_host(call).unwrap_or_else(|| guard::escape())
    }
}
