//! The state of a scheduler, and the order in which its parts work.

use super::arena::Arena;
use super::assemble::{Kept, optimize};
use super::assign::Assigner;
use super::callbacks::{CopyWeights, Eval};
use super::cause::{Cause, Placement};
use super::flat::Flat;
use super::order::{Mask, Order};
use super::plans::Plans;
use super::report::fallback;
use super::rules::{Known, Rules};
use super::split::{Copies, Replaced, Split, Splitter};
use super::traced;
use super::{MAX_BACKENDS, MAX_COPIES, race};
use crate::abi::backend::ggml_backend_dev_type;
use crate::alloc::{Binding, GraphAllocator, Likeness, Misfit, Problem, Recall, TensorIds};
use crate::backend::{BackendRef, BufferTypeRef, EventBox};
use crate::error::Result;
use crate::graph::{GraphRef, next_uid};
use crate::tensor::TensorRef;
use crate::{ggml_abort, ggml_assert, invalid};
use std::cell::{Cell, RefCell};
use std::path::PathBuf;

/// Replaced sources that are remembered at most. Graphs that were split longer ago cannot be split again.
const MAX_REPLACED: usize = 1 << 20;

/// A graph that is split, and that the plan does not serve.
pub struct Unplaced {
    why: Misfit,
    /// It has another number of tensors than the graph before.
    pub(super) is_resized: bool,
    begun: Option<u64>,
}

/// What a scheduler consists of.
pub struct Engine {
    pub(super) backends: Vec<BackendRef>,
    pub(super) bufts: Vec<BufferTypeRef>,
    /// By backend and copy; `None` where a device has no events, empty without pipelining.
    pub(super) events: Vec<Option<EventBox>>,
    /// By backend: an event behind its last copy out of memory of a backend without a queue. Made when first needed.
    pub(super) copied: RefCell<Vec<Option<EventBox>>>,
    /// What is in flight.
    pub(super) order: RefCell<Order>,
    galloc: GraphAllocator,
    pub(super) n_copies: usize,
    pub(super) cur_copy: usize,
    next_copy: Cell<usize>,
    op_offload: bool,
    pub(super) debug: i32,
    debug_realloc: i32,
    pub(super) eval: Cell<Eval>,
    pub(super) copies_weights: Cell<CopyWeights>,
    /// No graph has been split since the last reset. What there is belongs to an earlier graph, which may come again.
    is_reset: bool,
    /// What the host has placed since the last reset, before the first split.
    user: Vec<(TensorRef, i8)>,
    user_ids: TensorIds,
    /// A graph is split and has its memory.
    is_alloc: bool,
    pub(super) ids: TensorIds,
    /// By tensor, from one reset to the next.
    pub(super) placed: Vec<Placement>,
    pub(super) flat: Flat,
    arena: Arena,
    replaced: Replaced,
    pub(super) copies: Copies,
    pub(super) splits: Vec<Split>,
    /// Sets of copies of the graph's inputs, with their backends, for a pipelining scheduler.
    pub(super) graph_inputs: Vec<(u32, usize)>,
    pub(super) problem: Problem,
    /// The graph is its own problem: there are no copies, and nothing is reordered.
    pub(super) is_plain: bool,
    /// Backend by place of `problem`.
    pub(super) buffers: Vec<i32>,
    pub(super) graph_size: usize,
    pub(super) prev_graph_size: usize,
    /// A bit for each operation of which has been said that only the CPU computes it.
    said_fallbacks: u128,
    /// Nodes of the graph that was last looked through for that.
    asked_fallbacks: usize,
    /// Where the environment wants a placement report.
    pub(super) report_path: Option<PathBuf>,
    /// Bytes of the nodes of the graph that memory was planned for last.
    pub(super) planned_bytes: usize,
    /// Some backend reorders its stretches.
    pub(super) reorders: bool,
    /// The nodes after that, and what backends wanted to keep.
    pub(super) reordered: Vec<TensorRef>,
    pub(super) kept: Kept,
    recall: Recall,
    /// The graph at hand is allocated, not only split: it may be the first of many.
    may_repeat: bool,
    rewired: Vec<(TensorRef, u8, TensorRef)>,
    known: Known,
    /// Nodes that the splitter has to look at.
    visits: Vec<u32>,
    /// What the host had placed in the graph that was split last, by number.
    wishes: Vec<(u32, i8)>,
    /// All that is placed was placed for one graph: after a reset, without an error, and before the split.
    may_follow: bool,
    pub(super) plans: Plans,
    /// Allocations that only put the last graph's splits and addresses in place again.
    n_repeats: u64,
    n_follows: u64,
    /// Where the last graph was bound, and with which plan.
    bindings: Vec<Binding>,
    bound_with: Option<u64>,
}

fn number_from_env(name: &str) -> i32 {
    let text = std::env::var(name).unwrap_or_default();
    // As C's `atoi`: what follows the digits does not matter.
    let text = text.trim_start();
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    sign * text[..digits].parse().unwrap_or(0)
}

impl Engine {
    /// A scheduler over backends in the order of their priority, the last one a CPU (the contract). `bufts`: the buffer
    /// type each computes in; without it, its device's preferred one. `graph_size`: nodes to expect; larger graphs work.
    pub fn new(
        backends: &[BackendRef],
        bufts: Option<&[BufferTypeRef]>,
        graph_size: usize,
        parallel: bool,
        op_offload: bool,
    ) -> Self {
        race::start();
        ggml_assert!(!backends.is_empty() && backends.len() <= MAX_BACKENDS, "{} backends", backends.len());
        let last = backends[backends.len() - 1].device();
        ggml_assert!(
            last.kind() == Some(ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_CPU),
            "the last backend of a scheduler must be a CPU, not {}",
            last.name()
        );
        let bufts = match bufts {
            Some(bufts) => bufts.to_vec(),
            None => backends.iter().map(|b| b.default_buffer_type()).collect(),
        };
        ggml_assert!(bufts.len() == backends.len());
        for (backend, &buft) in std::iter::zip(backends, &bufts) {
            ggml_assert!(backend.supports_buft(buft), "{} cannot use buffers of {}", backend.name(), buft.name());
        }
        let n_copies = if parallel { MAX_COPIES } else { 1 };
        let events = match parallel {
            true => backends.iter().flat_map(|b| (0..n_copies).map(|_| b.device().event_new())).collect(),
            false => Vec::new(),
        };
        let domain = bufts.iter().map(|t| bufts.iter().position(|o| o == t).unwrap_or(0)).collect();
        let queued = backends.iter().enumerate().fold(0, |m, (i, b)| m | Mask::from(b.has_queue()) << i);
        let order = Order::new(domain, queued);
        let mut ids = TensorIds::default();
        ids.reserve(graph_size.min(1 << 24));
        Self {
            backends: backends.to_vec(),
            galloc: GraphAllocator::new(&bufts),
            bufts,
            events,
            copied: RefCell::new(backends.iter().map(|_| None).collect()),
            order: RefCell::new(order),
            n_copies,
            cur_copy: 0,
            next_copy: Cell::new(0),
            op_offload,
            debug: number_from_env("GGML_SCHED_DEBUG"),
            debug_realloc: number_from_env("GGML_SCHED_DEBUG_REALLOC"),
            eval: Cell::default(),
            copies_weights: Cell::default(),
            is_reset: true,
            user: Vec::new(),
            user_ids: TensorIds::default(),
            is_alloc: false,
            ids,
            placed: Vec::new(),
            flat: Flat::default(),
            arena: Arena::default(),
            replaced: Replaced::new(),
            copies: Copies::new(0, backends.len(), n_copies),
            splits: Vec::new(),
            graph_inputs: Vec::new(),
            problem: Problem::default(),
            is_plain: false,
            buffers: Vec::new(),
            graph_size: 0,
            prev_graph_size: 0,
            said_fallbacks: 0,
            asked_fallbacks: 0,
            report_path: std::env::var_os("GGML_SCHED_REPORT").filter(|p| !p.is_empty()).map(PathBuf::from),
            planned_bytes: 0,
            reorders: backends.iter().any(|b| b.has_graph_optimize()),
            reordered: Vec::new(),
            kept: Kept::default(),
            recall: Recall::default(),
            may_repeat: false,
            rewired: Vec::new(),
            known: Known::default(),
            visits: Vec::new(),
            wishes: Vec::new(),
            may_follow: false,
            plans: Plans::default(),
            n_repeats: 0,
            n_follows: 0,
            bindings: Vec::new(),
            bound_with: None,
        }
    }

    /// The backends in the order of their priority.
    pub fn backends(&self) -> &[BackendRef] {
        &self.backends
    }

    /// The priority of a backend, if it is one of the scheduler's.
    pub fn index_of(&self, backend: BackendRef) -> Option<usize> {
        self.backends.iter().position(|&b| b == backend)
    }

    /// The buffer type that a backend computes in.
    pub fn buffer_type(&self, index: usize) -> BufferTypeRef {
        self.bufts[index]
    }

    /// Bytes of compute buffers of a backend; 0 where one of higher priority uses the same type.
    pub fn buffer_size(&self, index: usize) -> usize {
        self.galloc.buffer_size(index)
    }

    /// Stretches of the graph that was split last.
    pub fn n_splits(&self) -> usize {
        self.splits.len()
    }

    /// Copies that exist of each input.
    pub fn n_copies(&self) -> usize {
        self.n_copies
    }

    /// Whether placements and splits are of a graph that the host still has: nothing was reset since.
    pub(super) fn has_graph(&self) -> bool {
        !self.is_reset && !self.splits.is_empty()
    }

    /// Allocations of graphs that were recognised: nothing was placed, split or planned for them.
    #[cfg(test)]
    pub fn n_repeats(&self) -> u64 {
        self.n_repeats
    }

    /// Graphs that had the structure of the one before, so that nothing was placed for them.
    #[cfg(test)]
    pub fn n_follows(&self) -> u64 {
        self.n_follows
    }

    /// Places a tensor of the next graph. Holds until the next reset.
    pub fn set_tensor_backend(&mut self, t: TensorRef, index: usize) {
        if self.is_reset {
            let i = self.user_ids.insert(t) as usize;
            match self.user.get_mut(i) {
                Some(known) => known.1 = index as i8,
                None => self.user.push((t, index as i8)),
            }
        } else {
            self.recall.forget();
            self.may_follow = false;
            self.place_for_user(t, index as i8);
        }
    }

    /// Returns the tensor's number.
    fn place_for_user(&mut self, t: TensorRef, backend: i8) -> u32 {
        let id = self.ids.insert(t);
        if self.placed.len() <= id as usize {
            self.placed.resize(id as usize + 1, Placement::default());
        }
        self.placed[id as usize] = Placement::new(backend, Cause::USER);
        id
    }

    /// Where a tensor is, and why.
    pub fn placement(&self, t: TensorRef) -> Placement {
        if self.is_reset {
            let user = self.user_ids.get(t).map(|i| self.user[i as usize].1);
            return user.map_or(Placement::default(), |b| Placement::new(b, Cause::USER));
        }
        self.ids.get(t).and_then(|id| self.placed.get(id as usize)).copied().unwrap_or_default()
    }

    /// Forgets the graph and all placements, the host's too.
    pub fn reset(&mut self) {
        self.is_reset = true;
        self.user.clear();
        self.user_ids.clear();
        self.is_alloc = false;
    }

    /// Waits until all backends are done.
    pub fn synchronize(&self) {
        self.wait_for_all();
        if !self.is_alloc {
            // The same copy each time, so that backends that remember graphs see the same one again.
            self.next_copy.set(0);
        }
    }

    fn wait_for_all(&self) {
        for (i, b) in self.backends.iter().enumerate() {
            b.synchronize();
            self.order.borrow_mut().landed(i);
        }
    }

    /// Places every tensor and splits the graph. Replaces sources in `graph` by copies.
    pub fn split_graph(&mut self, graph: GraphRef) -> Result<()> {
        self.splits.clear();
        self.graph_inputs.clear();
        let result = self.try_split(graph);
        if result.is_err() {
            self.splits.clear();
            self.graph_inputs.clear();
            self.recall.forget();
            self.may_follow = false;
        }
        result
    }

    fn try_split(&mut self, graph: GraphRef) -> Result<()> {
        let was_reset = std::mem::replace(&mut self.is_reset, false);
        self.recall.forget();
        self.rewired.clear();
        graph.set_uid(next_uid());
        let (arena, replaced) = (&self.arena, &mut self.replaced);
        let mut restore = |node, slot, src| original(arena, replaced, node, slot, src);
        let may_follow = std::mem::replace(&mut self.may_follow, was_reset) && was_reset;
        let likeness = match may_follow {
            true => self.flat.follow(graph, &mut self.ids, &mut restore)?,
            false => Likeness::None,
        };
        let follows = likeness != Likeness::None;
        if !follows {
            if was_reset {
                self.ids.clear();
                self.placed.clear();
            }
            self.flat.fill(graph, &mut self.ids, restore)?;
        }
        if likeness == Likeness::Sizes && self.may_repeat {
            self.recall.consider(graph, &self.ids, &self.user, self.cur_copy);
        }
        // With the same wishes and the same answers the placement is the same.
        let wishes = self.user.iter().map(|&(t, backend)| (Some(t), backend));
        let known = self.wishes.iter().map(|&(id, backend)| (self.ids.tensors().get(id as usize).copied(), backend));
        let is_placed = follows && wishes.eq(known) && self.known.holds(&self.backends, &self.ids);
        if !is_placed {
            self.place_anew(follows);
        }
        self.user.clear();
        self.user_ids.clear();
        self.arena.reset();
        if self.replaced.len() > MAX_REPLACED {
            self.replaced.clear();
        }
        let n_ids = self.ids.len();
        self.copies.reset(n_ids);
        self.n_follows += u64::from(is_placed);
        let mut rules = Rules::new(&self.backends, &self.bufts, &self.ids, &mut self.known);
        if !is_placed {
            Assigner {
                rules: &mut rules,
                flat: &self.flat,
                ids: &self.ids,
                placed: &mut self.placed,
                op_offload: self.op_offload,
                n_open: 0,
            }
            .run()?;
        }
        // Graphs of as many nodes are mostly the same graph.
        if self.asked_fallbacks != graph.n_nodes() {
            self.asked_fallbacks = graph.n_nodes();
            fallback::warn(&mut rules, &self.flat, &self.placed, &mut self.said_fallbacks);
        }
        let mut splitter = Splitter {
            rules: &mut rules,
            flat: &mut self.flat,
            ids: &self.ids,
            placed: &self.placed,
            arena: &mut self.arena,
            copies: &mut self.copies,
            cur_copy: self.cur_copy,
            replaced: &mut self.replaced,
            rewired: &mut self.rewired,
        };
        if !is_placed {
            splitter.find_visits(&mut self.visits);
        }
        self.splits = splitter.run(&self.visits)?;
        if self.n_copies > 1 {
            self.graph_inputs = splitter.graph_inputs()?;
        }
        if self.debug != 0 {
            self.print_assignments(graph);
        }
        self.assemble(graph)?;
        for stretch in self.splits.iter_mut().filter_map(|s| s.graph.as_mut()) {
            stretch.uid = next_uid();
        }
        self.plans.begin(self.splits.iter().map(|s| self.backends[s.backend]));
        Ok(())
    }

    /// Begins the placement with what the host has placed. `of_graph`: what is placed already was placed for another graph.
    fn place_anew(&mut self, of_graph: bool) {
        if of_graph {
            self.placed.clear();
        }
        self.wishes.clear();
        for i in 0..self.user.len() {
            let (t, backend) = self.user[i];
            let id = self.place_for_user(t, backend);
            self.wishes.push((id, backend));
            if self.flat.problem.len() < self.ids.len() {
                // It is not of this graph. Numbers of copies come behind those of all tensors.
                self.flat.problem.add_stranger(t);
            }
        }
        self.known.clear(self.ids.len());
        self.placed.resize(self.ids.len(), Placement::default());
    }

    /// Makes `problem` one that the allocator can keep.
    fn own_problem(&mut self) {
        if self.is_plain {
            self.problem.copy_from(&self.flat.problem);
        }
    }

    /// Bytes that each backend needs for a graph; makes no buffers.
    pub fn measure(&mut self, graph: GraphRef) -> Result<Vec<usize>> {
        self.reset();
        self.synchronize();
        self.split_graph(graph)?;
        self.own_problem();
        self.galloc.measure(&mut self.problem, &self.buffers)
    }

    /// Makes buffers that suffice for a graph, and for those that are no larger. What the host has placed counts, and is
    /// forgotten afterwards.
    pub fn reserve(&mut self, graph: GraphRef) -> Result<()> {
        self.synchronize();
        self.is_alloc = false;
        self.split_graph(graph)?;
        self.own_problem();
        self.galloc.reserve(&mut self.problem, &self.buffers)?;
        self.planned_bytes = bytes_of_nodes(graph);
        self.reset();
        Ok(())
    }

    /// Splits a graph and gives its tensors memory, or says why that takes another plan: [`Self::reallocate`] makes it.
    pub fn alloc_graph(&mut self, graph: GraphRef) -> Result<Option<Unplaced>> {
        ggml_assert!(!self.is_alloc, "a graph is allocated already: reset first");
        self.cur_copy = self.next_copy.get();
        self.next_copy.set((self.cur_copy + 1) % self.n_copies);
        let begun = traced::begin();
        if self.repeat(graph)? {
            self.is_alloc = true;
            traced::step(begun, "recognise and bind", graph.n_nodes());
            return Ok(None);
        }
        self.may_repeat = true;
        let split = self.split_graph(graph);
        self.may_repeat = false;
        split?;
        self.bound_with = None;
        let problem = if self.is_plain { &self.flat.problem } else { &self.problem };
        match self.galloc.check(problem, &self.buffers) {
            Ok(()) if self.recall.is_valid() => self.galloc.bind_and_note(problem, &mut self.bindings)?,
            Ok(()) => self.galloc.bind(problem)?,
            Err(why) => {
                let is_resized = self.prev_graph_size != self.graph_size;
                return Ok(Some(Unplaced { why, is_resized, begun }));
            }
        }
        self.has_memory(graph, begun);
        Ok(None)
    }

    /// All tensors of a graph that was split are bound.
    fn has_memory(&mut self, graph: GraphRef, begun: Option<u64>) {
        self.bound_with = Some(self.galloc.generation());
        self.is_alloc = true;
        traced::step(begun, "split and allocate", graph.n_nodes());
        self.report_if_asked(graph);
    }

    /// Puts the last graph's splits and addresses in place again, when this is the same graph and has the same plan.
    fn repeat(&mut self, graph: GraphRef) -> Result<bool> {
        let same_plan = self.is_reset && self.bound_with == Some(self.galloc.generation());
        if !same_plan || !self.recall.recognises(graph, &self.ids, &self.user, self.cur_copy) {
            return Ok(false);
        }
        graph.set_uid(next_uid());
        for &(node, slot, copy) in &self.rewired {
            node.set_src(slot as usize, Some(copy));
        }
        self.copies.renew();
        if self.debug != 0 {
            self.is_reset = false;
            self.print_assignments(graph);
        }
        let uids: Vec<_> = self.splits.iter().map(|s| s.graph.as_ref().map_or(0, |g| g.uid)).collect();
        let kept = optimize(graph, &mut self.splits, &self.backends);
        for (split, uid) in std::iter::zip(&mut self.splits, uids) {
            // The same nodes at the same addresses: what a backend knows of them still holds.
            split.graph.iter_mut().for_each(|g| g.uid = uid);
        }
        if self.reorders && (kept != self.kept || !graph.nodes().eq(self.reordered.iter().copied())) {
            // A backend has changed its mind: everything is to be done anew, from the host's order on.
            for (i, &t) in self.ids.tensors()[graph.n_leafs()..][..graph.n_nodes()].iter().enumerate() {
                graph.set_node(i, t);
            }
            self.recall.forget();
            self.is_reset = true;
            return Ok(false);
        }
        self.is_reset = false;
        self.user.clear();
        self.user_ids.clear();
        self.prev_graph_size = self.graph_size;
        self.galloc.bind_again(&self.bindings)?;
        self.n_repeats += 1;
        Ok(true)
    }

    /// Whether the graph at hand has a tensor in another buffer type than the plan has at its place.
    pub(super) fn moves(&self) -> bool {
        let problem = if self.is_plain { &self.flat.problem } else { &self.problem };
        self.galloc.moves(problem, &self.buffers)
    }

    /// Plans memory for the graph that was split last, makes larger buffers where those there do not suffice, and binds its tensors.
    pub fn reallocate(&mut self, graph: GraphRef, unplaced: Unplaced) -> Result<()> {
        let Unplaced { why, is_resized, begun } = unplaced;
        // Another way through the same sizes is no surprise: only who reads whom has changed.
        let surprising = !matches!(why, Misfit::Buffers | Misfit::Edges) && !is_resized;
        // With one backend the allocator is free to plan anew.
        let debug_realloc = if self.backends.len() == 1 { 0 } else { self.debug_realloc };
        if debug_realloc > 1 && why != Misfit::Edges || debug_realloc > 0 && surprising {
            ggml_abort!(
                "unexpected graph reallocation ({why:?}): {} nodes and leafs, debug_realloc = {debug_realloc}",
                self.graph_size
            );
        }
        // Buffers may move, so nobody may use them. Not `synchronize`, which may change the copy in use.
        self.wait_for_all();
        self.own_problem();
        self.galloc.replan(&mut self.problem, &self.buffers)?;
        self.galloc.bind_planned(&mut self.bindings)?;
        self.planned_bytes = bytes_of_nodes(graph);
        self.has_memory(graph, begun);
        Ok(())
    }

    /// Whether a graph is split and has its memory.
    pub fn is_allocated(&self) -> bool {
        self.is_alloc
    }
}

/// What the nodes of a graph take, views included: tells a graph from one of the same shape with other sizes.
pub(super) fn bytes_of_nodes(graph: GraphRef) -> usize {
    graph.nodes().fold(0, |sum, t| sum.wrapping_add(t.nbytes()))
}

/// The source that a copy of ours stands for, or the source itself.
#[inline]
fn original(arena: &Arena, replaced: &Replaced, node: TensorRef, slot: usize, src: TensorRef) -> Result<TensorRef> {
    if !arena.contains(src) {
        return Ok(src);
    }
    restored(replaced, node, slot, src)
}

#[inline(never)]
fn restored(replaced: &Replaced, node: TensorRef, slot: usize, src: TensorRef) -> Result<TensorRef> {
    match replaced.get(&(node, slot as u8)) {
        Some(&(copy, tensor)) if copy == src => {
            node.set_src(slot, Some(tensor));
            Ok(tensor)
        }
        _ => Err(invalid!("a source of '{}' is a copy from an earlier split: build the graph anew", node.name())),
    }
}
