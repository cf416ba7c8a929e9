//! From lifetimes to places: walks a graph in the order of its evaluation, plans each tensor when it is first needed
//! and gives its memory back after the last node that reads it, or a view of it. And the other way round: whether a
//! plan made for one graph is safe for another.

use super::inplace::can_inplace;
use super::planner::{Address, Planner};
use super::problem::{Fact, Problem, Traits};
use super::search::{self, Blocks, Heuristic};
use crate::backend::BufferTypeRef;
use crate::error::Result;
use crate::ggml_assert;
use crate::graph::ids::NONE;
use crate::tensor::TensorRef;

/// The buffer types that tensors are planned in. A host may name one type several times; those share a planner.
pub struct Targets<'a> {
    /// The types as the host gave them.
    pub bufts: &'a [BufferTypeRef],
    /// Which planner each uses.
    pub group_of: &'a [usize],
    /// By buffer type: whether it may require more bytes for a tensor than the tensor has.
    pub expands: &'a [bool],
}

impl Targets<'_> {
    /// Bytes that a tensor with `bytes` of data takes in a buffer of type `buffer`.
    #[inline]
    fn alloc_size(&self, buffer: i32, t: TensorRef, bytes: usize) -> usize {
        if self.expands[buffer as usize] { self.bufts[buffer as usize].alloc_size(t) } else { bytes }
    }
}

/// Where a tensor goes.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// Index of the buffer type, or -1: not placed by the plan (a view, or memory of its own).
    pub buffer: i32,
    /// Where in that type's chunks.
    pub at: Address,
    /// Bytes planned, unpadded.
    pub size: usize,
    /// The source whose memory it took over.
    over: u32,
    /// In memory from before the first node until after the last one.
    lasting: bool,
}

const UNPLACED: Placed =
    Placed { buffer: -1, at: Address { chunk: 0, offset: 0 }, size: 0, over: NONE, lasting: false };

/// Why a plan cannot be used for a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// There is no plan, or its buffers could not be had.
    NoPlan,
    /// Another number of nodes, leafs or sources.
    Counts,
    /// A place moves to another buffer type.
    Buffers,
    /// A tensor needs more than was planned, or was not planned at all.
    Size,
    /// Counts and sizes agree, but lifetimes do not, for example because nodes read other tensors.
    Edges,
}

/// How good a plan is, for one buffer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Quality {
    /// Bytes of the plan.
    pub bytes: usize,
    /// Bytes of the plan that is made on the way through the graph.
    pub online: usize,
    /// Most bytes in use at once: no plan can do with less. 0 when the plan was made in a hurry, for one graph.
    pub bound: usize,
    /// What made the plan.
    pub heuristic: Heuristic,
}

/// A plan and the graph that it was made for.
#[derive(Default)]
pub struct MemoryPlan {
    made: bool,
    problem: Problem,
    placed: Vec<Placed>,
    blocks: Blocks,
    /// By number: the block that holds the tensor.
    block_of: Vec<u32>,
    /// By planner: how good the plan is.
    quality: Vec<Quality>,
    /// Buffer index by place, leafs first; empty: all in the first.
    buffers: Vec<i32>,
}

/// The walk.
struct Walk<'a> {
    targets: &'a Targets<'a>,
    planners: &'a mut [Planner],
    problem: &'a Problem,
    placed: &'a mut [Placed],
    blocks: &'a mut Blocks,
    /// By number: the block that holds it.
    block: Vec<u32>,
    /// Index of the current node.
    step: u32,
    /// Nodes that have yet to read the tensor.
    readers: Vec<i32>,
    /// Views of the tensor that are still read. May go below zero: a view that is a leaf is not counted, but counts
    /// back.
    views: Vec<i32>,
    /// Memory of the plan is held for the tensor.
    held: Vec<bool>,
    /// No node has been walked yet.
    at_start: bool,
}

impl Walk<'_> {
    #[inline]
    fn traits(&self, id: u32) -> Traits {
        self.problem.fact(id).traits
    }

    /// Plans the tensor if it needs memory and has none. `node`: its place among the nodes, if the caller knows it.
    fn allocate(&mut self, id: u32, buffer: i32, node: Option<usize>) -> Result<()> {
        let i = id as usize;
        ggml_assert!(
            usize::try_from(buffer).is_ok_and(|b| b < self.targets.bufts.len()),
            "buffer {buffer} of {}",
            self.targets.bufts.len()
        );
        if self.held[i] || self.traits(id).has(Traits::EXTERNAL | Traits::VIEW) {
            return Ok(());
        }
        self.held[i] = true;
        let t = self.problem.tensor(id);
        if can_inplace(t.op()) && self.take_over(id, t, node)? {
            return Ok(());
        }
        let size = self.targets.alloc_size(buffer, t, self.problem.fact(id).bytes);
        let group = self.targets.group_of[buffer as usize];
        let at = self.planners[group].alloc(size)?;
        self.block[i] = self.blocks.begin(group as u32, self.step, self.planners[group].padded(size)?);
        self.placed[i] = Placed { buffer, at, size, over: NONE, lasting: self.at_start };
        Ok(())
    }

    /// Gives a node the memory of a source of the same layout that no later node reads.
    fn take_over(&mut self, id: u32, t: TensorRef, node: Option<usize>) -> Result<bool> {
        // Rare: a tensor that is needed before its place among the nodes, or that is not among them.
        let Some(node) = node.or_else(|| self.problem.nodes().iter().position(|&n| n == id)) else { return Ok(false) };
        for &src in self.problem.srcs(node) {
            let s = src as usize;
            let free_after =
                self.held[s] && self.readers[s] == 1 && self.views[s] == 0 && !self.traits(src).has(Traits::OUTPUT);
            let parent = self.problem.tensor(src);
            if !free_after || !t.same_layout(parent) {
                continue;
            }
            let under = self.placed[s];
            let size = self.targets.alloc_size(under.buffer, t, self.problem.fact(id).bytes);
            let planner = &mut self.planners[self.targets.group_of[under.buffer as usize]];
            let (needed, there) = (planner.padded(size)?, planner.padded(under.size)?);
            if size > under.size {
                debug_assert!(parent != t);
                continue;
            }
            self.placed[s].lasting = false;
            self.held[s] = false;
            self.placed[id as usize] = Placed { size, over: src, lasting: false, ..under };
            self.block[id as usize] = self.block[s];
            if there > needed {
                let tail = Address { offset: under.at.offset + needed, ..under.at };
                planner.free(tail, there - needed)?;
                self.blocks.shrink(self.block[s], self.step, needed);
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Gives the tensor's memory back, unless the host will look at it.
    fn release(&mut self, id: u32) -> Result<()> {
        let i = id as usize;
        if !self.held[i] || self.traits(id).has(Traits::OUTPUT) {
            return Ok(());
        }
        self.held[i] = false;
        self.placed[i].lasting = false;
        self.blocks.end(self.block[i], self.step);
        let p = self.placed[i];
        self.planners[self.targets.group_of[p.buffer as usize]].free(p.at, p.size)
    }

    /// One reader of `id` is done.
    fn read(&mut self, id: u32) -> Result<()> {
        let i = id as usize;
        self.readers[i] -= 1;
        if self.readers[i] != 0 || self.views[i] != 0 {
            return Ok(());
        }
        match self.problem.base(id) {
            NONE => self.release(id),
            base => {
                let b = base as usize;
                self.views[b] -= 1;
                if self.views[b] == 0 && self.readers[b] == 0 { self.release(base) } else { Ok(()) }
            }
        }
    }

    fn run(&mut self, buffer_of: impl Fn(usize) -> i32) -> Result<()> {
        let problem = self.problem;
        let n_leafs = problem.n_leafs();
        // Leafs first, even those that no node reads: the host may write them.
        for (place, &id) in problem.leafs().iter().enumerate() {
            self.allocate(id, buffer_of(place), None)?;
        }
        // Inputs before all nodes, so that no node writes where the host has already written.
        for (n, &id) in problem.nodes().iter().enumerate() {
            let buffer = buffer_of(n_leafs + n);
            if id != NONE {
                let traits = self.traits(id);
                if traits.has(Traits::VIEW) && !traits.has(Traits::NO_OP) {
                    self.views[problem.base(id) as usize] += 1;
                }
                if traits.has(Traits::INPUT) {
                    self.allocate(id, buffer, Some(n))?;
                }
            }
            for &src in problem.srcs(n) {
                self.readers[src as usize] += 1;
                if self.traits(src).has(Traits::INPUT) {
                    self.allocate(src, buffer, None)?;
                }
            }
        }
        self.at_start = false;
        for (n, &id) in problem.nodes().iter().enumerate() {
            let buffer = buffer_of(n_leafs + n);
            self.step = n as u32;
            for &src in problem.srcs(n) {
                self.allocate(src, buffer, None)?;
            }
            if id != NONE {
                self.allocate(id, buffer, Some(n))?;
            }
            for &src in problem.srcs(n) {
                self.read(src)?;
            }
        }
        Ok(())
    }
}

/// A quick check whether a tensor fits the plan. True for a tensor that needs memory if it took over no source's
/// memory, is not larger than planned, and is an input or output only if it was planned as one. True also for a tensor
/// that has memory, and for a view of the same tensor as before. `expands`: a buffer type may require more bytes than a
/// tensor has.
#[inline]
fn is_as_planned(fact: &Fact, old: &Fact, place: &Placed, expands: bool) -> bool {
    if fact.traits.has(Traits::VIEW) {
        return old.base() == fact.base() && fact.traits.agrees(old.traits, Traits::VIEW | Traits::NO_OP);
    }
    if fact.traits.has(Traits::EXTERNAL) {
        return true;
    }
    place.over == NONE
        && place.buffer >= 0
        && !expands
        && fact.bytes <= place.size
        && !fact.traits.without(old.traits).has(Traits::INPUT | Traits::OUTPUT)
}

impl MemoryPlan {
    /// The graph that the plan was made for.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Where the tensor with a number goes.
    #[inline]
    pub fn placed(&self, id: u32) -> Placed {
        self.placed.get(id as usize).copied().unwrap_or(UNPLACED)
    }

    /// How good the plan is, by planner.
    #[cfg(test)]
    pub fn quality(&self) -> &[Quality] {
        &self.quality
    }

    /// Makes the plan for `problem`, which is taken, with the plan's old one left in its place. `buffers`: index of the
    /// buffer type by place, leafs first; empty: the first for all.
    pub fn make(
        &mut self,
        problem: &mut Problem,
        targets: &Targets<'_>,
        planners: &mut [Planner],
        buffers: &[i32],
    ) -> Result<()> {
        self.made = false;
        std::mem::swap(&mut self.problem, problem);
        let n = self.problem.len();
        self.buffers.clear();
        self.buffers.extend_from_slice(buffers);
        self.placed.clear();
        self.placed.resize(n, UNPLACED);
        self.blocks.clear();
        planners.iter_mut().for_each(Planner::reset);
        let mut walk = Walk {
            targets,
            planners,
            problem: &self.problem,
            placed: &mut self.placed,
            blocks: &mut self.blocks,
            block: vec![NONE; n],
            step: 0,
            readers: vec![0; n],
            views: vec![0; n],
            held: vec![false; n],
            at_start: true,
        };
        walk.run(|place| buffers.get(place).copied().unwrap_or(if buffers.is_empty() { 0 } else { -1 }))?;
        self.block_of = walk.block;
        self.blocks.finish(self.problem.n_nodes() as u32);
        self.quality.clear();
        self.quality.extend(planners.iter().map(|p| Quality {
            bytes: p.total(),
            online: p.total(),
            ..Quality::default()
        }));
        self.made = true;
        Ok(())
    }

    /// Looks for a smaller plan than the one just made, and takes it where there is one.
    pub fn improve(&mut self, targets: &Targets<'_>, planners: &mut [Planner]) {
        for (g, planner) in planners.iter_mut().enumerate() {
            self.quality[g].bound = self.blocks.lower_bound(g as u32);
            let found = search::search(&self.blocks, g as u32, planner.max_chunk(), planner.total());
            let Some((layout, heuristic)) = found else { continue };
            for (placed, &block) in std::iter::zip(&mut self.placed, &self.block_of) {
                if placed.buffer >= 0 && targets.group_of[placed.buffer as usize] == g {
                    placed.at = layout.at[block as usize];
                }
            }
            self.quality[g].bytes = layout.total();
            self.quality[g].heuristic = heuristic;
            planner.set_sizes(&layout.chunks);
        }
    }

    /// Whether the plan is safe for `new`: sizes fit, and each tensor is read only while the plan keeps its memory.
    ///
    /// Tensors that do not live in the plan, or that stay in memory from the first node to the last, may change places
    /// with each other: that is how the copies of a pipelined graph rotate.
    pub fn fits(&self, new: &Problem, targets: &Targets<'_>, buffers: &[i32]) -> std::result::Result<(), Misfit> {
        if !self.made {
            return Err(Misfit::NoPlan);
        }
        let old = &self.problem;
        if old.n_leafs() != new.n_leafs() || old.src_ends() != new.src_ends() {
            return Err(Misfit::Counts);
        }
        if !buffers.is_empty() && !self.same_targets(buffers, targets) {
            return Err(Misfit::Buffers);
        }
        // Memory of the plan is used by the tensor, or by what it is a view of, for part of the graph only.
        let bound = |id: u32| {
            let root = if new.base(id) == NONE { id } else { new.base(id) };
            !new.fact(root).traits.has(Traits::EXTERNAL) && !self.placed(root).lasting
        };
        let expands = targets.expands.contains(&true);
        let planned = std::iter::zip(old.facts(), &self.placed);
        for (id, (fact, (old, place))) in std::iter::zip(new.facts(), planned).enumerate() {
            if fact.traits.has(Traits::USED) && !is_as_planned(fact, old, place, expands) {
                self.fits_tensor(new, id as u32, &bound, targets)?;
            }
        }
        for (id, fact) in new.facts().iter().enumerate().skip(old.len()) {
            if fact.traits.has(Traits::USED) {
                self.fits_tensor(new, id as u32, &bound, targets)?;
            }
        }
        let same = |old: &[u32], new: &[u32]| {
            old == new || std::iter::zip(old, new).all(|(&old, &new)| old == new || new == NONE || !bound(new))
        };
        let edges =
            same(old.leafs(), new.leafs()) && same(old.nodes(), new.nodes()) && same(old.all_srcs(), new.all_srcs());
        if edges { Ok(()) } else { Err(Misfit::Edges) }
    }

    /// Whether a leaf or a node of `new` has its memory in another buffer type than the leaf or node at its place in
    /// the plan; where the plan has none, than the first.
    pub fn moves(&self, new: &Problem, targets: &Targets<'_>, buffers: &[i32]) -> bool {
        let group = |b: i32| usize::try_from(b).ok().and_then(|b| targets.group_of.get(b));
        let n_leafs = if self.made { self.problem.n_leafs() } else { 0 };
        let (old_leafs, old_nodes) = self.buffers.split_at(n_leafs.min(self.buffers.len()));
        let (leafs, nodes) = buffers.split_at(new.n_leafs().min(buffers.len()));
        [(old_leafs, leafs), (old_nodes, nodes)]
            .into_iter()
            .any(|(old, new)| new.iter().enumerate().any(|(i, b)| group(*b) != group(old.get(i).copied().unwrap_or(0))))
    }

    fn same_targets(&self, buffers: &[i32], targets: &Targets<'_>) -> bool {
        if self.buffers == buffers {
            return true;
        }
        let group = |b: &i32| usize::try_from(*b).ok().and_then(|b| targets.group_of.get(b));
        self.buffers.len() == buffers.len()
            && std::iter::zip(&self.buffers, buffers).all(|(a, b)| a == b || group(a) == group(b))
    }

    fn fits_tensor(
        &self,
        new: &Problem,
        id: u32,
        bound: &impl Fn(u32) -> bool,
        targets: &Targets<'_>,
    ) -> std::result::Result<(), Misfit> {
        let fact = new.fact(id);
        let traits = fact.traits;
        let planned = self.problem.facts().get(id as usize).map_or(Traits::default(), |f| f.traits);
        if traits.has(Traits::VIEW) {
            let same = planned.has(Traits::VIEW)
                && self.problem.base(id) == new.base(id)
                && planned.has(Traits::NO_OP) == traits.has(Traits::NO_OP);
            return if same || !bound(id) { Ok(()) } else { Err(Misfit::Edges) };
        }
        if traits.has(Traits::EXTERNAL) {
            return Ok(());
        }
        let place = self.placed(id);
        if place.buffer < 0 || targets.alloc_size(place.buffer, new.tensor(id), fact.bytes) > place.size {
            return Err(Misfit::Size);
        }
        let kept = |bit| !traits.has(bit) || planned.has(bit);
        if !(place.lasting || kept(Traits::INPUT) && kept(Traits::OUTPUT)) {
            return Err(Misfit::Edges);
        }
        if place.over != NONE {
            let t = new.tensor(id);
            let under = (place.over as usize) < new.len();
            if under && !(can_inplace(t.op()) && t.same_layout(new.tensor(place.over))) {
                return Err(Misfit::Edges);
            }
        }
        Ok(())
    }
}
