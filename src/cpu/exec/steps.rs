//! The steps of a graph: what the threads compute between two barriers.
//!
//! A step is one large node that all threads compute together, with others like it that need nothing of it, or a run of
//! small nodes that thread 0 computes alone. What a large node first computes in scratch memory ([`Shared`]) is left to
//! thread 0 at the end of a run before it if it is small. So a layer of a llama has nine barriers for one token, not
//! sixteen: query, key and value are one step, gate and up another.
#![forbid(unsafe_code)]

use super::super::access::overlaps;
use super::super::check::{CheckedGraph, Serial};
use super::super::checked::{CheckedNode, Kernel, Shared};
use super::super::threadpool::Pool;
use super::super::worker::Scratch;
use crate::abi::ggml::GGML_MAX_N_THREADS;
use crate::tensor::TensorRef;
use std::ops::Range;

/// Maximum number of nodes that a node may pass to join an earlier step.
const LOOK_BACK: usize = 24;
/// Elements of a node that joins an earlier step, so that its pieces can be counted in 32 bits.
const JOIN_BELOW: i64 = 1 << 31;

/// One node that all threads compute together, with nodes that do not depend on each other, or several that thread 0
/// computes alone.
pub(super) struct Step {
    pub nodes: Range<usize>,
    pub wide: bool,
}

/// A node to compute.
pub(super) struct Planned {
    /// Its number in the checked graph.
    pub number: u32,
    pub kernel: Kernel,
    /// Whether scratch memory has what it would compute there ([`Shared`]).
    pub kept: bool,
    /// Whether threads may still compute an earlier node of the step, so that the kernel must not wait for them.
    pub joined: bool,
    /// Whether `kernel` only prepares scratch memory for the node.
    pub prepares: bool,
}

/// The steps of a graph for a number of threads.
pub struct Steps {
    /// The check of the graph that was divided.
    pub(super) serial: Serial,
    pub(super) nodes: Vec<Planned>,
    pub(super) steps: Vec<Step>,
    /// Number of threads that the host requested.
    asked: usize,
    pub(super) n_threads: usize,
    pub(super) scratch: usize,
}

impl Steps {
    /// Steps for `n_threads` threads, but no more than `pool` has, or than a pool of this library can have.
    pub fn new(graph: &CheckedGraph<'_>, n_threads: usize, pool: Option<&Pool>) -> Self {
        let asked = useful_threads(n_threads, pool);
        let mut builder = Builder::with_capacity(graph.n_nodes());
        let (mut n_threads, mut scratch) = (1, 0);
        for (i, node) in graph.nodes().enumerate() {
            let Some(kernel) = node.row().kernel.filter(|_| !node.is_empty()) else { continue };
            let wide = asked > 1 && node.is_wide();
            if let Some(f) = node.row().scratch {
                scratch = scratch.max(f(*node, if wide { asked } else { 1 }));
            }
            if wide {
                n_threads = asked;
            }
            builder.push(i as u32, node, kernel, wide);
        }
        let (nodes, steps) = builder.finish();
        Self { serial: graph.serial(), nodes, steps, asked, n_threads, scratch }
    }

    /// Whether these are the steps of `graph` for `n_threads` threads of `pool`.
    pub fn are_of(&self, graph: &CheckedGraph<'_>, n_threads: usize, pool: Option<&Pool>) -> bool {
        self.serial == graph.serial() && self.asked == useful_threads(n_threads, pool)
    }

    /// The numbers of the nodes of each step, with whether they use what an earlier one has left in scratch memory.
    #[cfg(test)]
    pub fn list(&self) -> Vec<Vec<(u32, bool)>> {
        let list =
            |s: &Step| self.nodes[s.nodes.clone()].iter().filter(|n| !n.prepares).map(|n| (n.number, n.kept)).collect();
        self.steps.iter().map(list).collect()
    }

    /// Bytes of scratch memory to allocate, including padding for alignment.
    pub fn work_size(&self) -> usize {
        Scratch::bytes_to_hold(self.scratch)
    }
}

fn useful_threads(n_threads: usize, pool: Option<&Pool>) -> usize {
    n_threads.min(pool.map_or(GGML_MAX_N_THREADS, Pool::n_threads)).max(1)
}

/// The last node that has used scratch memory, if another may find there what it has left.
#[derive(Clone, Copy)]
struct Left<'g> {
    node: CheckedNode<'g>,
    shared: Shared,
    step: usize,
}

/// Steps that grow.
struct Builder<'g> {
    nodes: Vec<(usize, CheckedNode<'g>, Planned)>,
    /// Whether the nodes are not in the order of their steps.
    moved: bool,
    /// Whether each step is wide.
    wide: Vec<bool>,
    left: Option<Left<'g>>,
}

impl<'g> Builder<'g> {
    fn with_capacity(n: usize) -> Self {
        Self { nodes: Vec::with_capacity(n), moved: false, wide: Vec::new(), left: None }
    }

    fn push(&mut self, number: u32, node: CheckedNode<'g>, kernel: Kernel, wide: bool) {
        let shared = node.row().shared;
        let found = |l: &Left<'_>| l.node.row().op == node.row().op && (l.shared.same)(*l.node, *node);
        let kept = shared.is_some() && self.left.as_ref().is_some_and(found);
        let mut planned = Planned { number, kernel, kept, joined: false, prepares: false };
        let step = match wide.then(|| self.joins(node, kept)).flatten() {
            Some(step) => {
                planned.joined = true;
                self.moved |= step + 1 < self.wide.len();
                step
            }
            None => {
                let alone = self.wide.last() == Some(&false);
                if let Some(s) = shared.filter(|s| wide && alone && !kept && (s.small)(*node)) {
                    let prepare = Planned { kernel: s.prepare, prepares: true, ..planned };
                    self.nodes.push((self.wide.len() - 1, node, prepare));
                    planned.kept = true;
                }
                if wide || !alone {
                    self.wide.push(wide);
                }
                self.wide.len() - 1
            }
        };
        self.nodes.push((step, node, planned));
        if node.row().scratch.is_some() {
            self.left = shared.map(|shared| Left { node, shared, step });
        }
        // The sources may be where this node writes.
        let row = node.row();
        let changed = |l: &Left<'_>| {
            row.writes != 0 || row.is_custom() || l.node.srcs().any(|(i, s)| i > 0 && overlaps(s, *node))
        };
        if self.left.as_ref().is_some_and(changed) {
            self.left = None;
        }
    }

    /// The step of an earlier node which `node` can join: the threads need not wait for each other between them.
    fn joins(&self, node: CheckedNode<'g>, kept: bool) -> Option<usize> {
        let left = self.left?;
        let shared = node.row().shared?;
        let waits = |s: &Shared, n: TensorRef| !(s.nothing)(n);
        // Neither waits in its kernel, and both divide scratch memory between the threads in the same way.
        let alike = left.node.row().op == node.row().op && node.nelements() < JOIN_BELOW;
        if !alike || !self.wide[left.step] || !kept && (waits(&shared, *node) || waits(&left.shared, *left.node)) {
            return None;
        }
        let passed = self.nodes.iter().rev().take_while(|(step, ..)| *step >= left.step);
        let mut passed = passed.map(|(_, other, _)| *other).enumerate();
        passed.all(|(n, other)| n < LOOK_BACK && independent(node, other)).then_some(left.step)
    }

    fn finish(mut self) -> (Vec<Planned>, Vec<Step>) {
        if self.moved {
            self.nodes.sort_by_key(|(step, ..)| *step);
        }
        let mut steps: Vec<Step> = self.wide.iter().map(|&wide| Step { nodes: 0..0, wide }).collect();
        for (i, (step, ..)) in self.nodes.iter().enumerate() {
            let range = &mut steps[*step].nodes;
            *range = if range.end == 0 { i } else { range.start }..i + 1;
        }
        (self.nodes.into_iter().map(|(.., planned)| planned).collect(), steps)
    }
}

/// Whether two nodes can be computed in any order, or at the same time.
fn independent(a: CheckedNode<'_>, b: CheckedNode<'_>) -> bool {
    let free = |n: CheckedNode<'_>| n.row().writes == 0 && !n.row().is_custom();
    let reads = |n: CheckedNode<'_>, result: TensorRef| n.srcs().any(|(_, s)| overlaps(s, result));
    free(a) && free(b) && !reads(a, *b) && !reads(b, *a) && !overlaps(*a, *b)
}
