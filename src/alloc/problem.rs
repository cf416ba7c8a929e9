//! A graph as the planner and the scheduler see it: numbers instead of pointers, in flat arrays.

use crate::abi::backend_impl::ggml_backend_buffer;
use crate::abi::ggml::{GGML_MAX_SRC, ggml_op, ggml_tensor_flag};
use crate::backend::BufferRef;
use crate::error::Result;
use crate::graph::GraphRef;
use crate::graph::ids::{NONE, TensorIds};
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
    /// Is a leaf or a node, or is read; otherwise it is only the base of a view.
    pub const USED: u8 = 32;
    /// Is in a buffer of weights.
    pub const WEIGHTS: u8 = 64;
    /// Has a buffer, no data, and elements: nothing can be done with it.
    pub const HOLLOW: u8 = 128;

    /// Those that another one does not have.
    #[inline]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether each of the bits is set in both or in neither.
    #[inline]
    pub fn agrees(self, other: Self, bits: u8) -> bool {
        (self.0 ^ other.0) & bits == 0
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
    /// The number of what it is a view of, or `NONE`; `UNSEEN` before it is looked at.
    pub(super) base: u32,
    /// Its operation's number; `u16::MAX` when that is none.
    pub op: u16,
    /// What it is.
    pub traits: Traits,
    /// For a node of the graph: its first source that is a weight, counted over those that are set, or [`NO_WEIGHT`].
    pub weight: u8,
}

/// No source is a weight.
pub const NO_WEIGHT: u8 = u8::MAX;

const UNKNOWN: Fact =
    Fact { buffer: std::ptr::null_mut(), bytes: 0, base: UNSEEN, op: 0, traits: Traits(0), weight: NO_WEIGHT };

const _: () = assert!(size_of::<Fact>() <= 24);

/// Nodes between the one that is looked at and the one that begins to be loaded.
pub(super) const AHEAD: usize = 6;

impl Fact {
    /// Looks at a tensor, as at one that is no view.
    #[inline]
    pub(super) fn of(t: TensorRef) -> Self {
        Self::plain(t).unwrap_or_else(|| Self::outline(t).with_memory(t))
    }

    /// Looks at a tensor, if it has no memory yet and is no view, as most nodes.
    #[inline]
    pub(super) fn plain(t: TensorRef) -> Option<Self> {
        let is_plain = t.buffer_raw().is_null() && t.data().is_null() && t.view_src().is_none();
        is_plain.then(|| Self { bytes: t.nbytes(), ..Self::outline(t) })
    }

    /// What is known without looking at memory.
    #[inline]
    fn outline(t: TensorRef) -> Self {
        const FLAGS: u8 = Traits::INPUT | Traits::OUTPUT;
        const _: () = {
            assert!(Traits::INPUT as i32 == ggml_tensor_flag::GGML_TENSOR_FLAG_INPUT as i32);
            assert!(Traits::OUTPUT as i32 == ggml_tensor_flag::GGML_TENSOR_FLAG_OUTPUT as i32);
        };
        let op = u16::try_from(t.op_raw()).unwrap_or(u16::MAX);
        let no_op = if op == ggml_op::GGML_OP_NONE as u16 { Traits::NO_OP } else { 0 };
        let traits = Traits(t.flags() as u8 & FLAGS | no_op);
        Self { buffer: t.buffer_raw(), bytes: 0, base: NONE, op, traits, weight: NO_WEIGHT }
    }

    /// The rest, of a view or a tensor that has memory.
    #[inline]
    fn with_memory(mut self, t: TensorRef) -> Self {
        let (is_view, is_null) = (t.view_src().is_some(), t.data().is_null());
        if is_view {
            self.traits.0 |= Traits::VIEW;
            self.bytes = t.view_offs();
        }
        if let Some(buffer) = self.buffer() {
            self.traits.0 |= Traits::EXTERNAL | if buffer.is_weights() { Traits::WEIGHTS } else { 0 };
            if !is_view && is_null && !t.is_empty() {
                self.traits.0 |= Traits::HOLLOW;
            }
        } else if !is_null {
            self.traits.0 |= Traits::EXTERNAL;
        }
        self
    }

    /// What it is a view of, or `NONE`.
    #[inline]
    pub fn base(&self) -> u32 {
        if self.base == UNSEEN { NONE } else { self.base }
    }

    /// Its own buffer.
    #[inline]
    pub fn buffer(&self) -> Option<BufferRef> {
        // SAFETY: the buffer of a valid tensor is NULL or valid.
        unsafe { BufferRef::from_ptr(self.buffer) }
    }
}

/// The tensors to place, their order, and the sources of each node.
///
/// Leafs are numbered first, then nodes, then what these read or are views of, as it is met. Numbers of two graphs can
/// therefore be compared.
#[derive(Default)]
pub struct Problem {
    /// By number.
    pub(super) tensors: Vec<TensorRef>,
    pub(super) facts: Vec<Fact>,
    /// The tensor's number at the place of each leaf.
    pub(super) leafs: Vec<u32>,
    /// The tensor's number at the place of each node; `NONE` for a node that only keeps its sources alive.
    pub(super) nodes: Vec<u32>,
    /// `srcs[src_end[i - 1]..src_end[i]]` are the sources of node `i`.
    pub(super) src_end: Vec<u32>,
    pub(super) srcs: Vec<u32>,
    /// Sources that were replaced since the graph was described: the index in `srcs`, and the source before.
    replaced: Vec<(u32, u32)>,
    /// Tensors that were read again since then, and the facts that were known of them before.
    refreshed: Vec<(u32, Fact)>,
}

impl Problem {
    /// Empties the problem and keeps the memory.
    pub fn clear(&mut self) {
        self.tensors.clear();
        self.facts.clear();
        self.leafs.clear();
        self.nodes.clear();
        self.src_end.clear();
        self.srcs.clear();
        self.replaced.clear();
        self.refreshed.clear();
    }

    /// Describes a graph with the numbers of `ids`, which may hold some already. `restore` may give back another source
    /// for a node's source.
    ///
    /// # Errors
    /// A node is its own source where that has no meaning, or `restore` fails.
    pub fn describe(
        &mut self,
        graph: GraphRef,
        ids: &mut TensorIds,
        mut restore: impl FnMut(TensorRef, usize, TensorRef) -> Result<TensorRef>,
    ) -> Result<()> {
        self.clear();
        let (n_leafs, n_nodes) = (graph.n_leafs(), graph.n_nodes());
        ids.reserve(ids.len() + n_leafs + n_nodes);
        // Leafs and nodes get numbers by their places before any of them is read. In memory, inputs are beside the
        // nodes, and move with them; leafs that have memory are older than the graph.
        let inputs = graph.leafs().filter(|t| t.buffer_raw().is_null() && t.data().is_null());
        ids.expect(graph.nodes(), inputs);
        self.leafs.reserve(n_leafs);
        self.nodes.reserve(n_nodes);
        ids.insert_all(graph.leafs(), &mut self.leafs);
        ids.insert_all(graph.nodes(), &mut self.nodes);
        self.facts.resize(ids.len(), UNKNOWN);
        self.src_end.resize(n_nodes, 0);
        // Room for all there can be. What is not needed is cut off again.
        self.srcs.resize(n_nodes * GGML_MAX_SRC, 0);
        let mut end = 0;
        for i in 0..n_leafs {
            if let Some(&later) = self.leafs.get(i + AHEAD) {
                ids.tensor(later).prefetch();
            }
            let id = self.leafs[i];
            self.seen(ids.tensor(id), id, ids).traits.0 |= Traits::USED;
        }
        for (i, node) in graph.nodes().enumerate() {
            if let Some(&later) = self.nodes.get(i + AHEAD) {
                ids.tensor(later).prefetch();
            }
            let (first, mut weight) = (end, NO_WEIGHT);
            for slot in 0..node.srcs_end() {
                let Some(src) = node.src(slot) else { continue };
                let src = match src == node && !node.may_read_itself(slot) {
                    true => Err(node.reads_itself(slot)),
                    false => restore(node, slot, src),
                };
                // Half a description must not be mistaken for that of a graph.
                let src = src.inspect_err(|_| self.clear())?;
                let number = ids.insert(src);
                let traits = &mut self.seen(src, number, ids).traits;
                traits.0 |= Traits::USED;
                if traits.has(Traits::WEIGHTS) && weight == NO_WEIGHT {
                    weight = (end - first) as u8;
                }
                self.srcs[end] = number;
                end += 1;
            }
            self.src_end[i] = end as u32;
            let id = self.nodes[i];
            let fact = &mut self.facts[id as usize];
            // Most nodes are seen here for the first time.
            if fact.base == UNSEEN
                && let Some(plain) = Fact::plain(node)
            {
                *fact = Fact { traits: Traits(plain.traits.0 | Traits::USED), weight, ..plain };
                continue;
            }
            let fact = self.seen(node, id, ids);
            fact.traits.0 |= Traits::USED;
            fact.weight = weight;
        }
        self.srcs.truncate(end);
        self.tensors.extend_from_slice(ids.tensors());
        Ok(())
    }

    /// What is known of a tensor, which is looked at when it is met for the first time.
    #[inline]
    fn seen(&mut self, t: TensorRef, id: u32, ids: &mut TensorIds) -> &mut Fact {
        if self.facts.get(id as usize).is_none_or(|fact| fact.base == UNSEEN) {
            self.look(t, id, ids);
        }
        &mut self.facts[id as usize]
    }

    /// Looks at a tensor for the first time. It is known already, or its number is the next one.
    #[inline(never)]
    fn look(&mut self, t: TensorRef, id: u32, ids: &mut TensorIds) {
        let mut fact = Fact::of(t);
        match self.facts.get_mut(id as usize) {
            Some(place) => *place = fact,
            None => self.facts.push(fact),
        }
        if let Some(base) = t.view_src() {
            fact.base = ids.insert(base);
            self.facts[id as usize] = fact;
            self.seen(base, fact.base, ids);
        }
    }

    /// Starts from the tensors of another problem, without places.
    pub fn start_from(&mut self, other: &Self) {
        self.clear();
        self.tensors.extend_from_slice(&other.tensors);
        self.facts.extend_from_slice(&other.facts);
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
    }

    /// Adds a tensor that is not of the graph, and may not exist any more: it only has a number.
    pub fn add_stranger(&mut self, t: TensorRef) {
        self.tensors.push(t);
        self.facts.push(UNKNOWN);
    }

    /// Looks again at a tensor whose flags have changed.
    pub fn refresh(&mut self, id: u32) {
        let old = self.facts[id as usize];
        self.refreshed.push((id, old));
        let new = &mut self.facts[id as usize];
        *new = Fact { base: old.base, weight: old.weight, ..Fact::of(self.tensors[id as usize]) };
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

    /// Adds a source to the current node.
    pub fn src(&mut self, id: u32) {
        self.facts[id as usize].traits.0 |= Traits::USED;
        self.srcs.push(id);
    }

    /// Ends the sources of the current node.
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
        let (tensors, facts) = (self.tensors.clone(), self.facts.clone());
        for (old, &new) in map.iter().enumerate() {
            self.tensors[new as usize] = tensors[old];
            self.facts[new as usize] = facts[old];
        }
        let lists = [&mut self.leafs, &mut self.nodes, &mut self.srcs];
        for id in lists.into_iter().flatten().chain(self.facts.iter_mut().map(|fact| &mut fact.base)) {
            if let Some(&new) = map.get(*id as usize) {
                *id = new;
            }
        }
    }

    /// Numbers given out.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// The tensor with a number.
    #[inline]
    pub fn tensor(&self, id: u32) -> TensorRef {
        self.tensors[id as usize]
    }

    /// All tensors by number.
    pub fn tensors(&self) -> &[TensorRef] {
        &self.tensors
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
        let at = self.src_range(node).start + i;
        self.replaced.push((at as u32, self.srcs[at]));
        self.srcs[at] = id;
    }

    /// Undoes what was replaced and refreshed since the graph was described.
    pub(super) fn as_described(&mut self) {
        while let Some((at, id)) = self.replaced.pop() {
            self.srcs[at as usize] = id;
        }
        while let Some((id, fact)) = self.refreshed.pop() {
            self.facts[id as usize] = fact;
        }
    }

    /// The number of what a tensor is a view of, or `NONE`.
    #[inline]
    pub fn base(&self, id: u32) -> u32 {
        self.facts[id as usize].base()
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
