//! Plans of graphs that the library keeps on a stream. A host may free the stream first: its plans go with it, and what
//! held them finds nothing to free any more.

use super::BackendRef;
use crate::abi::backend::ggml_backend_graph_plan_t;
use crate::abi::ggml::ggml_status;
use crate::graph::GraphRef;
use crate::sys::sync::brief;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A plan that exists.
struct Live {
    /// Distinguishes plans that have the same address at different times.
    number: u64,
    backend: BackendRef,
    plan: ggml_backend_graph_plan_t,
}
// SAFETY: the plan is only freed through this pointer, once, by the thread that takes the entry out of the list: the
// thread that frees its stream, or the one that drops the `Plan`. The header lets one thread at a time use a stream.
unsafe impl Send for Live {}

static LIVE: Mutex<Vec<Live>> = Mutex::new(Vec::new());

impl Live {
    fn free(self) {
        self.backend.synchronize();
        // SAFETY: the plan was made by this stream, which is done with it. It was in the list, so that the stream
        // exists, and no other code frees the plan.
        unsafe { self.backend.graph_plan_free(self.plan) };
    }
}

/// A plan, freed with this or with its stream, whichever goes first.
pub struct Plan {
    number: u64,
    backend: BackendRef,
    plan: ggml_backend_graph_plan_t,
}

impl Plan {
    /// Prepares a graph; `None` if the stream, which must have plans (the contract), cannot.
    pub fn new(backend: BackendRef, graph: GraphRef) -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let plan = backend.graph_plan_create(graph);
        if plan.is_null() {
            return None;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        brief(&LIVE).push(Live { number, backend, plan });
        Some(Self { number, backend, plan })
    }

    /// Changes the plan to a new graph. Returns `false` if the stream cannot. The stream exists (the contract of
    /// callers that compute with it).
    pub fn update(&mut self, graph: GraphRef) -> bool {
        // SAFETY: the plan was made by this stream, and is freed only with `self` or with the stream, which exists.
        unsafe { self.backend.graph_plan_update(self.plan, graph) }
    }

    /// Computes the plan, whose graph is `graph`. The stream exists (the contract of callers that compute with it).
    pub fn compute(&self, graph: GraphRef) -> ggml_status {
        // SAFETY: the plan was made by this stream, and is freed only with `self` or with the stream, which exists. The
        // tensors are those of `graph`, which is valid.
        unsafe { self.backend.graph_plan_compute(self.plan, Some(graph)) }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        let live = {
            let mut all = brief(&LIVE);
            all.iter().position(|l| l.number == self.number).map(|i| all.swap_remove(i))
        };
        // The lock is not held while the code of a backend runs.
        if let Some(live) = live {
            live.free();
        }
    }
}

/// Frees the plans of a stream that is about to be freed.
pub(super) fn free_all(backend: BackendRef) {
    let gone: Vec<Live> = brief(&LIVE).extract_if(.., |l| l.backend == backend).collect();
    gone.into_iter().for_each(Live::free);
}
