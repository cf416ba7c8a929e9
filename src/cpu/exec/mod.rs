//! Computing a graph: one parallel region in which all threads walk the same steps.
//!
//! A step is one node that all threads compute together, or a run of small nodes that thread 0 computes alone. Threads meet
//! after each step. Thread 0 asks the host after every node whether to stop.

pub mod worker;

use super::access::claims::Claims;
use super::barrier::Barrier;
use super::check::{self, CheckedNode};
use super::table;
use super::threadpool::{self, Pool};
use crate::abi::ggml::{ggml_abort_callback, ggml_tensor_flag};
use crate::error::{Error, Result};
use crate::sys::sync::lock;
use crate::tensor::{TensorRef, traced};
use crate::{guard, mutant, trace};
use std::ffi::c_void;
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

struct Step<'g> {
    nodes: Vec<(CheckedNode<'g>, table::Kernel)>,
    wide: bool,
}

/// Whether a node is to be computed at all.
pub(super) fn is_live(node: TensorRef) -> bool {
    !table::is_empty_op(node) && node.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE)
}

/// The steps of a graph, and the scratch memory that they need; every node is checked.
fn steps(nodes: &[TensorRef], n_threads: usize) -> Result<(Vec<Step<'_>>, usize)> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut scratch = 0;
    for node in nodes.iter().filter(|&&n| is_live(n)) {
        let node = check::runnable(node)?;
        let Some(kernel) = node.row().kernel.filter(|_| !node.is_empty()) else { continue };
        let wide = n_threads > 1 && node.is_wide();
        if let Some(f) = node.row().scratch {
            scratch = scratch.max(f(*node, if wide { n_threads } else { 1 }));
        }
        match steps.last_mut() {
            Some(step) if !wide && !step.wide => step.nodes.push((node, kernel)),
            _ => steps.push(Step { nodes: vec![(node, kernel)], wide }),
        }
    }
    Ok((steps, scratch))
}

struct Region<'a> {
    steps: &'a [Step<'a>],
    n_threads: usize,
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
        for (i, step) in self.steps.iter().enumerate() {
            if self.stop_at.load(Ordering::Relaxed) <= i {
                break;
            }
            if step.wide || ith == 0 {
                self.run_step(i, step, ith);
            }
            if mutant::on("C3") && self.aborted.load(Ordering::Relaxed) {
                break;
            }
            if i + 1 < self.steps.len() {
                self.barrier.wait_with(|| {
                    self.chunk.store(0, Ordering::Relaxed);
                    self.claims.clear();
                });
            }
        }
    }

    fn run_step(&self, i: usize, step: &Step, ith: usize) {
        let worker = Worker {
            ith: if mutant::on("C10") { 0 } else { ith },
            nth: if step.wide { self.n_threads } else { 1 },
            scratch: self.settings.scratch,
            barrier: if step.wide { &self.barrier } else { &self.alone },
            chunk: if step.wide { &self.chunk } else { &self.chunk_alone },
            use_ref: self.settings.use_ref,
            faults: &self.faults,
            claims: &self.claims,
        };
        for &(node, kernel) in &step.nodes {
            if !step.wide {
                self.chunk_alone.store(0, Ordering::Relaxed);
                self.claims.clear();
            }
            if let Some(begun) = self.begun.as_ref().filter(|_| ith == 0) {
                lock(begun).push((*node, trace::now()));
            }
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

/// Computes nodes in their order. When this returns, no thread of a pool looks at them any more.
///
/// # Errors
/// A node that cannot be computed here or is not well-formed; [`Error::Aborted`] when the host wanted to stop; scratch
/// memory that is too small.
pub fn compute(nodes: &[TensorRef], settings: &Settings<'_>) -> Result<()> {
    let pool_threads = settings.pool.map_or(settings.n_threads, Pool::n_threads);
    let n_threads = settings.n_threads.clamp(1, pool_threads.max(1));
    match compute_with(nodes, settings, n_threads)? {
        true => Ok(()),
        // The pool is in use by another computation: do it alone.
        false => compute_with(nodes, &Settings { pool: None, ..*settings }, 1).map(|_| ()),
    }
}

fn compute_with(nodes: &[TensorRef], settings: &Settings<'_>, n_threads: usize) -> Result<bool> {
    let (steps, scratch) = steps(nodes, n_threads)?;
    if settings.scratch.len() < scratch {
        return Err(Error::OutOfMemory { what: "the work memory of a graph".into(), bytes: scratch });
    }
    let n_threads = if steps.iter().any(|s| s.wide) { n_threads } else { 1 };
    let region = Region {
        steps: &steps,
        n_threads,
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
