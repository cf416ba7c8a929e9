//! Allocating and computing a graph for the host. Its callback is called before buffers are allocated again, with the
//! scheduler as the host knows it.

use super::callbacks::Realloc;
use super::engine::Unplaced;
use super::scheduler::Scheduler;
use crate::abi::ggml::ggml_status;
use crate::error::Result;
use crate::ggml_assert;
use crate::graph::GraphRef;
use crate::guard;
use crate::sys::foreign;
use crate::sys::unwind::MayUnwind;

impl Scheduler {
    /// Splits a graph and gives its tensors memory. If buffers must be allocated again for that, calls the host's
    /// callback first.
    pub fn alloc_graph(&self, graph: GraphRef) -> Result<()> {
        // Calls from a callback fail here. The check for an allocated graph comes before any change of the engine, so
        // that this graph can still be computed.
        drop(self.write()?);
        ggml_assert!(!self.read()?.is_allocated(), "a graph is allocated already: reset first");
        let graph = graph.unspoiled()?;
        let Some(unplaced) = self.write()?.alloc_graph(graph)? else { return Ok(()) };
        self.announce(graph, &unplaced)?;
        self.write()?.reallocate(graph, unplaced)
    }

    /// Calls the host's callback before buffers are allocated again. With one backend the allocator may plan again
    /// without this call.
    fn announce(&self, graph: GraphRef, unplaced: &Unplaced) -> Result<()> {
        let engine = self.read()?;
        let Realloc { callback, user_data } = self.realloc.get();
        if self.n_backends() > 1
            && let Some(f) = callback.map(MayUnwind::may_unwind)
        {
            let (moves, is_resized) = (engine.moves(), unplaced.is_resized);
            let sched = std::ptr::from_ref(self).cast_mut().cast();
            // SAFETY: the host promised with `ggml_backend_sched_set_realloc_callback` that its function may be called.
            // It gets the address of a `Scheduler`, as all exported functions take it, which lives for the call and is
            // only ever used shared.
            let call = || unsafe { f(sched, graph.as_ptr().cast(), moves, is_resized, user_data) };
            foreign::call_host(call).unwrap_or_else(|| guard::escape());
        }
        Ok(())
    }

    /// Starts computing a graph, which is allocated first unless one is: then that one is computed. The status is that
    /// of the first backend that fails.
    pub fn compute_async(&self, graph: GraphRef) -> Result<ggml_status> {
        // Not from a callback of the graph under way, although that only has to be read.
        drop(self.write()?);
        let graph = graph.unspoiled()?;
        if !self.read()?.is_allocated() {
            self.reset()?;
            self.alloc_graph(graph)?;
        }
        self.read()?.compute()
    }
}
