//! The object that hosts hold. Its functions call functions of the host (`callbacks`), which may call the scheduler
//! again. They may query the scheduler while a graph is computed or is about to get larger buffers, but calls that
//! would change the scheduler fail.
#![forbid(unsafe_code)]

use super::callbacks::{CopyWeights, Eval, Realloc};
use super::engine::Engine;
use super::experts::budget::Budget;
use crate::abi::ggml::ggml_status;
use crate::backend::{BackendRef, BufferTypeRef};
use crate::error::Result;
use crate::graph::GraphRef;
use crate::invalid;
use crate::tensor::TensorRef;
use std::cell::{Cell, Ref, RefCell, RefMut};
use std::ops::{Deref, DerefMut};

/// Spreads graphs over backends.
pub struct Scheduler {
    /// Borrowed mutably only where no callback of the scheduler is called.
    engine: RefCell<Engine>,
    /// A call that changed the engine ended in the middle. What the engine knows may be wrong, so that nothing works
    /// until a reset.
    broken: Cell<bool>,
    pub(super) realloc: Cell<Realloc>,
    n_backends: usize,
}

/// The engine while it is changed. Unwinding notes that the change is incomplete.
pub struct Change<'a> {
    engine: RefMut<'a, Engine>,
    broken: &'a Cell<bool>,
    /// The caller was unwinding already: this says nothing about the change.
    was_panicking: bool,
}

impl Deref for Change<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl DerefMut for Change<'_> {
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.was_panicking {
            self.broken.set(true);
        }
    }
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
        Self {
            engine: RefCell::new(engine),
            broken: Cell::new(false),
            realloc: Cell::default(),
            n_backends: backends.len(),
        }
    }

    /// Number of backends, known at any time.
    pub fn n_backends(&self) -> usize {
        self.n_backends
    }

    /// Returns the engine for queries.
    ///
    /// # Errors
    /// A graph is being split or allocated, and the caller is a function that the scheduler calls for that. Or a call
    /// has failed in the middle of a change, and the scheduler has not been reset since.
    pub fn read(&self) -> Result<Ref<'_, Engine>> {
        self.check()?;
        self.engine
            .try_borrow()
            .map_err(|_| invalid!("the scheduler is busy: it was called while it allocates a graph"))
    }

    /// Returns the engine for changes.
    ///
    /// # Errors
    /// A function of the scheduler is under way: the caller is one of its callbacks. Or as for [`Self::read`].
    pub fn write(&self) -> Result<Change<'_>> {
        self.check()?;
        self.change()
    }

    /// As [`Self::write`], even after a call that failed in the middle of a change: for what needs nothing of the
    /// engine.
    pub fn change(&self) -> Result<Change<'_>> {
        let busy = |_| invalid!("the scheduler is busy: a callback may query it, but not change it");
        let engine = self.engine.try_borrow_mut().map_err(busy)?;
        Ok(Change { engine, broken: &self.broken, was_panicking: std::thread::panicking() })
    }

    fn check(&self) -> Result<()> {
        match self.broken.get() {
            true => Err(invalid!("an earlier call failed in the middle of a change: reset the scheduler, or free it")),
            false => Ok(()),
        }
    }

    /// Sets the callback that observes the nodes. It applies from the next node on.
    pub fn set_eval(&self, eval: Eval) -> Result<()> {
        self.read()?.settings.eval.set(eval);
        Ok(())
    }

    /// Sets the callback that copies weights instead of the scheduler.
    pub fn set_copy(&self, copy: CopyWeights) -> Result<()> {
        self.read()?.settings.copies_weights.set(copy);
        Ok(())
    }

    /// As [`Engine::set_expert_budget`].
    pub fn set_expert_budget(&self, budget: Budget) -> Result<()> {
        self.write()?.set_expert_budget(budget);
        Ok(())
    }

    /// Sets the callback that the scheduler calls before it allocates buffers again.
    pub fn set_realloc(&self, realloc: Realloc) {
        self.realloc.set(realloc);
    }

    /// As [`Engine::set_tensor_backend`].
    pub fn set_tensor_backend(&self, t: TensorRef, index: usize) -> Result<()> {
        self.write()?.set_tensor_backend(t, index);
        Ok(())
    }

    /// As [`Engine::reset`]. After a call that failed in the middle of a change, the engine forgets all it knows of
    /// graphs.
    pub fn reset(&self) -> Result<()> {
        let mut engine = self.change()?;
        match self.broken.get() {
            true => engine.start_over(),
            false => engine.reset(),
        }
        self.broken.set(false);
        Ok(())
    }

    /// As [`Engine::synchronize`].
    pub fn synchronize(&self) -> Result<()> {
        self.read()?.synchronize();
        Ok(())
    }

    /// As [`Self::synchronize`], after `compute_async` with this result: a failure if a backend has lost work.
    pub fn synchronize_after(&self, result: Result<ggml_status>) -> Result<ggml_status> {
        let engine = self.read()?;
        engine.synchronize();
        let status = result?;
        Ok(engine.settings.backends.iter().fold(status, |status, b| b.unless_lost(status)))
    }

    /// As [`Engine::split_graph`].
    pub fn split_graph(&self, graph: GraphRef) -> Result<()> {
        self.write()?.split_graph(graph.unspoiled()?)
    }

    /// As [`Engine::measure`].
    pub fn measure(&self, graph: GraphRef) -> Result<Vec<usize>> {
        self.write()?.measure(graph.unspoiled()?)
    }

    /// As [`Engine::reserve`].
    pub fn reserve(&self, graph: GraphRef) -> Result<()> {
        self.write()?.reserve(graph.unspoiled()?)
    }

    /// What a test looks into.
    #[cfg(test)]
    pub(crate) fn engine(&self) -> Ref<'_, Engine> {
        self.read().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::{ggml_op, ggml_type};
    use crate::backend::testing::{Fake, Spec};
    use crate::guard::contained;
    use crate::tensor::Context;

    /// A call that ends in the middle of a change leaves nothing that could compute something else than the host
    /// believes.
    #[test]
    fn after_half_a_change_nothing_works_until_a_reset() {
        let cpu = Fake::new(Spec::cpu());
        let sched = Scheduler::new(&[cpu.handle()], None, 16, false, false);
        let mut ctx = Context::with_size(1 << 16, true).unwrap();
        let [a, b] = [(); 2].map(|()| ctx.new_tensor(ggml_type::GGML_TYPE_F32, &[3]).unwrap());
        b.set_op(ggml_op::GGML_OP_ADD);
        b.set_src(0, Some(a));
        b.set_src(1, Some(a));
        let graph = crate::graph::build::new(&mut ctx, 8, false).unwrap();
        graph.expand(b, true);
        sched.alloc_graph(graph).unwrap();
        let panicked = contained(|| {
            let _engine = sched.write().unwrap();
            panic!("on purpose")
        });
        assert!(panicked.is_err());
        let says = |result: Result<()>| result.unwrap_err().to_string().contains("reset");
        assert!(says(sched.compute_async(graph).map(|_| ())) && says(sched.alloc_graph(graph)));
        assert!(says(sched.split_graph(graph)) && says(sched.reserve(graph)) && says(sched.measure(graph).map(|_| ())));
        assert!(says(sched.set_tensor_backend(a, 0)) && says(sched.read().map(|_| ())));
        assert!(sched.change().is_ok(), "it can be freed");
        // What only reads leaves the scheduler as it was.
        sched.reset().unwrap();
        assert!(
            contained(|| {
                let _engine = sched.read().unwrap();
                panic!("on purpose")
            })
            .is_err()
        );
        // The host's next graph has no addresses yet.
        [a, b].iter().for_each(|t| {
            t.set_data(std::ptr::null_mut());
            t.set_buffer_raw(std::ptr::null_mut());
        });
        sched.alloc_graph(graph).unwrap();
        assert_eq!(sched.compute_async(graph).unwrap(), ggml_status::GGML_STATUS_SUCCESS);
    }
}
