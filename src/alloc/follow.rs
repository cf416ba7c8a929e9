//! A graph of the same structure as the one before: hosts build the same graph for each token, but with other sizes, as the
//! context grows, or in other memory. What stands where and who reads whom need not be found out again then: it is enough to
//! see that it is so.
//!
//! Each tensor of the new graph must lie where the one with its number lay, or, if it lies among the nodes, as much further as
//! the first node. That tells without a table that no two are the same. Everything that placement depends on is compared,
//! besides sizes and parameters, which only devices know how to read: they have to be asked again.

use super::ids::{NONE, Shift, TensorIds};
use super::problem::{AHEAD, Fact, Problem, Traits};
use crate::error::Result;
use crate::graph::GraphRef;
use crate::tensor::TensorRef;

/// The walk over the new graph.
struct Follower<'a> {
    facts: &'a mut [Fact],
    ids: &'a mut TensorIds,
    shift: Shift,
    /// The first number that has not been met.
    next: u32,
    /// Sizes were the same so far.
    same_sizes: bool,
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
        self.same_sizes &= old.bytes == new.bytes;
        old.bytes = new.bytes;
        (new.op, new.buffer) == (old.op, old.buffer) && new.traits.agrees(old.traits, !Traits::USED)
    }
}

impl Problem {
    /// Describes a graph that has the structure of the one that was described last with `ids`, from no number on. If it has
    /// not, neither the problem nor the numbers are of use until they are made anew. `restore` as for [`Self::describe`].
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
        let mut this = Follower { facts: &mut self.facts, ids, shift, next: 0, same_sizes: true };
        let meets_all = std::iter::zip(&self.leafs, graph.leafs()).all(|(&id, t)| this.meets_first(id, t))
            && std::iter::zip(&self.nodes, graph.nodes()).all(|(&id, t)| this.meets_first(id, t));
        if !meets_all {
            return Ok(Likeness::None);
        }
        for (i, (&id, leaf)) in std::iter::zip(&self.leafs, graph.leafs()).enumerate() {
            if let Some(&later) = self.leafs.get(i + AHEAD) {
                this.ids.tensor(later).prefetch();
            }
            if !this.is_same(id, leaf) {
                return Ok(Likeness::None);
            }
        }
        let mut start = 0;
        for (i, (&id, &end)) in std::iter::zip(&self.nodes, &self.src_end).enumerate() {
            if let Some(&later) = self.nodes.get(i + AHEAD) {
                this.ids.tensor(later).prefetch();
            }
            let node = this.ids.tensor(id);
            let mut expected = self.srcs[start..end as usize].iter();
            for slot in 0..node.srcs_end() {
                let Some(src) = node.src(slot) else { continue };
                let src = restore(node, slot, src)?;
                if !expected.next().is_some_and(|&id| this.meets(id, src)) {
                    return Ok(Likeness::None);
                }
            }
            if expected.next().is_some() || !this.is_same(id, node) {
                return Ok(Likeness::None);
            }
            start = end as usize;
        }
        let same_sizes = this.same_sizes;
        if this.next as usize != ids.len() {
            return Ok(Likeness::None);
        }
        ids.has_shifted(shift);
        self.tensors.clear();
        self.tensors.extend_from_slice(ids.tensors());
        Ok(if same_sizes && shift == Shift::NONE { Likeness::Sizes } else { Likeness::Structure })
    }
}
