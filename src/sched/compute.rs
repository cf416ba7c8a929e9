//! The run: stretch after stretch, copies first. The order between backends is the contract in `mod.rs`.

use super::experts::{self, Routing};
use super::scheduler::Scheduler;
use super::split::{Input, Split};
use super::traced;
use crate::abi::ggml::{ggml_status, ggml_tensor_flag::GGML_TENSOR_FLAG_INPUT};
use crate::abi::graph::ggml_cgraph;
use crate::backend::{BackendRef, EventRef, tensor_io};
use crate::error::Result;
use crate::graph::GraphRef;
use crate::tensor::TensorRef;

/// A graph struct of ours as a handle.
fn handle(graph: &ggml_cgraph) -> GraphRef {
    // SAFETY: a slice of a valid graph, borrowed for as long as the handle is used.
    match unsafe { GraphRef::from_ptr(graph) } {
        Some(g) => g,
        None => unreachable!("a reference is never NULL"),
    }
}

/// Says which backend failed, unless it stopped on the host's wish.
fn report_failure(backend: BackendRef, stretch: usize, status: ggml_status) {
    if status != ggml_status::GGML_STATUS_ABORTED {
        crate::log_error!("the backend {} failed in stretch {stretch} of the graph: {status:?}", backend.name());
    }
}

impl Scheduler {
    /// The event that a backend records after its stretches, for the copy in use.
    fn event(&self, backend: usize) -> Option<EventRef> {
        self.events.get(backend * self.n_copies + self.cur_copy)?.as_ref().map(|e| e.handle())
    }

    /// Waits until a backend has done what it was last given for the copy in use.
    fn wait_for(&self, backend: usize) {
        match self.event(backend) {
            Some(event) => event.synchronize(),
            None => self.backends[backend].synchronize(),
        }
    }

    /// Starts all stretches. The status is that of the first backend that fails.
    pub(super) fn run_splits(&self) -> Result<ggml_status> {
        let mut routing = Routing::default();
        let mut before = None;
        let traced = traced::begin();
        for (number, split) in self.splits.iter().enumerate() {
            if split.inputs.is_empty()
                && let Some(other) = before.filter(|&b| b != split.backend)
            {
                // Nothing else orders this stretch behind the one before, whose memory it may have been given.
                self.wait_for(other);
            }
            for i in 0..split.inputs.len() {
                let begun = traced::begin();
                self.copy_input(split, i, &mut routing)?;
                let input = &split.inputs[i];
                traced::copy(begun, input.tensor, self.backends[input.from], self.backends[split.backend]);
            }
            let backend = self.backends[split.backend];
            let begun = traced::begin();
            if let Some(graph) = &split.graph {
                let status = match self.eval.callback {
                    None => backend.graph_compute_async(handle(graph)),
                    Some(_) => self.run_observed(backend, handle(graph)),
                };
                if status != ggml_status::GGML_STATUS_SUCCESS {
                    report_failure(backend, number, status);
                    return Ok(status);
                }
            }
            if let Some(event) = self.event(split.backend) {
                event.record(backend);
            }
            traced::split(begun, number, split, backend);
            before = Some(split.backend);
        }
        traced::end(traced);
        Ok(ggml_status::GGML_STATUS_SUCCESS)
    }

    fn copy_of(&self, input: &Input) -> TensorRef {
        self.copies.get(input.set, self.cur_copy).tensor
    }

    fn copy_input(&self, split: &Split, i: usize, routing: &mut Routing) -> Result<()> {
        let input = &split.inputs[i];
        let (to, from) = (self.backends[split.backend], self.backends[input.from]);
        let (tensor, copy) = (input.tensor, self.copy_of(input));
        if tensor.has_flag(GGML_TENSOR_FLAG_INPUT) {
            // At once: the host may write its input again as soon as the graph has been started.
            self.wait_for(split.backend);
            return tensor_io::copy(tensor, copy);
        }
        // The copy may still be read by what this backend was last given.
        match self.event(split.backend) {
            Some(event) => event.wait(to),
            None => to.synchronize(),
        }
        let first = split.graph.as_ref().map(handle).filter(|g| g.n_nodes() > 0).map(|g| g.node(0));
        if experts::applies(first, tensor, copy) {
            from.synchronize();
            let Some(ids) = first.and_then(|node| node.src(2)) else { return Ok(()) };
            if ids.is_empty() {
                return Ok(());
            }
            // The routing may itself be an input that is copied only later.
            let later = split.inputs[i + 1..].iter().find(|other| self.copy_of(other) == ids);
            let ids = later.map_or((ids, to), |other| (other.tensor, self.backends[other.from]));
            return routing.copy_used(tensor, copy, to, ids);
        }
        if to.try_copy_async(from, tensor, copy) {
            return Ok(());
        }
        from.synchronize();
        self.wait_for(split.backend);
        tensor_io::copy(tensor, copy)
    }

    /// Runs a stretch in pieces that end where the host wants to look. The host can end the stretch there.
    fn run_observed(&self, backend: BackendRef, graph: GraphRef) -> ggml_status {
        let n = graph.n_nodes();
        let mut start = 0;
        while start < n {
            let mut end = start;
            let mut wanted = false;
            while end < n && !wanted {
                wanted = self.eval.ask(graph.node(end), true);
                end += 1;
            }
            let status = backend.graph_compute_async(handle(&graph.slice(start..end)));
            if status != ggml_status::GGML_STATUS_SUCCESS {
                return status;
            }
            backend.synchronize();
            if wanted && !self.eval.ask(graph.node(end - 1), false) {
                break;
            }
            start = end;
        }
        ggml_status::GGML_STATUS_SUCCESS
    }
}
