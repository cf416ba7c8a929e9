//! A host's graph as arrays of numbers: each tensor is looked up once, and all passes work on indices.

use crate::abi::ggml::ggml_op;
use crate::alloc::{NONE, TensorIds};
use crate::graph::GraphRef;
use crate::tensor::TensorRef;

/// Base of a tensor that has not been looked at.
const UNSEEN: u32 = u32::MAX - 1;

/// A source of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Which of the node's sources.
    pub slot: u8,
    /// The tensor's number. Pass 5 puts the number of a copy here: numbers of copies start behind those of tensors.
    pub id: u32,
}

/// The graph.
#[derive(Default)]
pub struct Flat {
    /// Leafs.
    pub leafs: Vec<u32>,
    /// Nodes in the order of their evaluation.
    pub nodes: Vec<u32>,
    /// By node: it only looks at memory in another way and is computed nowhere.
    pub is_view_op: Vec<bool>,
    edge_end: Vec<u32>,
    edges: Vec<Edge>,
    base: Vec<u32>,
}

/// Whether a node only looks at memory in another way.
pub fn is_view_op(op: i32) -> bool {
    use ggml_op::*;
    [GGML_OP_VIEW, GGML_OP_RESHAPE, GGML_OP_PERMUTE, GGML_OP_TRANSPOSE].iter().any(|&o| o as i32 == op)
}

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
        mut restore: impl FnMut(TensorRef, usize, TensorRef) -> crate::error::Result<TensorRef>,
    ) -> crate::error::Result<()> {
        self.leafs.clear();
        self.nodes.clear();
        self.is_view_op.clear();
        self.edge_end.clear();
        self.edges.clear();
        self.base.clear();
        ids.reserve(ids.len() + graph.n_leafs() + graph.n_nodes());
        for leaf in graph.leafs() {
            let id = self.number(leaf, ids);
            self.leafs.push(id);
        }
        for node in graph.nodes() {
            for (slot, src) in node.srcs() {
                let src = restore(node, slot, src)?;
                let id = self.number(src, ids);
                self.edges.push(Edge { slot: slot as u8, id });
            }
            self.edge_end.push(self.edges.len() as u32);
            let id = self.number(node, ids);
            self.nodes.push(id);
            self.is_view_op.push(is_view_op(node.op_raw()));
        }
        self.base.resize(ids.len(), UNSEEN);
        Ok(())
    }

    fn number(&mut self, t: TensorRef, ids: &mut TensorIds) -> u32 {
        let id = ids.insert(t);
        if self.base.len() <= id as usize {
            self.base.resize(id as usize + 1, UNSEEN);
        }
        if self.base[id as usize] == UNSEEN {
            self.base[id as usize] = NONE;
            if let Some(base) = t.view_src() {
                self.base[id as usize] = self.number(base, ids);
            }
        }
        id
    }

    /// What a tensor of the graph is a view of, or `NONE`.
    #[inline]
    pub fn base(&self, id: u32) -> u32 {
        match self.base.get(id as usize) {
            Some(&UNSEEN) | None => NONE,
            Some(&base) => base,
        }
    }

    fn edge_range(&self, node: usize) -> std::ops::Range<usize> {
        let start = if node == 0 { 0 } else { self.edge_end[node - 1] as usize };
        start..self.edge_end[node] as usize
    }

    /// Sources of the node at a place.
    #[inline]
    pub fn edges(&self, node: usize) -> &[Edge] {
        &self.edges[self.edge_range(node)]
    }

    /// Replaces source number `i` of the node at a place, counted over the sources that are set.
    pub fn set_edge(&mut self, node: usize, i: usize, id: u32) {
        let range = self.edge_range(node);
        self.edges[range][i].id = id;
    }
}
