//! A graph that is split, as reports see it.

use crate::alloc::GraphAllocator;
use crate::sched::cause::Placement;
use crate::sched::experts::serve::ExpertServer;
use crate::sched::flat::is_view_op;
use crate::sched::settings::Settings;
use crate::sched::split_graph::SplitGraph;
use crate::tensor::TensorRef;
use std::cell::RefCell;

/// A node of the split graph, in the order in which nodes are computed.
pub(super) struct Node {
    pub tensor: TensorRef,
    pub placed: Placement,
    pub split: usize,
    /// It only looks at memory in another way.
    pub is_view: bool,
}

/// Something that happens in the order of the run: a copy, or a node.
pub(super) struct Step {
    /// What is written.
    pub tensor: TensorRef,
    /// What is read.
    pub reads: Vec<TensorRef>,
    /// The original, for a copy.
    pub copied: Option<TensorRef>,
    pub split: usize,
}

/// A graph that is split, as reports see it.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The scheduler's settings.
    pub settings: &'a Settings,
    /// The graph.
    pub graph: &'a SplitGraph,
    /// Its memory, if it has any.
    pub allocator: &'a GraphAllocator,
    /// Experts that devices hold.
    pub experts: Option<&'a RefCell<ExpertServer>>,
}

impl View<'_> {
    /// All nodes in the order of the run.
    pub(super) fn nodes_in_order(&self) -> Vec<Node> {
        let mut nodes = Vec::new();
        for (number, split) in self.graph.splits.iter().enumerate() {
            // SAFETY: the splits are borrowed while the handle is used.
            let Some(part) = (unsafe { split.graph() }) else { continue };
            for tensor in part.nodes() {
                let is_view = is_view_op(tensor.op_raw());
                nodes.push(Node { tensor, placed: self.graph.placement(tensor), split: number, is_view });
            }
        }
        nodes
    }

    /// The steps of the run. `nodes` as from [`Self::nodes_in_order`].
    pub(super) fn steps(&self, nodes: &[Node]) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut next = nodes.iter().peekable();
        for (number, split) in self.graph.splits.iter().enumerate() {
            for input in &split.inputs {
                let copy = self.graph.copies.get(input.set, self.graph.cur_copy).tensor;
                steps.push(Step { tensor: copy, reads: vec![input.tensor], copied: Some(input.tensor), split: number });
            }
            while let Some(n) = next.next_if(|n| n.split == number) {
                let reads = n.tensor.srcs().map(|(_, s)| s).collect();
                steps.push(Step { tensor: n.tensor, reads, copied: None, split: number });
            }
        }
        steps
    }
}
