//! Computing a graph: one parallel region in which all threads walk the same steps.
//!
//! A step is one node that all threads compute together, or a run of small nodes that thread 0 computes alone. Threads meet
//! after each step. Thread 0 asks the host after every node whether to stop.

pub mod worker;

use super::access::claims::Claims;
use super::barrier::Barrier;
use super::check::{CheckedGraph, CheckedNode};
use super::table;
use super::threadpool::{self, Pool};
use crate::abi::ggml::{ggml_abort_callback, ggml_tensor_flag};
use crate::error::{Error, Result};
use crate::sys::sync::lock;
use crate::tensor::{TensorRef, traced};
use crate::{guard, mutant, trace};
use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use worker::{Faults, Scratch, Worker};

/// The host's question whether to stop.
#[derive(Clone, Copy)]
pub struct Abort {
    /// Asked after each node; may be NULL.
    pub callback: ggml_abort_callback,
    /// Its argument.
    pub data: *mut c_void,
}
// SAFETY: the pointer is the host's own, and only the thread that started the computation calls the function with it.
unsafe impl Sync for Abort {}

impl Abort {
    /// Never stop.
    pub const NEVER: Self = Self { callback: None, data: std::ptr::null_mut() };

    fn asked(&self) -> bool {
        // SAFETY: the host promised with its plan that the callback may be called with its data while the graph is computed.
        self.callback.is_some_and(|f| unsafe { f(self.data) })
    }
}

/// How a graph is computed.
pub struct Settings<'a> {
    /// Threads at most.
    pub n_threads: usize,
    /// The host's pool, if it gave one.
    pub pool: Option<&'a Pool>,
    /// Scratch memory of the nodes.
    pub scratch: Scratch,
    /// The host's question whether to stop.
    pub abort: Abort,
    /// Whether to use the plain reference kernels.
    pub use_ref: bool,
}

/// One node that all threads compute together, or some that thread 0 computes alone.
struct Step {
    nodes: Range<usize>,
    wide: bool,
}

/// Whether a node is to be computed at all.
pub(super) fn is_live(node: TensorRef) -> bool {
    !table::is_empty_op(node) && node.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE)
}

/// A graph cut into steps for a number of threads.
pub struct Steps<'g> {
    nodes: Vec<(CheckedNode<'g>, table::Kernel)>,
    steps: Vec<Step>,
    n_threads: usize,
    scratch: usize,
}

impl<'g> Steps<'g> {
    /// For `n_threads` threads, or as many as the pool has.
    pub fn new(graph: &CheckedGraph<'g>, n_threads: usize, pool: Option<&Pool>) -> Self {
        let n_threads = n_threads.min(pool.map_or(n_threads, Pool::n_threads)).max(1);
        let mut this = Self { nodes: Vec::with_capacity(graph.n_nodes()), steps: Vec::new(), n_threads: 1, scratch: 0 };
        for node in graph.nodes() {
            let Some(kernel) = node.row().kernel.filter(|_| !node.is_empty()) else { continue };
            let wide = n_threads > 1 && node.is_wide();
            if let Some(f) = node.row().scratch {
                this.scratch = this.scratch.max(f(*node, if wide { n_threads } else { 1 }));
            }
            let at = this.nodes.len();
            this.nodes.push((node, kernel));
            match this.steps.last_mut() {
                Some(step) if !wide && !step.wide => step.nodes.end = at + 1,
                _ => this.steps.push(Step { nodes: at..at + 1, wide }),
            }
            if wide {
                this.n_threads = n_threads;
            }
        }
        this
    }

    /// Bytes of scratch memory to ask for, so that the aligned part is large enough wherever they lie.
    pub fn work_size(&self) -> usize {
        Scratch::bytes_to_hold(self.scratch)
    }
}

struct Region<'a> {
    graph: &'a Steps<'a>,
    settings: &'a Settings<'a>,
    barrier: Barrier,
    alone: Barrier,
    chunk: AtomicUsize,
    chunk_alone: AtomicUsize,
    faults: Faults,
    claims: Claims,
    aborted: AtomicBool,
    /// Steps from this one on are not run.
    stop_at: AtomicUsize,
    /// While a trace is written: when thread 0 began each node.
    begun: Option<Mutex<Vec<(TensorRef, u64)>>>,
}

impl Region<'_> {
    /// What thread `ith` does.
    fn run(&self, ith: usize) {
        for (i, step) in self.graph.steps.iter().enumerate() {
            if self.stop_at.load(Ordering::Relaxed) <= i {
                break;
            }
            if step.wide || ith == 0 {
                self.run_step(i, step, ith);
            }
            if mutant::on("C3") && self.aborted.load(Ordering::Relaxed) {
                break;
            }
            if i + 1 < self.graph.steps.len() {
                self.barrier.wait_with(|| {
                    self.chunk.store(0, Ordering::Relaxed);
                    self.claims.clear();
                });
            }
        }
    }

    fn run_step(&self, i: usize, step: &Step, ith: usize) {
        for &(node, kernel) in &self.graph.nodes[step.nodes.clone()] {
            if !step.wide {
                self.chunk_alone.store(0, Ordering::Relaxed);
                self.claims.clear();
            }
            if let Some(begun) = self.begun.as_ref().filter(|_| ith == 0) {
                lock(begun).push((*node, trace::now()));
            }
            let worker = Worker {
                ith: if mutant::on("C10") { 0 } else { ith },
                nth: if step.wide { self.graph.n_threads } else { 1 },
                scratch: Cell::new(Some(self.settings.scratch)),
                barrier: if step.wide { &self.barrier } else { &self.alone },
                chunk: if step.wide { &self.chunk } else { &self.chunk_alone },
                use_ref: self.settings.use_ref,
                faults: &self.faults,
                claims: &self.claims,
            };
            // SAFETY: each thread of the step has a number of its own and makes one for each node. `claims` is cleared where all threads meet.
            let dest = unsafe { node.dest(ith, &self.claims) };
            if let Err(why) = guard::contained(|| kernel(&worker, node, dest)) {
                self.faults.report(Error::Backend(format!("the kernel of '{}' failed: {why}", node.name())));
                self.barrier.give_up();
            }
            // All threads see the new bound behind the barrier that follows. The bound is the next step, so that one that is
            // late and still at the head of this step's loop does not leave early.
            if self.faults.any() {
                self.stop_at.store(i + 1, Ordering::Relaxed);
                return;
            }
            if ith == 0 && self.settings.abort.asked() {
                self.aborted.store(true, Ordering::Relaxed);
                self.stop_at.store(i + 1, Ordering::Relaxed);
                return;
            }
        }
    }
}

/// Computes the nodes of a graph in their order. When this returns, no thread of a pool looks at them any more.
///
/// # Errors
/// A kernel's; [`Error::Aborted`] when the host wanted to stop; scratch memory that is too small.
pub fn compute(graph: &CheckedGraph<'_>, settings: &Settings<'_>) -> Result<()> {
    compute_steps(graph, &Steps::new(graph, settings.n_threads, settings.pool), settings)
}

/// The same for a graph that has been cut into steps with these settings.
///
/// # Errors
/// As [`compute`].
pub fn compute_steps(graph: &CheckedGraph<'_>, steps: &Steps<'_>, settings: &Settings<'_>) -> Result<()> {
    match run(steps, settings)? {
        true => Ok(()),
        // The pool is in use by another computation: do it alone.
        false => run(&Steps::new(graph, 1, None), &Settings { pool: None, ..*settings }).map(|_| ()),
    }
}

/// Whether the pool was free to compute the steps.
fn run(graph: &Steps<'_>, settings: &Settings<'_>) -> Result<bool> {
    if settings.scratch.len() < graph.scratch {
        return Err(Error::OutOfMemory { what: "the work memory of a graph".into(), bytes: graph.scratch });
    }
    let n_threads = graph.n_threads;
    let region = Region {
        graph,
        settings,
        barrier: Barrier::new(n_threads),
        alone: Barrier::new(1),
        chunk: AtomicUsize::new(0),
        chunk_alone: AtomicUsize::new(0),
        faults: Faults::default(),
        claims: Claims::default(),
        aborted: AtomicBool::new(false),
        stop_at: AtomicUsize::new(usize::MAX),
        begun: trace::is_on().then(Mutex::default),
    };
    match settings.pool {
        Some(pool) => {
            if !pool.run(n_threads, &|ith| region.run(ith)) {
                return Ok(false);
            }
        }
        None => threadpool::run_anywhere(n_threads, &|ith| region.run(ith))?,
    }
    if let Some(begun) = region.begun {
        record_nodes(&begun.into_inner().unwrap_or_else(PoisonError::into_inner));
    }
    match region.faults.take() {
        Some(e) => Err(e),
        None if region.aborted.into_inner() => Err(Error::Aborted),
        None => Ok(true),
    }
}

/// Tells the trace when each node ran: until the next one began, waiting for the other threads included.
fn record_nodes(begun: &[(TensorRef, u64)]) {
    let ends = begun.iter().skip(1).map(|&(_, at)| at).chain(std::iter::once(trace::now()));
    for (&(node, from), to) in begun.iter().zip(ends) {
        traced::node(trace::Track::Here("CPU"), node, from, to);
    }
}
