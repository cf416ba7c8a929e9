//! A graph as the planner and the scheduler see it: numbers instead of pointers, in flat arrays.

use super::ids::{NONE, TensorIds};
use crate::abi::backend_impl::ggml_backend_buffer;
use crate::abi::ggml::{ggml_op, ggml_tensor_flag};
use crate::backend::BufferRef;
use crate::error::Result;
use crate::graph::GraphRef;
use crate::tensor::TensorRef;

/// Base of a tensor that has not been looked at.
const UNSEEN: u32 = u32::MAX - 1;

/// What a tensor is, as far as its lifetime depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traits(u8);

impl Traits {
    /// The host writes it before the graph runs.
    pub const INPUT: u8 = 1;
    /// The host reads it after the graph has run.
    pub const OUTPUT: u8 = 2;
    /// Has memory, or a buffer, that does not come from the plan.
    pub const EXTERNAL: u8 = 4;
    /// Looks at the memory of another tensor.
    pub const VIEW: u8 = 8;
    /// Computes nothing: a view with this operation does not prolong the life of its base by itself.
    pub const NO_OP: u8 = 16;
    /// Stands at a place or is read; otherwise it is only the base of a view.
    pub const USED: u8 = 32;
    /// Lies in a buffer of weights.
    pub const WEIGHTS: u8 = 64;
    /// Has a buffer, no data, and elements: nothing can be done with it.
    pub const HOLLOW: u8 = 128;

    /// Those that another one does not have.
    #[inline]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether one of the bits is set.
    #[inline]
    pub fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
    }
}

/// What is looked up in a tensor once, while it is in the cache.
#[derive(Clone, Copy, Debug)]
pub struct Fact {
    /// Its own buffer, or NULL.
    pub buffer: *mut ggml_backend_buffer,
    /// Bytes of its data, for a tensor that needs memory; for a view the bytes from its base's data to its own; else 0.
    pub bytes: usize,
    /// Its operation's number.
    pub op: i32,
    /// What it is.
    pub traits: Traits,
    /// For a node of the graph: its first source that is a weight, counted over those that are set, or [`NO_WEIGHT`].
    pub weight: u8,
}

/// No source is a weight.
pub const NO_WEIGHT: u8 = u8::MAX;

const UNKNOWN: Fact = Fact { buffer: std::ptr::null_mut(), bytes: 0, op: 0, traits: Traits(0), weight: NO_WEIGHT };

/// Nodes between the one that is looked at and the one that begins to be loaded.
const AHEAD: usize = 6;

impl Fact {
    /// Looks at a tensor.
    #[inline]
    pub fn of(t: TensorRef) -> Self {
        let (buffer, flags, op) = (t.buffer_raw(), t.flags(), t.op_raw());
        let mut bits = 0;
        let mut set = |on: bool, bit: u8| bits |= if on { bit } else { 0 };
        set(flags & ggml_tensor_flag::GGML_TENSOR_FLAG_INPUT as i32 != 0, Traits::INPUT);
        set(flags & ggml_tensor_flag::GGML_TENSOR_FLAG_OUTPUT as i32 != 0, Traits::OUTPUT);
        set(op == ggml_op::GGML_OP_NONE as i32, Traits::NO_OP);
        let (is_view, is_external) = (t.view_src().is_some(), !buffer.is_null() || !t.data().is_null());
        set(is_view, Traits::VIEW);
        set(is_external, Traits::EXTERNAL);
        // SAFETY: the buffer of a valid tensor is NULL or valid.
        if let Some(buffer) = unsafe { BufferRef::from_ptr(buffer) } {
            set(buffer.is_weights(), Traits::WEIGHTS);
            set(!is_view && t.data().is_null() && !t.is_empty(), Traits::HOLLOW);
        }
        let bytes = match (is_view, is_external) {
            (true, _) => t.view_offs(),
            (false, true) => 0,
            (false, false) => t.nbytes(),
        };
        Self { buffer, bytes, op, traits: Traits(bits), weight: NO_WEIGHT }
    }

    fn used(mut self) -> Self {
        self.traits.0 |= Traits::USED;
        self
    }

    /// Its own buffer.
    #[inline]
    pub fn buffer(&self) -> Option<BufferRef> {
        // SAFETY: the buffer of a valid tensor is NULL or valid.
        unsafe { BufferRef::from_ptr(self.buffer) }
    }
}

/// What is to be placed, in which order, and who reads whom.
///
/// Leafs are numbered first, then nodes, then what these read or are views of, as it is met. Numbers of two graphs can
/// therefore be compared.
#[derive(Default)]
pub struct Problem {
    /// By number.
    tensors: Vec<TensorRef>,
    facts: Vec<Fact>,
    base: Vec<u32>,
    /// The tensor's number at the place of each leaf.
    leafs: Vec<u32>,
    /// The tensor's number at the place of each node; `NONE` for a node that only keeps its sources alive.
    nodes: Vec<u32>,
    /// `srcs[src_end[i - 1]..src_end[i]]` are the sources of node `i`.
    src_end: Vec<u32>,
    srcs: Vec<u32>,
}

impl Problem {
    /// Empties the problem and keeps the memory.
    pub fn clear(&mut self) {
        self.tensors.clear();
        self.facts.clear();
        self.base.clear();
        self.leafs.clear();
        self.nodes.clear();
        self.src_end.clear();
        self.srcs.clear();
    }

    /// Describes a graph with the numbers of `ids`, which may hold some already. `restore` may give back another source
    /// for a node's source.
    pub fn describe(
        &mut self,
        graph: GraphRef,
        ids: &mut TensorIds,
        mut restore: impl FnMut(TensorRef, usize, TensorRef) -> Result<TensorRef>,
    ) -> Result<()> {
        self.clear();
        let (n_leafs, n_nodes) = (graph.n_leafs(), graph.n_nodes());
        ids.reserve(ids.len() + n_leafs + n_nodes);
        // Numbered by their places before anything is looked at.
        ids.expect(graph.nodes());
        self.leafs.reserve(n_leafs);
        self.nodes.reserve(n_nodes);
        ids.insert_all(graph.leafs(), &mut self.leafs);
        ids.insert_all(graph.nodes(), &mut self.nodes);
        self.base.resize(ids.len(), UNSEEN);
        self.facts.resize(ids.len(), UNKNOWN);
        self.src_end.reserve(n_nodes);
        self.srcs.reserve(2 * n_nodes);
        for i in 0..n_leafs {
            let id = self.leafs[i];
            self.see(ids.tensor(id), id, ids);
            self.facts[id as usize].traits.0 |= Traits::USED;
        }
        for i in 0..n_nodes {
            if let Some(&later) = self.nodes.get(i + AHEAD) {
                ids.tensor(later).prefetch();
            }
            let id = self.nodes[i];
            let node = ids.tensor(id);
            let (mut n_srcs, mut weight) = (0, NO_WEIGHT);
            for slot in 0..node.srcs_end() {
                let Some(src) = node.src(slot) else { continue };
                let src = self.number(restore(node, slot, src)?, ids);
                let traits = &mut self.facts[src as usize].traits;
                traits.0 |= Traits::USED;
                if traits.has(Traits::WEIGHTS) && weight == NO_WEIGHT {
                    weight = n_srcs;
                }
                n_srcs += 1;
                self.srcs.push(src);
            }
            self.src_end.push(self.srcs.len() as u32);
            // Most nodes are seen here for the first time, and are no views.
            if self.base[id as usize] == UNSEEN && node.view_src().is_none() {
                self.base[id as usize] = NONE;
                self.facts[id as usize] = Fact { weight, ..Fact::of(node).used() };
                continue;
            }
            self.see(node, id, ids);
            let fact = &mut self.facts[id as usize];
            fact.traits.0 |= Traits::USED;
            fact.weight = weight;
        }
        self.tensors.extend_from_slice(ids.tensors());
        Ok(())
    }

    #[inline]
    fn number(&mut self, t: TensorRef, ids: &mut TensorIds) -> u32 {
        let id = ids.insert(t);
        if self.base.len() <= id as usize {
            self.base.push(UNSEEN);
            self.facts.push(UNKNOWN);
        }
        self.see(t, id, ids);
        id
    }

    #[inline]
    fn see(&mut self, t: TensorRef, id: u32, ids: &mut TensorIds) {
        if self.base[id as usize] == UNSEEN {
            self.look(t, id, ids);
        }
    }

    /// Looks at a tensor for the first time.
    fn look(&mut self, t: TensorRef, id: u32, ids: &mut TensorIds) {
        self.base[id as usize] = NONE;
        let used = self.facts[id as usize].traits.0 & Traits::USED;
        self.facts[id as usize] = Fact::of(t);
        self.facts[id as usize].traits.0 |= used;
        if let Some(base) = t.view_src() {
            self.base[id as usize] = self.number(base, ids);
        }
    }

    /// Starts from the tensors of another problem, without places.
    pub fn start_from(&mut self, other: &Self) {
        self.clear();
        self.tensors.extend_from_slice(&other.tensors);
        self.facts.extend_from_slice(&other.facts);
        self.base.extend_from_slice(&other.base);
    }

    /// Makes this a copy of another problem.
    pub fn copy_from(&mut self, other: &Self) {
        self.start_from(other);
        self.leafs.extend_from_slice(&other.leafs);
        self.nodes.extend_from_slice(&other.nodes);
        self.src_end.extend_from_slice(&other.src_end);
        self.srcs.extend_from_slice(&other.srcs);
    }

    /// Adds a tensor that is no view. Its number is the next one.
    pub fn add_tensor(&mut self, t: TensorRef) {
        self.tensors.push(t);
        self.facts.push(Fact::of(t));
        self.base.push(NONE);
    }

    /// Adds a tensor that is not of the graph, and may not exist any more: it only has a number.
    pub fn add_stranger(&mut self, t: TensorRef) {
        self.tensors.push(t);
        self.facts.push(UNKNOWN);
        self.base.push(NONE);
    }

    /// Looks again at a tensor whose flags have changed.
    pub fn refresh(&mut self, id: u32) {
        let old = self.facts[id as usize];
        let new = &mut self.facts[id as usize];
        *new = Fact { weight: old.weight, ..Fact::of(self.tensors[id as usize]) };
        new.traits.0 |= old.traits.0 & Traits::USED;
    }

    /// Adds a leaf.
    pub fn leaf(&mut self, id: u32) {
        self.facts[id as usize].traits.0 |= Traits::USED;
        self.leafs.push(id);
    }

    /// Begins a node. Its sources follow, and then its end.
    pub fn node(&mut self, id: u32) {
        self.facts[id as usize].traits.0 |= Traits::USED;
        self.nodes.push(id);
    }

    /// Begins a node that computes nothing: what its sources are lives at least until here.
    pub fn dependency(&mut self) {
        self.nodes.push(NONE);
    }

    /// Adds a source to the node at hand.
    pub fn src(&mut self, id: u32) {
        self.facts[id as usize].traits.0 |= Traits::USED;
        self.srcs.push(id);
    }

    /// Ends the sources of the node at hand.
    pub fn end_node(&mut self) {
        self.src_end.push(self.srcs.len() as u32);
    }

    /// Adds the nodes at `places` of a problem that this one was started from, with their sources.
    pub fn append(&mut self, other: &Self, places: std::ops::Range<usize>) {
        let start = |node: usize| if node == 0 { 0 } else { other.src_end[node - 1] as usize };
        let (first, end) = (start(places.start), start(places.end));
        let here = self.srcs.len();
        self.srcs.extend_from_slice(&other.srcs[first..end]);
        self.src_end.extend(other.src_end[places.clone()].iter().map(|&end| (end as usize - first + here) as u32));
        self.nodes.extend_from_slice(&other.nodes[places]);
    }

    /// Gives tensors other numbers: `map` has the new number of each.
    pub fn renumber(&mut self, map: &[u32]) {
        let (tensors, facts, base) = (self.tensors.clone(), self.facts.clone(), self.base.clone());
        for (old, &new) in map.iter().enumerate() {
            self.tensors[new as usize] = tensors[old];
            self.facts[new as usize] = facts[old];
            self.base[new as usize] = base[old];
        }
        let lists = [&mut self.leafs, &mut self.nodes, &mut self.srcs, &mut self.base];
        for id in lists.into_iter().flatten() {
            if let Some(&new) = map.get(*id as usize) {
                *id = new;
            }
        }
    }

    /// Numbers given out.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there is nothing to place.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// The tensor with a number.
    #[inline]
    pub fn tensor(&self, id: u32) -> TensorRef {
        self.tensors[id as usize]
    }

    /// What is known of the tensor with a number.
    #[inline]
    pub fn fact(&self, id: u32) -> &Fact {
        &self.facts[id as usize]
    }

    /// What is known of all tensors.
    pub fn facts(&self) -> &[Fact] {
        &self.facts
    }

    /// The buffer that holds a tensor's data: for a view that of its base.
    #[inline]
    pub fn data_buffer(&self, id: u32) -> Option<BufferRef> {
        match self.base(id) {
            NONE => self.fact(id).buffer(),
            base => self.fact(base).buffer(),
        }
    }

    /// Leafs.
    pub fn n_leafs(&self) -> usize {
        self.leafs.len()
    }

    /// Nodes.
    pub fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The tensors' numbers at the places of the leafs.
    #[inline]
    pub fn leafs(&self) -> &[u32] {
        &self.leafs
    }

    /// The tensors' numbers at the places of the nodes; `NONE` for a dependency.
    #[inline]
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    #[inline]
    fn src_range(&self, node: usize) -> std::ops::Range<usize> {
        let start = if node == 0 { 0 } else { self.src_end[node - 1] as usize };
        start..self.src_end[node] as usize
    }

    /// Numbers of the sources of node `i`, those that are not set left out.
    #[inline]
    pub fn srcs(&self, i: usize) -> &[u32] {
        &self.srcs[self.src_range(i)]
    }

    /// Replaces source `i` of a node, counted over the sources that are set.
    pub fn set_src(&mut self, node: usize, i: usize, id: u32) {
        let range = self.src_range(node);
        self.srcs[range][i] = id;
    }

    /// The number of what a tensor is a view of, or `NONE`.
    #[inline]
    pub fn base(&self, id: u32) -> u32 {
        match self.base[id as usize] {
            UNSEEN => NONE,
            base => base,
        }
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
        p.describe(g, &mut TensorIds::default(), |_, _, src| Ok(src)).unwrap();
        assert_eq!((p.n_leafs(), p.n_nodes(), p.len()), (1, 2, 3));
        assert_eq!((p.leafs(), p.nodes()), (&[0][..], &[1, 2][..]));
        assert_eq!((p.srcs(0), p.srcs(1)), (&[0][..], &[1, 1][..]));
        assert_eq!((p.base(1), p.base(0), p.base(2)), (0, NONE, NONE));
        assert_eq!((p.fact(0).bytes, p.fact(1).bytes), (32, 0));
        assert!(p.fact(1).traits.has(Traits::VIEW) && p.fact(0).traits.has(Traits::NO_OP));
        let mut q = Problem::default();
        q.start_from(&p);
        q.dependency();
        q.src(2);
        q.end_node();
        q.append(&p, 1..2);
        q.append(&p, 0..1);
        assert_eq!(q.nodes(), [NONE, 2, 1]);
        assert_eq!((q.srcs(0), q.srcs(1), q.srcs(2)), (&[2][..], &[1, 1][..], &[0][..]));
        p.renumber(&[2, 1, 0]);
        assert_eq!((p.leafs(), p.nodes(), p.srcs(1), p.base(1)), (&[2][..], &[1, 0][..], &[1, 1][..], 2));
        assert_eq!((p.tensor(2), p.tensor(0)), (a, s));
    }
}
