//! Computes a graph in one parallel region, in which all threads run the same steps.
//!
//! A step is nodes that all threads compute together, or a run of small nodes that thread 0 computes alone (`steps`).
//! There is a barrier between steps. Thread 0 calls the abort callback after every node and between the parts of large
//! ones.

mod steps;

use super::barrier::Barrier;
use super::check::CheckedGraph;
use super::checked::CheckedNode;
use super::crowd;
use super::matmul;
use super::repack::{Product, Weights, weight_of};
use super::threadpool::{self, Pool};
use super::worker::claims::Claims;
use super::worker::pace::Pace;
use super::worker::pieces::Pieces;
use super::worker::stop::Stop;
use super::worker::{Faults, Scratch, Slept, Worker};
use crate::abi::ggml::ggml_op::*;
use crate::error::{Error, Result};
use crate::guard;
use crate::sys::fork;
use crate::sys::mapping::will_need;
use crate::sys::sync::lock;
use crate::tensor::{TensorRef, traced};
use crate::trace;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use steps::Step;

pub use crate::backend::Abort;
pub use steps::Steps;

/// Settings of a computation.
pub struct Settings<'a> {
    /// Maximum number of threads.
    pub n_threads: usize,
    /// The host's thread pool; `None` for one of this library.
    pub pool: Option<&'a Pool>,
    /// Scratch memory of the nodes.
    pub scratch: Scratch,
    /// The host's abort callback.
    pub abort: Abort,
    /// Whether to use the reference kernels.
    pub use_ref: bool,
}

struct Region<'a> {
    graph: &'a CheckedGraph<'a>,
    steps: &'a Steps,
    settings: &'a Settings<'a>,
    barrier: Barrier,
    alone: Barrier,
    chunk: AtomicUsize,
    chunk_alone: AtomicUsize,
    pieces: Pieces,
    faults: Faults,
    claims: Claims,
    slept: Slept,
    weights: Weights,
    /// The process that computes.
    process: u32,
    stop: Stop,
    /// The first step that is not run.
    stop_at: AtomicUsize,
    /// If a trace is written: the time at which thread 0 started each node.
    begun: Option<Mutex<Vec<(TensorRef, u64)>>>,
}

impl Region<'_> {
    /// Runs the steps on thread `ith`.
    fn run(&self, ith: usize) {
        if let Some(stream) = self.weights.stream() {
            stream.begin();
        }
        for (i, step) in self.steps.steps.iter().enumerate() {
            if self.stop_at.load(Ordering::Relaxed) <= i {
                break;
            }
            if step.wide || ith == 0 {
                self.run_step(i, step, ith);
            } else if let Some(stream) = self.weights.stream() {
                stream.pass(ith, step.nodes.end);
            }
            if i + 1 < self.steps.steps.len() {
                let slept = self.barrier.wait_with(|| {
                    self.chunk.store(0, Ordering::Relaxed);
                    self.claims.clear();
                });
                if ith == 0 {
                    self.slept.add(slept);
                }
                if self.was_forked() {
                    break;
                }
            }
        }
    }

    /// Whether this is a child that the host has forked in a kernel: it does not have the other threads.
    fn was_forked(&self) -> bool {
        self.process != fork::generation()
    }

    fn run_step(&self, i: usize, step: &Step, ith: usize) {
        let at = Cell::new(step.nodes.start);
        if let Err(why) = guard::contained(|| self.run_nodes(i, step, ith, &at)) {
            let node = self.graph.node(self.steps.nodes[at.get()].number as usize);
            self.faults.report(Error::Backend(format!("the kernel of '{}' failed: {why}", node.name())));
            self.barrier.give_up();
            self.stop_at.store(i + 1, Ordering::Relaxed);
        }
    }

    /// Runs the nodes of step `number` on thread `ith`. `at` is the current one.
    fn run_nodes(&self, number: usize, step: &Step, ith: usize, at: &Cell<usize>) {
        for (i, planned) in step.nodes.clone().zip(&self.steps.nodes[step.nodes.clone()]) {
            at.set(i);
            let node = self.graph.node(planned.number as usize);
            if let Some(stream) = self.weights.stream()
                && let Err(e) = stream.enter(ith, i)
            {
                // All threads of the step get the error here.
                self.faults.report(e);
                self.stop_at.store(number + 1, Ordering::Relaxed);
                return;
            }
            if !step.wide {
                self.chunk_alone.store(0, Ordering::Relaxed);
                self.claims.clear();
            }
            if let Some(begun) = self.begun.as_ref().filter(|_| ith == 0 && !planned.prepares) {
                lock(begun).push((*node, trace::now()));
            }
            let worker = Worker {
                ith,
                nth: if step.wide { self.steps.n_threads } else { 1 },
                scratch: Cell::new(Some(self.settings.scratch)),
                barrier: if step.wide { &self.barrier } else { &self.alone },
                chunk: if step.wide { &self.chunk } else { &self.chunk_alone },
                pieces: &self.pieces,
                number: i as u32 + 1,
                stop: &self.stop,
                pace: Pace::default(),
                use_ref: self.settings.use_ref,
                kept: planned.kept && !planned.prepares,
                joined: planned.joined,
                faults: &self.faults,
                slept: &self.slept,
                claims: &self.claims,
                weights: Some(&self.weights),
            };
            // SAFETY: each thread of the step has its own number `ith`, and makes one `Dest` for each node. The
            // barriers clear `claims`.
            let dest = unsafe { node.dest(ith, &self.claims) };
            (planned.kernel)(&worker, node, dest);
            // All threads see the new bound after the next barrier. It is the next step, so that a late thread, which
            // is still at the start of this step, does not skip the step.
            if self.faults.any() {
                self.stop_at.store(number + 1, Ordering::Relaxed);
                return;
            }
            if ith == 0 && self.stop.is_wanted(ith) {
                self.stop_at.store(number + 1, Ordering::Relaxed);
                return;
            }
        }
    }
}

/// Operations from which a graph gets all its threads: waiting for one costs little beside them.
const LARGE: u64 = 1 << 28;

/// The number of threads to use for a graph for which the host has set `n_threads`: one if other programs use the
/// processors so much that several take longer, unless the graph is large. Operations of the host get what it has set.
pub fn useful_threads(graph: &CheckedGraph<'_>, n_threads: usize) -> usize {
    let is_of_host = |node: CheckedNode<'_>| {
        matches!(node.op(), GGML_OP_MAP_CUSTOM1 | GGML_OP_MAP_CUSTOM2 | GGML_OP_MAP_CUSTOM3 | GGML_OP_CUSTOM)
    };
    let work = || graph.nodes().map(|node| node.work()).fold(0, u64::saturating_add);
    let is_one_enough = || crowd::is_crowded() && !graph.nodes().any(is_of_host) && work() < LARGE;
    if n_threads > 1 && is_one_enough() { 1 } else { n_threads }
}

/// Computes the nodes of a graph in their order. When it returns, no thread of a pool uses them any more.
///
/// # Errors
/// The error of a kernel, [`Error::Aborted`] if the callback stopped the computation, or [`Error::OutOfMemory`] if the
/// scratch memory is too small.
pub fn compute(graph: &CheckedGraph<'_>, settings: &Settings<'_>) -> Result<()> {
    compute_steps(graph, &Steps::new(graph, useful_threads(graph, settings.n_threads), settings.pool), settings)
}

/// Like [`compute`], for a graph that was divided into steps with these settings. Panics if the steps are those of
/// another graph.
///
/// # Errors
/// As [`compute`].
pub fn compute_steps(graph: &CheckedGraph<'_>, steps: &Steps, settings: &Settings<'_>) -> Result<()> {
    match run(graph, steps, settings)? {
        true => Ok(()),
        // Compute on this thread only.
        false => run(graph, &Steps::new(graph, 1, None), &Settings { pool: None, ..*settings }).map(|_| ()),
    }
}

/// Runs the steps. Returns false, without running any, if another computation uses the pool, or its threads cannot
/// start.
fn run(graph: &CheckedGraph<'_>, steps: &Steps, settings: &Settings<'_>) -> Result<bool> {
    assert!(steps.serial == graph.serial(), "the steps are those of another graph");
    if settings.scratch.len() < steps.scratch {
        return Err(Error::OutOfMemory { what: "the work memory of a graph".into(), bytes: steps.scratch });
    }
    let n_threads = steps.n_threads;
    let region = Region {
        graph,
        steps,
        settings,
        barrier: Barrier::new(n_threads),
        alone: Barrier::new(1),
        chunk: AtomicUsize::new(0),
        chunk_alone: AtomicUsize::new(0),
        pieces: Pieces::new(n_threads),
        faults: Faults::default(),
        claims: Claims::default(),
        slept: Slept::default(),
        weights: Weights::new(n_threads, |takes_rows| products(graph, steps, takes_rows)),
        process: fork::generation(),
        stop: Stop::new(settings.abort),
        stop_at: AtomicUsize::new(usize::MAX),
        begun: trace::is_on().then(Mutex::default),
    };
    if region.weights.is_tight() {
        read_small_weights(graph);
    }
    let begun = (n_threads > 1).then(Instant::now);
    let started = match settings.pool {
        Some(pool) => pool.run(n_threads, &|ith| region.run(ith)),
        None => threadpool::run_anywhere(n_threads, &|ith| region.run(ith)).map(Some),
    };
    let slept = match started {
        Ok(Some(slept)) => slept,
        Ok(None) => return Ok(false),
        // Threads that have ended when they were idle cannot be started again, at a limit of the system for example.
        Err(Error::Io { .. }) if n_threads > 1 => return Ok(false),
        Err(e) => return Err(e),
    };
    if let Some(begun) = begun {
        crowd::account(n_threads, begun.elapsed(), slept + region.slept.whole());
    }
    if region.was_forked() && n_threads > 1 {
        return Err(Error::Backend("the process is a child that was forked while the graph was computed".into()));
    }
    if let Some(begun) = region.begun {
        record_nodes(&begun.into_inner().unwrap_or_else(PoisonError::into_inner));
    }
    match region.faults.take() {
        Some(e) => Err(e),
        None if region.stop.was_wanted() => Err(Error::Aborted),
        None => Ok(true),
    }
}

/// The products whose weights may not be in memory, in the order in which threads compute them. `takes_rows` is whether
/// those that can may use rows of files.
fn products(graph: &CheckedGraph<'_>, steps: &Steps, takes_rows: bool) -> Vec<Product> {
    let computed = steps.nodes.iter().enumerate().filter(|(_, planned)| !planned.prepares);
    let product = |(at, planned): (usize, &steps::Planned)| {
        let node = *graph.node(planned.number as usize);
        let weight = weight_of(node)?;
        let is_routed = node.op() == GGML_OP_MUL_MAT_ID;
        let takes_rows = takes_rows && matmul::takes_rows(node, steps.n_threads);
        // A router's tokens have several columns each.
        let columns = if is_routed { node.ne()[2] } else { node.nrows() } as usize;
        Some(Product { at, weight, is_routed, takes_rows, columns })
    };
    computed.filter_map(product).collect()
}

/// Requests the pages of weights that are small parts of a mapped file, such as norms. Without it, reading one that
/// is not in memory reads megabytes around it, which takes the memory of the others.
fn read_small_weights(graph: &CheckedGraph<'_>) {
    const SMALL: usize = 256 << 10;
    let leaves = graph.nodes().flat_map(|node| node.srcs()).map(|(_, t)| t);
    for t in leaves.filter(|t| t.op() == GGML_OP_NONE && t.view_src().is_none() && t.nbytes() <= SMALL) {
        if t.buffer().is_some_and(|b| b.is_host()) && !t.data().is_null() {
            will_need(t.data().addr()..t.data().addr() + t.nbytes());
        }
    }
}

/// Writes the times of nodes to the trace. A node ends when the next one starts, so its time includes waiting for other
/// threads.
fn record_nodes(begun: &[(TensorRef, u64)]) {
    let ends = begun.iter().skip(1).map(|&(_, at)| at).chain(std::iter::once(trace::now()));
    for (&(node, from), to) in begun.iter().zip(ends) {
        traced::node(trace::Track::Here("CPU"), node, from, to);
    }
}

#[cfg(test)]
mod tests;
