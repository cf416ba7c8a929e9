//! Graph plans: a backend that can prepare a graph is given each split once, when it comes again, and then only the
//! plan.
//!
//! A split comes again when its graph is computed a second time, or has been recognised (`alloc::Recall`): nodes,
//! parameters and addresses are the same. The plan of a split that changes is kept and brought up to date when the new
//! one comes again. Backends that cannot update a plan are left alone: the CPU backend's plans fix its number of
//! threads and its thread pool, which hosts change from graph to graph.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_status;
use crate::backend::BackendRef;
use crate::backend::plan::Plan;
use crate::graph::GraphRef;
use std::cell::RefCell;
use std::ptr;

/// The plan for one split.
struct Slot {
    backend: BackendRef,
    /// `None`: none yet.
    plan: Option<Plan>,
    /// The plan is one of the split as it is.
    is_current: bool,
    /// The backend could not make one.
    refused: bool,
    runs: u32,
    /// Where the split's nodes are listed: a plan may hold on to the list.
    nodes: *const u8,
}

impl Slot {
    fn new(backend: BackendRef) -> Self {
        Self { backend, plan: None, is_current: false, refused: false, runs: 0, nodes: ptr::null() }
    }

    /// The plan for the split as it is, if the backend has one.
    fn prepare(&mut self, graph: GraphRef) -> Option<&Plan> {
        let nodes = graph.raw().nodes.cast_const().cast();
        if !self.is_current || self.nodes != nodes {
            match &mut self.plan {
                Some(plan) => self.refused = !plan.update(graph),
                none => {
                    *none = Plan::new(self.backend, graph);
                    self.refused = none.is_none();
                }
            }
            self.nodes = nodes;
            self.is_current = !self.refused;
        }
        self.plan.as_ref().filter(|_| self.is_current)
    }
}

/// The plans of a scheduler, by split.
#[derive(Default)]
pub struct BackendPlans(RefCell<Vec<Slot>>);

impl BackendPlans {
    /// Another graph, with these backends for its splits.
    pub fn begin(&mut self, backends: impl Iterator<Item = BackendRef>) {
        let slots = self.0.get_mut();
        let mut n = 0;
        for (i, backend) in backends.enumerate() {
            match slots.get_mut(i) {
                Some(slot) if slot.backend == backend => {
                    slot.is_current = false;
                    slot.refused = false;
                    slot.runs = 0;
                }
                Some(slot) => *slot = Slot::new(backend),
                None => slots.push(Slot::new(backend)),
            }
            n = i + 1;
        }
        slots.truncate(n);
    }

    /// Computes a split, by its plan where it has come again.
    pub fn compute(&self, number: usize, backend: BackendRef, graph: GraphRef) -> ggml_status {
        let mut slots = self.0.borrow_mut();
        let Some(slot) = slots.get_mut(number).filter(|s| s.backend == backend && backend.has_lasting_plans()) else {
            return backend.graph_compute_async(graph);
        };
        slot.runs = slot.runs.saturating_add(1);
        let plan = if slot.runs < 2 || slot.refused { None } else { slot.prepare(graph) };
        match plan {
            Some(plan) => plan.compute(graph),
            None => backend.graph_compute_async(graph),
        }
    }
}
