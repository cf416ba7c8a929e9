//! A graph as the planner sees it: numbers instead of pointers, in flat arrays.

use super::ids::{NONE, TensorIds};
use crate::graph::GraphRef;
use crate::tensor::TensorRef;

/// What is to be placed, in which order, and who reads whom.
///
/// Places of the graph are counted leafs first, then nodes. A tensor's number is the first place where it stands;
/// tensors that are only sources, or only bases of views, are numbered behind the places as they are met. Numbers of
/// two graphs can therefore be compared.
#[derive(Default)]
pub struct Problem {
    /// By number; `None` at places whose tensor has its number elsewhere.
    tensors: Vec<Option<TensorRef>>,
    n_leafs: usize,
    /// The number of the tensor at each place; `NONE` for a node that only keeps its sources alive.
    places: Vec<u32>,
    /// `srcs[src_end[i - 1]..src_end[i]]` are the sources of node `i`.
    src_end: Vec<u32>,
    srcs: Vec<u32>,
    /// By number: what the tensor is a view of.
    base: Vec<u32>,
    /// Numbers below this stand at a place or are read; the others are only bases of views.
    n_used: usize,
}

impl Problem {
    /// Empties the problem and keeps the memory.
    pub fn clear(&mut self) {
        self.tensors.clear();
        self.n_leafs = 0;
        self.places.clear();
        self.src_end.clear();
        self.srcs.clear();
        self.base.clear();
        self.n_used = 0;
    }

    fn place(&mut self, t: Option<TensorRef>, known: &mut u32) {
        let here = self.places.len() as u32;
        if *known == NONE {
            *known = here;
            self.tensors.push(t);
        } else {
            self.tensors.push(None);
        }
        self.places.push(*known);
        self.n_used = self.tensors.len();
    }

    /// Adds a leaf. `known` is the tensor's number, `NONE` when it has none yet and gets one. All leafs come first.
    pub fn leaf(&mut self, t: TensorRef, known: &mut u32) {
        self.place(Some(t), known);
        self.n_leafs += 1;
    }

    /// Adds a node behind the leafs.
    pub fn node(&mut self, t: TensorRef, known: &mut u32) {
        self.place(Some(t), known);
    }

    /// Adds a node that computes nothing: what its sources are lives at least until here.
    pub fn dependency(&mut self) {
        self.places.push(NONE);
        self.tensors.push(None);
    }

    /// Numbers a tensor that may stand at no place. All places come first.
    pub fn other(&mut self, t: TensorRef, known: &mut u32) {
        if *known == NONE {
            *known = self.tensors.len() as u32;
            self.tensors.push(Some(t));
        }
    }

    /// Adds a source to the node at hand, the first without an end.
    pub fn src(&mut self, id: u32) {
        self.srcs.push(id);
    }

    /// Ends the sources of the node at hand.
    pub fn end_node(&mut self) {
        self.src_end.push(self.srcs.len() as u32);
        self.n_used = self.tensors.len();
    }

    /// Says what a tensor is a view of. All sources come first, and `base` has a number.
    pub fn set_base(&mut self, id: u32, base: u32) {
        self.base.resize(self.tensors.len(), NONE);
        self.base[id as usize] = base;
    }

    /// Ends the description.
    pub fn finish(&mut self) {
        self.base.resize(self.tensors.len(), NONE);
    }

    /// Describes a graph; `ids` is scratch.
    pub fn describe(&mut self, graph: GraphRef, ids: &mut TensorIds) {
        self.clear();
        ids.clear();
        ids.reserve(graph.n_leafs() + graph.n_nodes());
        // By `ids`: the number here.
        let mut known: Vec<u32> = Vec::with_capacity(graph.n_leafs() + graph.n_nodes());
        let mut number = |t: TensorRef, known: &mut Vec<u32>| {
            let id = ids.insert(t) as usize;
            if id == known.len() {
                known.push(NONE);
            }
            id
        };
        for t in graph.leafs() {
            let id = number(t, &mut known);
            self.leaf(t, &mut known[id]);
        }
        for t in graph.nodes() {
            let id = number(t, &mut known);
            self.node(t, &mut known[id]);
        }
        for node in graph.nodes() {
            for (_, src) in node.srcs() {
                let id = number(src, &mut known);
                self.other(src, &mut known[id]);
                self.src(known[id]);
            }
            self.end_node();
        }
        for id in 0.. {
            if id == self.tensors.len() {
                break;
            }
            if let Some(base) = self.tensors[id].and_then(TensorRef::view_src) {
                let of_base = number(base, &mut known);
                self.other(base, &mut known[of_base]);
                self.set_base(id as u32, known[of_base]);
            }
        }
        self.finish();
    }

    /// Numbers given out, unused ones included.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Numbers of tensors that the graph computes or reads, unused ones included. Those behind are only bases of views:
    /// where they are is no business of the graph's.
    pub fn n_used(&self) -> usize {
        self.n_used
    }

    /// Whether there is nothing to place.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// The tensor with a number.
    #[inline]
    pub fn tensor(&self, id: u32) -> Option<TensorRef> {
        self.tensors.get(id as usize).copied().flatten()
    }

    /// Leafs.
    pub fn n_leafs(&self) -> usize {
        self.n_leafs
    }

    /// Nodes.
    pub fn n_nodes(&self) -> usize {
        self.src_end.len()
    }

    /// The tensors' numbers at the places of the leafs.
    pub fn leafs(&self) -> &[u32] {
        &self.places[..self.n_leafs]
    }

    /// The tensors' numbers at the places of the nodes; `NONE` for a dependency.
    pub fn nodes(&self) -> &[u32] {
        &self.places[self.n_leafs..]
    }

    /// Numbers of the sources of node `i`.
    #[inline]
    pub fn srcs(&self, i: usize) -> &[u32] {
        let start = if i == 0 { 0 } else { self.src_end[i - 1] as usize };
        &self.srcs[start..self.src_end[i] as usize]
    }

    /// The number of what a tensor is a view of, or `NONE`.
    #[inline]
    pub fn base(&self, id: u32) -> u32 {
        self.base[id as usize]
    }

    /// Where each node's sources end in the list of all sources.
    pub(super) fn src_ends(&self) -> &[u32] {
        &self.src_end
    }

    /// All sources, node after node.
    pub(super) fn all_srcs(&self) -> &[u32] {
        &self.srcs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_op::*;
    use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
    use crate::graph::build;
    use crate::tensor::Context;

    #[test]
    fn numbers_are_places_and_views_know_their_base() {
        let mut ctx = Context::with_size(1 << 20, true).unwrap();
        let a = ctx.new_tensor(GGML_TYPE_F32, &[8]).unwrap();
        let v = ctx.new_view(a, &[4], 0).unwrap();
        v.set_op(GGML_OP_VIEW);
        v.set_src(0, Some(a));
        let s = ctx.new_tensor(GGML_TYPE_F32, &[4]).unwrap();
        s.set_op(GGML_OP_ADD);
        s.set_src(0, Some(v));
        s.set_src(1, Some(v));
        let g = build::new(&mut ctx, 8, false).unwrap();
        g.expand(s, true);
        let mut p = Problem::default();
        p.describe(g, &mut TensorIds::default());
        assert_eq!((p.n_leafs(), p.n_nodes(), p.len()), (1, 2, 3));
        assert_eq!((p.leafs(), p.nodes()), (&[0][..], &[1, 2][..]));
        assert_eq!((p.srcs(0), p.srcs(1)), (&[0][..], &[1, 1][..]));
        assert_eq!((p.base(1), p.base(0), p.base(2)), (0, NONE, NONE));
    }
}
