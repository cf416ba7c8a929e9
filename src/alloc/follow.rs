//! Recognises a graph of the same structure as the one before. Hosts build the same graph for each token, but with
//! other sizes as the context grows, or in other memory. The places of its tensors and the sources of its nodes are
//! then known already: it is enough to check that they are the same.
//!
//! Each tensor of the new graph must have the address that the tensor with its number had before or, if that was among
//! the nodes in memory, an address that has moved by as much as that of the first node. This shows without a table that
//! no two numbers have the same tensor. Everything that placement depends on is compared, except for sizes and
//! parameters: only devices can interpret them, so they must be queried again.

use super::problem::{AHEAD, Fact, Problem, Traits};
use crate::error::Result;
use crate::graph::GraphRef;
use crate::graph::ids::{NONE, Shift, TensorIds};
use crate::tensor::TensorRef;

/// The walk over the new graph.
struct Follower<'a> {
    facts: &'a mut [Fact],
    ids: &'a mut TensorIds,
    shift: Shift,
    /// The first number that has not been met.
    next: u32,
    /// Sizes that were others: by number, what was known before.
    resized: Vec<(u32, usize)>,
}

/// How much a graph is like the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Likeness {
    /// It has another structure.
    None,
    /// The same structure, with other sizes or elsewhere.
    Structure,
    /// And, as far as can be seen without a look at parameters, all else.
    Sizes,
}

impl Follower<'_> {
    /// Whether a tensor is the one with a number.
    #[inline]
    fn meets(&mut self, id: u32, t: TensorRef) -> bool {
        if id < self.next { self.ids.tensor(id) == t } else { self.meets_first(id, t) && self.is_same(id, t) }
    }

    /// As [`Self::meets`] for the next number; nothing is compared yet.
    #[inline]
    fn meets_first(&mut self, id: u32, t: TensorRef) -> bool {
        if id < self.next {
            return self.ids.tensor(id) == t;
        }
        self.next += 1;
        id + 1 == self.next && self.ids.follow(id, t, self.shift)
    }

    /// Whether all that is known of a number, but its size, holds for the tensor that now has it. Writes the size down.
    #[inline]
    fn is_same(&mut self, id: u32, t: TensorRef) -> bool {
        let Some(new) = Fact::plain(t) else { return self.is_same_memory(id, t) };
        self.agrees(id, &new) && self.facts[id as usize].base() == NONE
    }

    /// As [`Self::is_same`], of a view or a tensor that has memory.
    #[inline(never)]
    fn is_same_memory(&mut self, id: u32, t: TensorRef) -> bool {
        let base = self.facts[id as usize].base();
        self.agrees(id, &Fact::of(t))
            && match t.view_src() {
                None => base == NONE,
                Some(view_src) => base != NONE && self.meets(base, view_src),
            }
    }

    #[inline]
    fn agrees(&mut self, id: u32, new: &Fact) -> bool {
        let old = &mut self.facts[id as usize];
        if old.bytes != new.bytes {
            self.resized.push((id, old.bytes));
            old.bytes = new.bytes;
        }
        (new.op, new.buffer) == (old.op, old.buffer) && new.traits.agrees(old.traits, !Traits::USED)
    }

    /// Whether the graph has the structure that is known.
    fn follow(
        &mut self,
        graph: GraphRef,
        known: &Structure<'_>,
        restore: &mut impl FnMut(TensorRef, usize, TensorRef) -> Result<TensorRef>,
    ) -> Result<bool> {
        let meets_all = std::iter::zip(known.leafs, graph.leafs()).all(|(&id, t)| self.meets_first(id, t))
            && std::iter::zip(known.nodes, graph.nodes()).all(|(&id, t)| self.meets_first(id, t));
        if !meets_all {
            return Ok(false);
        }
        for (i, (&id, leaf)) in std::iter::zip(known.leafs, graph.leafs()).enumerate() {
            if let Some(&later) = known.leafs.get(i + AHEAD) {
                self.ids.tensor(later).prefetch();
            }
            if !self.is_same(id, leaf) {
                return Ok(false);
            }
        }
        let mut start = 0;
        for (i, (&id, &end)) in std::iter::zip(known.nodes, known.src_end).enumerate() {
            if let Some(&later) = known.nodes.get(i + AHEAD) {
                self.ids.tensor(later).prefetch();
            }
            let node = self.ids.tensor(id);
            let mut expected = known.srcs[start..end as usize].iter();
            for slot in 0..node.srcs_end() {
                let Some(src) = node.src(slot) else { continue };
                let src = restore(node, slot, src)?;
                if !expected.next().is_some_and(|&id| self.meets(id, src)) {
                    return Ok(false);
                }
            }
            if expected.next().is_some() || !self.is_same(id, node) {
                return Ok(false);
            }
            start = end as usize;
        }
        Ok(self.next as usize == self.ids.len())
    }

    /// Puts numbers and sizes back: `tensors` had the numbers before.
    fn undo(&mut self, tensors: &[TensorRef]) {
        self.ids.put_back(&tensors[..self.next as usize]);
        for (id, bytes) in self.resized.drain(..) {
            self.facts[id as usize].bytes = bytes;
        }
    }
}

/// Leafs and nodes in their order, and the sources of each node, as numbers.
struct Structure<'a> {
    leafs: &'a [u32],
    nodes: &'a [u32],
    src_end: &'a [u32],
    srcs: &'a [u32],
}

impl Problem {
    /// Describes a graph that has the structure of the one that was described last with `ids`, from no number on. If it
    /// has not, the problem and the numbers stay as they were. `restore` as for [`Self::describe`].
    pub fn follow(
        &mut self,
        graph: GraphRef,
        ids: &mut TensorIds,
        mut restore: impl FnMut(TensorRef, usize, TensorRef) -> Result<TensorRef>,
    ) -> Result<Likeness> {
        let (n_leafs, n_nodes) = (graph.n_leafs(), graph.n_nodes());
        if n_nodes == 0 || (n_leafs, n_nodes) != (self.leafs.len(), self.nodes.len()) || self.facts.len() != ids.len() {
            return Ok(Likeness::None);
        }
        self.as_described();
        let shift = ids.shift(self.nodes[0], graph.node(0));
        let known = Structure { leafs: &self.leafs, nodes: &self.nodes, src_end: &self.src_end, srcs: &self.srcs };
        let mut this = Follower { facts: &mut self.facts, ids, shift, next: 0, resized: Vec::new() };
        let result = this.follow(graph, &known, &mut restore);
        if !matches!(result, Ok(true)) {
            this.undo(&self.tensors);
            return result.map(|_| Likeness::None);
        }
        let same_sizes = this.resized.is_empty();
        ids.has_shifted(shift);
        self.tensors.clear();
        self.tensors.extend_from_slice(ids.tensors());
        Ok(if same_sizes && shift == Shift::NONE { Likeness::Sizes } else { Likeness::Structure })
    }
}
