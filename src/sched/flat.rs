//! A host's graph as arrays of numbers: each tensor is looked up and looked at once, and all passes work on indices.
#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op;
use crate::alloc::{Likeness, Problem};
use crate::error::Result;
use crate::graph::GraphRef;
use crate::graph::ids::TensorIds;
use crate::tensor::TensorRef;

/// The graph.
#[derive(Default)]
pub struct Flat {
    /// Tensors, places and sources. Pass 5 replaces sources by the numbers of copies, which start after those of
    /// tensors.
    pub problem: Problem,
    /// Places of the nodes that are computed: those that only look at memory in another way are left out.
    computed: Vec<u32>,
}

/// Whether a node only looks at memory in another way.
#[inline]
pub fn is_view_op(op: i32) -> bool {
    // The numbers of these four operations are consecutive.
    (ggml_op::GGML_OP_RESHAPE as i32..=ggml_op::GGML_OP_TRANSPOSE as i32).contains(&op)
}

const _: () = {
    use ggml_op::*;
    assert!(GGML_OP_TRANSPOSE as i32 - GGML_OP_RESHAPE as i32 == 3);
    assert!(GGML_OP_VIEW as i32 > GGML_OP_RESHAPE as i32 && (GGML_OP_VIEW as i32) < GGML_OP_TRANSPOSE as i32);
    assert!(GGML_OP_PERMUTE as i32 > GGML_OP_RESHAPE as i32 && (GGML_OP_PERMUTE as i32) < GGML_OP_TRANSPOSE as i32);
};

/// Whether a backend computes the tensor, neither a leaf nor a view.
pub fn is_computed(t: TensorRef) -> bool {
    t.op_raw() != ggml_op::GGML_OP_NONE as i32 && !is_view_op(t.op_raw())
}

impl Flat {
    /// Numbers the graph's tensors and fills the arrays. `restore` may give back another source for a node's source.
    pub fn fill(
        &mut self,
        graph: GraphRef,
        ids: &mut TensorIds,
        restore: impl FnMut(TensorRef, usize, TensorRef) -> Result<TensorRef>,
    ) -> Result<()> {
        self.problem.describe(graph, ids, restore)?;
        let problem = &self.problem;
        // Without a branch: each place is written, and kept if the next one does not go over it.
        self.computed.resize(problem.n_nodes(), 0);
        let mut n = 0;
        for (place, &id) in (0..).zip(problem.nodes()) {
            self.computed[n] = place;
            n += usize::from(!is_view_op(problem.fact(id).op.into()));
        }
        self.computed.truncate(n);
        Ok(())
    }

    /// As [`Self::fill`], for a graph of the same structure as the last one. If it has another, the caller fills all
    /// again.
    pub fn follow(
        &mut self,
        graph: GraphRef,
        ids: &mut TensorIds,
        restore: impl FnMut(TensorRef, usize, TensorRef) -> Result<TensorRef>,
    ) -> Result<Likeness> {
        // Operations are the same, and so is what is computed.
        self.problem.follow(graph, ids, restore)
    }

    /// Places of the nodes that are computed, views left out, in their order.
    #[inline]
    pub fn computed(&self) -> &[u32] {
        &self.computed
    }

    /// Numbers at the places of the leafs.
    #[inline]
    pub fn leafs(&self) -> &[u32] {
        self.problem.leafs()
    }

    /// Numbers at the places of the nodes.
    #[inline]
    pub fn nodes(&self) -> &[u32] {
        self.problem.nodes()
    }

    /// Numbers of the sources of the node at a place.
    #[inline]
    pub fn srcs(&self, node: usize) -> &[u32] {
        self.problem.srcs(node)
    }

    /// What a tensor of the graph is a view of, or `NONE`.
    #[inline]
    pub fn base(&self, id: u32) -> u32 {
        self.problem.base(id)
    }
}
