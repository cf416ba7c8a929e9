//! The scheduler as hosts hold it. Its functions call back into the host (`callbacks`), and the host may call the scheduler again from there.
//! It may query the scheduler while a graph is computed or is about to get larger buffers, but calls that would change it fail.
#![forbid(unsafe_code)]

use super::callbacks::{CopyWeights, Eval, Realloc};
use super::engine::{Engine, Unplaced};
use crate::abi::ggml::ggml_status;
use crate::backend::{BackendRef, BufferTypeRef};
use crate::error::Result;
use crate::graph::GraphRef;
use crate::invalid;
use crate::mutant;
use crate::tensor::TensorRef;
use std::cell::{Cell, Ref, RefCell, RefMut};

/// Spreads graphs over backends.
pub struct Scheduler {
    /// Borrowed mutably only where no callback of the scheduler is called.
    engine: RefCell<Engine>,
    realloc: Cell<Realloc>,
    n_backends: usize,
}

impl Scheduler {
    /// As [`Engine::new`].
    pub fn new(
        backends: &[BackendRef],
        bufts: Option<&[BufferTypeRef]>,
        graph_size: usize,
        parallel: bool,
        op_offload: bool,
    ) -> Self {
        let engine = Engine::new(backends, bufts, graph_size, parallel, op_offload);
        Self { engine: RefCell::new(engine), realloc: Cell::default(), n_backends: backends.len() }
    }

    /// Number of backends, known at any time.
    pub fn n_backends(&self) -> usize {
        self.n_backends
    }

    /// What can be asked.
    ///
    /// # Errors
    /// A graph is being split or allocated: the caller is a function that the scheduler calls for that.
    pub fn read(&self) -> Result<Ref<'_, Engine>> {
        self.engine
            .try_borrow()
            .map_err(|_| invalid!("the scheduler is busy: it was called while it allocates a graph"))
    }

    /// What can be changed.
    ///
    /// # Errors
    /// A function of the scheduler is under way: the caller is one of its callbacks.
    pub fn write(&self) -> Result<RefMut<'_, Engine>> {
        let busy = |_| invalid!("the scheduler is busy: a callback may query it, but not change it");
        self.engine.try_borrow_mut().map_err(busy)
    }

    /// Sets who watches the nodes; from the next node on.
    pub fn set_eval(&self, eval: Eval) -> Result<()> {
        self.read()?.settings.eval.set(eval);
        Ok(())
    }

    /// Sets who copies weights in place of the scheduler.
    pub fn set_copy(&self, copy: CopyWeights) -> Result<()> {
        self.read()?.settings.copies_weights.set(copy);
        Ok(())
    }

    /// Sets who hears that buffers are allocated again.
    pub fn set_realloc(&self, realloc: Realloc) {
        self.realloc.set(realloc);
    }

    /// As [`Engine::set_tensor_backend`].
    pub fn set_tensor_backend(&self, t: TensorRef, index: usize) -> Result<()> {
        self.write()?.set_tensor_backend(t, index);
        Ok(())
    }

    /// As [`Engine::reset`].
    pub fn reset(&self) -> Result<()> {
        self.write()?.reset();
        Ok(())
    }

    /// As [`Engine::synchronize`].
    pub fn synchronize(&self) -> Result<()> {
        self.read()?.synchronize();
        Ok(())
    }

    /// As [`Engine::split_graph`].
    pub fn split_graph(&self, graph: GraphRef) -> Result<()> {
        self.write()?.split_graph(graph)
    }

    /// As [`Engine::measure`].
    pub fn measure(&self, graph: GraphRef) -> Result<Vec<usize>> {
        self.write()?.measure(graph)
    }

    /// As [`Engine::reserve`].
    pub fn reserve(&self, graph: GraphRef) -> Result<()> {
        self.write()?.reserve(graph)
    }

    /// Splits a graph and gives its tensors memory. The host hears of it first when buffers are allocated again for that.
    pub fn alloc_graph(&self, graph: GraphRef) -> Result<()> {
        let Some(unplaced) = self.write()?.alloc_graph(graph)? else { return Ok(()) };
        self.announce(graph, &unplaced)?;
        self.write()?.reallocate(graph, unplaced)
    }

    /// With one backend the allocator is free to plan again, and nobody hears of it.
    fn announce(&self, graph: GraphRef, unplaced: &Unplaced) -> Result<()> {
        let engine = self.read()?;
        let realloc = self.realloc.get();
        if realloc.callback.is_some() && self.n_backends > 1 {
            realloc.call(self, graph, engine.moves(), unplaced.is_resized);
        }
        Ok(())
    }

    /// Starts computing a graph, which is allocated first unless one is: then that one is computed. The status is that of
    /// the first backend that fails.
    pub fn compute_async(&self, graph: GraphRef) -> Result<ggml_status> {
        // Not from a callback of the graph under way, although that only has to be read.
        if !mutant::on("callbacks") {
            drop(self.write()?);
        }
        if !self.read()?.is_allocated() {
            self.reset()?;
            self.alloc_graph(graph)?;
        }
        self.read()?.compute()
    }

    /// What a test looks into.
    #[cfg(test)]
    pub(crate) fn engine(&self) -> Ref<'_, Engine> {
        self.read().unwrap()
    }
}
