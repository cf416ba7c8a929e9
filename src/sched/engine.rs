//! The state of a scheduler, and the order in which its parts work: see `mod.rs` for the life of a graph.
#![forbid(unsafe_code)]

use super::cache::{GRAPHS_PER_COPY, GraphCache};
use super::cause::{Cause, Placement};
use super::compute::Run;
use super::experts::budget::Budget;
use super::experts::held::Held;
use super::offload::Offload;
use super::progress::{Progress, Stage};
use super::queues::Queues;
use super::report::View;
use super::report::fallback::Fallback;
use super::settings::Settings;
use super::spare::{Spare, drop_retired};
use super::split_graph::Life;
use super::{race, traced};
use crate::abi::ggml::ggml_status;
use crate::alloc::{GraphAllocator, Likeness, Misfit, Ticket};
use crate::backend::{BackendRef, BufferTypeRef};
use crate::error::{Error, Result};
use crate::graph::{GraphRef, next_uid};
use crate::tensor::TensorRef;
use crate::{ggml_abort, invalid};
use std::cell::RefCell;

/// A graph that is split, and that no plan serves.
pub struct Unplaced {
    why: Misfit,
    /// It has another number of tensors than the graph before.
    pub(super) is_resized: bool,
    begun: Option<u64>,
}

/// What has happened since the scheduler was made.
#[derive(Default)]
struct History {
    /// A bit for each operation of which the log has said that only the CPU computes it.
    warned_fallbacks: u128,
    /// Allocations that only put splits and addresses in place again.
    n_repeats: u64,
    /// Graphs that had the structure of an earlier one, so that nothing was placed for them.
    n_follows: u64,
}

/// What a scheduler consists of.
pub struct Engine {
    /// The backends, and what the host has set.
    pub(super) settings: Settings,
    /// What is in flight on the backends.
    queues: Queues,
    /// Plans and buffers.
    allocator: GraphAllocator,
    /// Memory that can be given up.
    spare: Spare,
    /// The results for earlier graphs. Its current entry belongs to the current graph.
    cache: GraphCache,
    /// The progress of the current graph.
    progress: Progress,
    history: History,
}

impl Engine {
    /// A scheduler over backends in the order of their priority, the last one a CPU (the contract). `bufts`: the buffer
    /// type each computes in; without it, its device's preferred one. `graph_size`: nodes to expect; larger graphs
    /// work.
    pub fn new(
        backends: &[BackendRef],
        bufts: Option<&[BufferTypeRef]>,
        graph_size: usize,
        parallel: bool,
        op_offload: bool,
    ) -> Self {
        race::start();
        let settings = Settings::new(backends, bufts, parallel, op_offload);
        let mut cache = GraphCache::new(&settings);
        cache.current_mut().0.ids.reserve(graph_size.min(1 << 24));
        Self {
            queues: Queues::new(&settings),
            allocator: allocator(&settings),
            spare: Spare::new(&settings),
            cache,
            progress: Progress::new(settings.n_copies),
            settings,
            history: History::default(),
        }
    }

    /// The backends in the order of their priority.
    pub fn backends(&self) -> &[BackendRef] {
        &self.settings.backends
    }

    /// The priority of a backend, if it is one of the scheduler's.
    pub fn index_of(&self, backend: BackendRef) -> Option<usize> {
        self.settings.backends.iter().position(|&b| b == backend)
    }

    /// The buffer type that a backend computes in.
    pub fn buffer_type(&self, index: usize) -> BufferTypeRef {
        self.settings.bufts[index]
    }

    /// Bytes of compute buffers of a backend; 0 where one of higher priority uses the same type.
    pub fn buffer_size(&self, index: usize) -> usize {
        self.allocator.buffer_size(index)
    }

    /// Splits of the graph that was split last.
    pub fn n_splits(&self) -> usize {
        self.cache.current().splits.len()
    }

    /// Copies that exist of each input.
    pub fn n_copies(&self) -> usize {
        self.settings.n_copies
    }

    /// Whether a graph is split and has its memory.
    pub fn is_allocated(&self) -> bool {
        self.progress.stage == Stage::Allocated
    }

    /// The graph that is split, for reports.
    ///
    /// # Errors
    /// No graph is split since the last reset.
    pub fn view(&self) -> Result<View<'_>> {
        let graph = self.cache.current();
        if self.progress.stage == Stage::Reset || graph.splits.is_empty() || graph.ids.is_empty() {
            return Err(invalid!("no graph is split: a report is made after the allocation and before the next reset"));
        }
        let (settings, allocator, experts) = (&self.settings, &self.allocator, self.spare.experts.as_ref());
        Ok(View { settings, graph, allocator, experts })
    }

    /// Nodes of the graph that is split that run on the CPU although there is an accelerator. None after a reset.
    pub fn fallbacks(&self) -> Vec<Fallback> {
        self.view().map_or(Vec::new(), |view| view.fallbacks())
    }

    /// Places a tensor of the next graph. Holds until the next reset.
    pub fn set_tensor_backend(&mut self, t: TensorRef, index: usize) {
        if self.progress.stage == Stage::Reset {
            self.progress.requests.set(t, index as i8);
        } else {
            let (current, _) = self.cache.current_mut();
            current.life = Life::Blank;
            current.place_for_user(t, index as i8);
        }
    }

    /// Where a tensor is, and why.
    pub fn placement(&self, t: TensorRef) -> Placement {
        if self.progress.stage == Stage::Reset {
            return self.progress.requests.get(t).map_or(Placement::default(), |b| Placement::new(b, Cause::USER));
        }
        self.cache.current().placement(t)
    }

    /// Forgets the graph and all placements, the host's too.
    pub fn reset(&mut self) {
        self.progress.reset();
    }

    /// As [`Self::reset`], and forgets everything that is known of earlier graphs, with their plans and buffers.
    pub fn start_over(&mut self) {
        self.queues.drain_all();
        self.cache = GraphCache::new(&self.settings);
        self.allocator = allocator(&self.settings);
        self.spare.start_over(&self.settings);
        self.progress = Progress::new(self.settings.n_copies);
    }

    /// Changes how much memory experts may take on devices, from the next graph on that is split after a reset.
    pub fn set_expert_budget(&mut self, budget: Budget) {
        self.spare.set_budget(budget);
    }

    /// Waits until all backends are done.
    pub fn synchronize(&self) {
        self.queues.drain_all();
        if !self.is_allocated() {
            // The same copy each time, so that backends that remember graphs see the same one again.
            self.progress.rewind();
        }
    }

    /// Places every tensor and splits the graph. Replaces sources in `graph` by copies.
    pub fn split_graph(&mut self, graph: GraphRef) -> Result<()> {
        self.split(graph, false)
    }

    /// As [`Self::split_graph`]. `may_repeat`: the graph is about to be allocated, and may be the first of many.
    fn split(&mut self, graph: GraphRef, may_repeat: bool) -> Result<()> {
        let result = self.try_split(graph, may_repeat);
        self.progress.requests.clear();
        let (current, _) = self.cache.current_mut();
        match result {
            Ok(life) => current.life = life,
            Err(_) => current.clear_splits(),
        }
        result.map(|_| ())
    }

    /// Returns what the entry is good for from now on. Until then, and after an error, it is blank.
    fn try_split(&mut self, graph: GraphRef, may_repeat: bool) -> Result<Life> {
        graph.set_uid(next_uid());
        let was_reset = self.progress.stage == Stage::Reset;
        if was_reset {
            self.spare.renew(&self.settings, &self.queues);
            if may_repeat {
                self.spare.meet(graph, &self.settings);
            }
        }
        let likeness = if was_reset {
            self.progress.stage = Stage::Split;
            self.cache.enter(graph, self.progress.copy, &self.settings)?
        } else {
            Likeness::None
        };
        let (current, pool) = self.cache.current_mut();
        let before = std::mem::take(&mut current.life);
        current.clear_splits();
        current.cur_copy = self.progress.copy;
        match before {
            // It could have been repeated, and was another graph after all.
            Life::Repeatable(ticket) if may_repeat && self.allocator.honours(ticket) => current.recall.failed(),
            _ => current.recall.forget(),
        }
        let follows = likeness != Likeness::None;
        if !follows {
            current.describe(graph, pool)?;
        }
        let user = self.progress.requests.list();
        if likeness == Likeness::Sizes && may_repeat {
            current.recall.consider(graph, &current.ids, user, self.progress.copy);
        }
        let mut experts = self.spare.experts.as_ref().map(RefCell::borrow_mut);
        let served = experts.as_mut().map(|server| (&mut **server, may_repeat));
        let warned = &mut self.history.warned_fallbacks;
        let helpers = (&self.spare.readers, self.spare.offload.as_ref());
        let is_kept = current.split(graph, &self.settings, pool, user, follows, warned, served, helpers);
        if let Some(mut server) = experts {
            drop_retired(&mut server, &self.queues);
        }
        let is_kept = is_kept?;
        self.history.n_follows += u64::from(is_kept);
        if self.settings.debug != 0 {
            let (settings, allocator, experts) = (&self.settings, &self.allocator, self.spare.experts.as_ref());
            View { settings, graph: current, allocator, experts }.print_assignments(graph);
        }
        let assembled = current.assemble(graph, &self.settings);
        self.progress.set_size(current.size);
        assembled?;
        current.begin_plans(&self.settings);
        // Split without a reset, the entry describes more than this graph.
        Ok(if was_reset { Life::Split } else { Life::Blank })
    }

    /// Bytes that each backend needs for a graph; makes no buffers.
    pub fn measure(&mut self, graph: GraphRef) -> Result<Vec<usize>> {
        self.reset();
        self.synchronize();
        self.split_graph(graph)?;
        let (problem, buffers) = self.cache.current_mut().0.owned_problem();
        self.allocator.measure(problem, buffers)
    }

    /// Makes buffers that suffice for a graph, and for those that are no larger. What the host has placed counts, and
    /// is forgotten afterwards.
    pub fn reserve(&mut self, graph: GraphRef) -> Result<()> {
        self.synchronize();
        if self.is_allocated() {
            self.progress.stage = Stage::Split;
        }
        self.split_graph(graph)?;
        let (problem, buffers) = self.cache.current_mut().0.owned_problem();
        let mut reserved = self.allocator.reserve(problem, buffers);
        while let Err(error) = reserved {
            self.give_way(error)?;
            self.split_graph(graph)?;
            let (problem, buffers) = self.cache.current_mut().0.owned_problem();
            reserved = self.allocator.reserve(problem, buffers);
        }
        self.allocator.set_node_bytes(bytes_of_nodes(graph));
        self.reset();
        Ok(())
    }

    /// Splits a graph and gives its tensors memory, or says why that takes another plan: [`Self::reallocate`] makes it.
    /// No graph must be allocated.
    pub fn alloc_graph(&mut self, graph: GraphRef) -> Result<Option<Unplaced>> {
        self.progress.advance();
        let begun = traced::begin();
        if self.progress.stage == Stage::Reset {
            self.spare.yield_memory(&self.settings, &self.queues);
        }
        if self.repeat(graph)? {
            self.progress.stage = Stage::Allocated;
            traced::step(begun, "recognise and bind", graph.n_nodes());
            return Ok(None);
        }
        self.split(graph, true)?;
        let current = self.cache.current();
        if let Err(why) = self.allocator.choose(current.problem(), &current.buffers) {
            return Ok(Some(Unplaced { why, is_resized: self.progress.is_resized(), begun }));
        }
        self.change_plan(self.allocator.ticket());
        let (current, _) = self.cache.current_mut();
        let mut bindings = std::mem::take(&mut current.bindings);
        let bound = match current.recall.is_valid() {
            true => self.allocator.bind_and_note(current.problem(), &mut bindings),
            false => self.allocator.bind(current.problem()),
        };
        current.bindings = bindings;
        bound?;
        self.has_memory(graph, begun);
        Ok(None)
    }

    /// Waits for graphs in flight if they use another plan than `to`: their tensors may be located in the same bytes as
    /// those of `to`.
    fn change_plan(&self, to: Ticket) {
        if !self.allocator.is_in_use(to) {
            // Not `synchronize`, which may change the copy in use.
            self.queues.drain_all();
        }
    }

    /// All tensors of a graph that was split are bound.
    fn has_memory(&mut self, graph: GraphRef, begun: Option<u64>) {
        let (current, _) = self.cache.current_mut();
        if current.life == Life::Split && current.recall.is_valid() {
            current.life = Life::Repeatable(self.allocator.ticket());
        }
        self.progress.stage = Stage::Allocated;
        traced::step(begun, "split and allocate", graph.n_nodes());
        if let Ok(view) = self.view() {
            view.report_if_asked(graph);
        }
    }

    /// Puts the splits and addresses of a graph in place again, when this is the same graph and its memory is still
    /// there.
    fn repeat(&mut self, graph: GraphRef) -> Result<bool> {
        if self.progress.stage != Stage::Reset || self.spare.is_new() {
            return Ok(false);
        }
        let honours = |ticket| self.allocator.honours(ticket);
        let Some(ticket) = self.cache.recognise(graph, self.progress.requests.list(), self.progress.copy, honours)
        else {
            return Ok(false);
        };
        let experts = self.spare.experts.as_ref().map(RefCell::borrow);
        let is_current =
            |held: &Held| held.is_current(experts.as_ref().map(|server| &server.cache), self.settings.may_hold());
        let current = self.cache.current();
        let era = self.spare.offload.as_ref().map_or(0, Offload::era);
        if !is_current(&current.held) || current.offload_era != era {
            self.cache.current_mut().0.life = Life::Split;
            return Ok(false);
        }
        graph.set_uid(next_uid());
        let (current, pool) = self.cache.current_mut();
        current.rewire(pool);
        if self.settings.debug != 0 {
            let (settings, allocator, experts) = (&self.settings, &self.allocator, self.spare.experts.as_ref());
            View { settings, graph: current, allocator, experts }.print_assignments(graph);
        }
        if !current.reorder_again(graph, &self.settings) {
            // A backend reordered its split differently this time: start again with the nodes in the host's order.
            current.life = Life::Split;
            return Ok(false);
        }
        self.progress.stage = Stage::Split;
        self.progress.requests.clear();
        self.progress.set_size(current.size);
        self.change_plan(ticket);
        self.allocator.bind_again(ticket, &self.cache.current().bindings)?;
        self.history.n_repeats += 1;
        Ok(true)
    }

    /// Whether a tensor of the current graph is in another buffer type than the tensor at the same place in the plan.
    pub fn moves(&self) -> bool {
        let current = self.cache.current();
        self.allocator.moves(current.problem(), &current.buffers)
    }

    /// Plans memory for the graph that was split last, makes larger buffers if the existing ones do not suffice, and
    /// binds its tensors.
    pub fn reallocate(&mut self, graph: GraphRef, unplaced: Unplaced) -> Result<()> {
        let Unplaced { why, is_resized, begun } = unplaced;
        // Other edges between tensors of the same sizes are no surprise.
        let surprising = !matches!(why, Misfit::Buffers | Misfit::Edges) && !is_resized;
        // With one backend the allocator is free to plan again.
        let debug_realloc = if self.settings.backends.len() == 1 { 0 } else { self.settings.debug_realloc };
        if debug_realloc > 1 && why != Misfit::Edges || debug_realloc > 0 && surprising {
            ggml_abort!(
                "unexpected graph reallocation ({why:?}): {} nodes and leafs, debug_realloc = {debug_realloc}",
                self.progress.size()
            );
        }
        // Buffers may move, so no backend may be using them. Not `synchronize`, which may change the copy in use.
        self.queues.drain_all();
        let (problem, buffers) = self.cache.current_mut().0.owned_problem();
        let mut planned = self.allocator.replan(problem, buffers);
        while let Err(error) = planned {
            self.give_way(error)?;
            self.split(graph, true)?;
            let (problem, buffers) = self.cache.current_mut().0.owned_problem();
            planned = self.allocator.replan(problem, buffers);
        }
        let (current, _) = self.cache.current_mut();
        self.allocator.bind_planned(&mut current.bindings)?;
        self.allocator.set_node_bytes(bytes_of_nodes(graph));
        self.has_memory(graph, begun);
        Ok(())
    }

    /// As [`Spare::give_way`], for the graph that was split.
    fn give_way(&mut self, error: Error) -> Result<()> {
        let (current, _) = self.cache.current_mut();
        self.spare.give_way(error, !current.ahead.is_empty(), &self.queues)?;
        current.place_again();
        Ok(())
    }

    /// Starts computing the graph that is allocated. The status is that of the first backend that fails.
    pub fn compute(&self) -> Result<ggml_status> {
        let (settings, queues, graph, spare) = (&self.settings, &self.queues, self.cache.current(), &self.spare);
        spare.offload.iter().for_each(Offload::consider);
        Run { settings, queues, graph, spare }.start()
    }
}

fn allocator(settings: &Settings) -> GraphAllocator {
    let mut allocator = GraphAllocator::new(&settings.bufts);
    allocator.keep_plans(GRAPHS_PER_COPY);
    allocator
}

/// What tests look into.
#[cfg(test)]
impl Engine {
    /// The entry of the cache that has the graph.
    pub(super) fn slot(&self) -> usize {
        self.cache.current().slot
    }

    pub(super) fn n_repeats(&self) -> u64 {
        self.history.n_repeats
    }

    pub(super) fn n_follows(&self) -> u64 {
        self.history.n_follows
    }

    pub(super) fn cur_copy(&self) -> usize {
        self.progress.copy
    }

    pub(super) fn ahead(&self) -> &[super::ahead::Ahead] {
        &self.cache.current().ahead
    }

    pub(super) fn splits(&self) -> &[super::split::Split] {
        &self.cache.current().splits
    }
}

/// Sum of the sizes of a graph's nodes in bytes, views included. It distinguishes graphs of the same shape with
/// different sizes.
fn bytes_of_nodes(graph: GraphRef) -> usize {
    graph.nodes().fold(0, |sum, t| sum.wrapping_add(t.nbytes()))
}
