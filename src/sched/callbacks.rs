//! What a host wants to hear of or do itself: its functions, with their last arguments.

use super::Scheduler;
use crate::abi::backend::{
    ggml_backend_sched_copy_callback, ggml_backend_sched_eval_callback, ggml_backend_sched_realloc_callback,
};
use crate::backend::BackendRef;
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Who watches the nodes.
#[derive(Clone, Copy)]
pub struct Eval {
    /// The host's function.
    pub callback: ggml_backend_sched_eval_callback,
    /// Its last argument.
    pub user_data: *mut c_void,
}

/// Who copies weights in place of the scheduler.
#[derive(Clone, Copy)]
pub struct CopyWeights {
    /// The host's function.
    pub callback: ggml_backend_sched_copy_callback,
    /// Its last argument.
    pub user_data: *mut c_void,
}

/// Who hears of buffers that are made anew.
#[derive(Clone, Copy)]
pub struct Realloc {
    /// The host's function.
    pub callback: ggml_backend_sched_realloc_callback,
    /// Its last argument.
    pub user_data: *mut c_void,
}

impl Default for Eval {
    fn default() -> Self {
        Self { callback: None, user_data: null_mut() }
    }
}

impl Default for CopyWeights {
    fn default() -> Self {
        Self { callback: None, user_data: null_mut() }
    }
}

impl Default for Realloc {
    fn default() -> Self {
        Self { callback: None, user_data: null_mut() }
    }
}

impl Eval {
    /// Asks the host whether it wants to look at a node (`ask`), or shows it the node; true when nobody watches.
    pub fn ask(&self, t: TensorRef, ask: bool) -> bool {
        // SAFETY: the host promised with `ggml_backend_sched_set_eval_callback` that its function may be called.
        self.callback.is_none_or(|f| unsafe { f(t.as_ptr(), ask, self.user_data) })
    }
}

impl CopyWeights {
    /// Lets the host copy `weight` to `copy` on a backend, for a split that computes `graph`; false where it has not.
    pub fn copy(&self, to: BackendRef, weight: TensorRef, copy: TensorRef, graph: GraphRef) -> bool {
        // SAFETY: the host promised with `ggml_backend_sched_set_copy_callback` that its function may be called.
        self.callback.is_some_and(|f| unsafe {
            f(to.as_ptr(), weight.as_ptr(), copy.as_ptr(), graph.as_ptr().cast(), self.user_data)
        })
    }
}

impl Realloc {
    /// Tells the host that buffers are made anew for `graph`.
    pub fn tell(&self, sched: &Scheduler, graph: GraphRef, backend_ids_changed: bool, graph_size_changed: bool) {
        if let Some(f) = self.callback {
            let sched = std::ptr::from_ref(sched).cast_mut().cast();
            // SAFETY: the host promised with `ggml_backend_sched_set_realloc_callback` that its function may be called, and the header
            // allows it to ask the scheduler only, not to change it.
            unsafe { f(sched, graph.as_ptr().cast(), backend_ids_changed, graph_size_changed, self.user_data) }
        }
    }
}
