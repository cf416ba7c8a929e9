//! The graphs that a scheduler remembers. Hosts alternate between a few: prompt and text, batches of two sizes, the
//! copies of a pipeline. Each has its own entry, so that the next graph does not overwrite what was worked out for this
//! one. The least recently used entry makes room, or the last one if its graph came only once: a host whose graphs are
//! always new works in the same memory then, which is in the processor's cache.
//!
//! A snapshot of [`graph::memo`](crate::graph::memo) says whether a graph is the one of an entry (`alloc::recall`). Its
//! list of graphs is of no use here: an entry also serves graphs that only have the structure of the one before.
#![forbid(unsafe_code)]

use super::arena::CopyPool;
use super::settings::Settings;
use super::split_graph::{Life, SplitGraph};
use crate::alloc::{Likeness, Ticket};
use crate::error::Result;
use crate::graph::GraphRef;
use crate::sys::small_sort;
use crate::tensor::TensorRef;

/// Graphs that are remembered, for each copy of the pipeline.
pub const GRAPHS_PER_COPY: usize = 4;
/// With more tensors than these in all entries, none is added. A tensor takes some 300 bytes.
const MAX_TENSORS: usize = 1 << 17;
/// Shapes that an entry had before, which are remembered.
const PAST_SHAPES: usize = 2;
/// Every fourth overwrite takes the least recently used entry. Otherwise two alternating graphs could keep overwriting
/// each other while other entries are unused.
const OLDEST_EVERY: usize = 4;

/// A place in the cache.
struct CachedSplits {
    graph: SplitGraph,
    /// A digest of the graph's address and sizes.
    shape: u64,
    /// The shapes before that, the latest first. A graph with one of these gets its own entry: the host alternates.
    past: Vec<u64>,
    /// When it was used last.
    used: u64,
    /// Its graph came more than once.
    came_again: bool,
}

/// The entries. One is current: the graph that the scheduler was given last.
pub struct GraphCache {
    entries: Vec<CachedSplits>,
    current: usize,
    max_entries: usize,
    clock: u64,
    /// Graphs that took the entry of another.
    n_overwritten: usize,
    /// Copies of all graphs.
    pub pool: CopyPool,
}

/// Distinguishes graphs of one structure by their inputs. If different graphs have equal shapes, that costs time and
/// nothing else.
fn shape_of(graph: GraphRef) -> u64 {
    let mix = |hash: u64, value: usize| (hash ^ value as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let inputs = graph.leafs().filter(|t| t.buffer_raw().is_null() && t.data().is_null());
    let hash = inputs.fold(0, |hash, t| mix(hash, t.nbytes()));
    match graph.n_nodes() {
        0 => hash,
        n => mix(mix(hash, graph.node(0).as_ptr() as usize), graph.node(n - 1).nbytes()),
    }
}

impl GraphCache {
    /// One entry, without a graph.
    pub fn new(settings: &Settings) -> Self {
        let mut this = Self {
            entries: Vec::new(),
            current: 0,
            max_entries: GRAPHS_PER_COPY * settings.n_copies,
            clock: 0,
            n_overwritten: 0,
            pool: CopyPool::default(),
        };
        this.add(settings);
        this
    }

    /// The current graph.
    pub fn current(&self) -> &SplitGraph {
        &self.entries[self.current].graph
    }

    /// The current graph, to change it, and the pool in which its copies are made.
    pub fn current_mut(&mut self) -> (&mut SplitGraph, &mut CopyPool) {
        (&mut self.entries[self.current].graph, &mut self.pool)
    }

    fn add(&mut self, settings: &Settings) -> usize {
        let slot = self.entries.len();
        let graph = SplitGraph::new(slot, settings);
        self.entries.push(CachedSplits { graph, shape: 0, past: Vec::new(), used: 0, came_again: false });
        slot
    }

    fn make_current(&mut self, slot: usize) {
        self.clock += 1;
        self.entries[slot].used = self.clock;
        self.current = slot;
    }

    /// Finds the entry of this very graph, computed in the same way, whose memory is still there: `honours` says of
    /// which tickets it is. Makes it current and returns its ticket.
    pub fn recognise(
        &mut self,
        graph: GraphRef,
        user: &[(TensorRef, i8)],
        cur_copy: usize,
        honours: impl Fn(Ticket) -> bool,
    ) -> Option<Ticket> {
        let found = self.entries.iter().enumerate().find_map(|(slot, entry)| match entry.graph.life {
            Life::Repeatable(ticket) if honours(ticket) => {
                let g = &entry.graph;
                g.recall.matches(graph, user, cur_copy).then_some((slot, ticket))
            }
            _ => None,
        });
        let (slot, ticket) = found?;
        self.make_current(slot);
        self.entries[slot].came_again = true;
        self.entries[slot].graph.recall.succeeded();
        Some(ticket)
    }

    /// Selects the entry for a graph that is about to be split, and returns how much the graph is like the one before
    /// in that entry. A graph of the same structure follows; any other gets a blank entry.
    pub fn enter(&mut self, graph: GraphRef, cur_copy: usize, settings: &Settings) -> Result<Likeness> {
        let shape = shape_of(graph);
        let counts = (graph.n_leafs(), graph.n_nodes());
        let may_follow = |e: &CachedSplits| {
            let g = &e.graph;
            g.life != Life::Blank && g.cur_copy == cur_copy && (g.flat.leafs().len(), g.flat.nodes().len()) == counts
        };
        let mut slots: Vec<usize> = (0..self.entries.len()).filter(|&slot| may_follow(&self.entries[slot])).collect();
        let key = |slot: usize| (self.entries[slot].shape != shape, u64::MAX - self.entries[slot].used);
        small_sort::sort(&mut slots, |&a, &b| key(a) < key(b));
        let takes_turns = slots.iter().any(|&slot| self.entries[slot].past.contains(&shape));
        for slot in slots {
            let entry = &mut self.entries[slot];
            let is_other = entry.shape != shape;
            if is_other && takes_turns {
                break;
            }
            let likeness = entry.graph.follow(graph, &self.pool)?;
            if likeness == Likeness::None {
                continue;
            }
            if is_other {
                entry.past.insert(0, std::mem::replace(&mut entry.shape, shape));
                entry.past.truncate(PAST_SHAPES);
            }
            entry.came_again = true;
            self.make_current(slot);
            return Ok(likeness);
        }
        let slot = self.vacate(settings);
        let entry = &mut self.entries[slot];
        entry.came_again = false;
        entry.shape = shape;
        entry.past.clear();
        entry.graph.life = Life::Blank;
        entry.graph.recall.forget();
        entry.graph.ids.clear();
        entry.graph.placed.clear();
        entry.graph.cur_copy = cur_copy;
        self.make_current(slot);
        Ok(Likeness::None)
    }

    /// A blank entry, or a new one, or one to overwrite.
    fn vacate(&mut self, settings: &Settings) -> usize {
        let is_blank = |e: &CachedSplits| e.graph.life == Life::Blank;
        if let Some(slot) = self.entries.iter().position(is_blank) {
            return slot;
        }
        let n_tensors: usize = self.entries.iter().map(|e| e.graph.ids.len()).sum();
        if self.entries.len() < self.max_entries && n_tensors < MAX_TENSORS {
            return self.add(settings);
        }
        self.n_overwritten += 1;
        if !self.n_overwritten.is_multiple_of(OLDEST_EVERY) && !self.entries[self.current].came_again {
            return self.current;
        }
        self.entries.iter().enumerate().min_by_key(|(_, e)| e.used).map_or(0, |(slot, _)| slot)
    }
}
