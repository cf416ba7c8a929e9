//! Streams of the CPU device, which compute graphs synchronously, and the graphs that hosts plan with them.

use super::check::{CheckedGraph, RecentChecks};
use super::exec::{self, Abort, Settings, Steps};
use super::plan::Plan;
use super::threadpool::Pool;
use super::worker::Scratch;
use crate::abi::ggml::{GGML_DEFAULT_N_THREADS, ggml_guid};
use crate::backend::BackendRef;
use crate::backend::author::{NoEvent, Stream, stream_author};
use crate::error::Result;
use crate::graph::GraphRef;
use crate::sys::lasting::Lasting;
use crate::sys::memory::AlignedBlock;
use crate::sys::sync::brief;
use crate::tensor::TensorRef;
use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Mutex;

/// The host's settings of a stream.
#[derive(Clone, Copy)]
struct Choices {
    n_threads: i32,
    pool: Option<NonNull<Pool>>,
    abort: Abort,
    use_ref: bool,
}
// SAFETY: `pool` is used only as `&Pool`, which is `Sync`. The promise of `set_pool` and the header's contract of the
// abort callback are that the pool and the callback's data may be used wherever the host computes graphs with the
// stream.
unsafe impl Send for Choices {}

/// A stream of the CPU device.
pub struct CpuStream {
    choices: Mutex<Choices>,
    /// Locked while a graph is computed.
    state: Lasting<StreamState>,
}

/// Data that a stream keeps between computations.
#[derive(Default)]
struct StreamState {
    checks: RecentChecks<Vec<Steps>>,
    /// Scratch memory of the last graph.
    work: Option<AlignedBlock>,
}

/// The steps of a graph: one of those that are known, or new ones.
fn steps_of<'a>(
    known: &'a mut Vec<Steps>,
    graph: &CheckedGraph<'_>,
    n_threads: usize,
    pool: Option<&Pool>,
) -> &'a Steps {
    let i = known.iter().position(|steps| steps.are_of(graph, n_threads, pool)).unwrap_or_else(|| {
        // A graph is computed by all threads or, while the processors are crowded, by one.
        known.truncate(1);
        known.insert(0, Steps::new(graph, n_threads, pool));
        0
    });
    &known[i]
}

/// A graph to compute several times, with its scratch memory and the host's settings from when the plan was made.
pub struct CpuPlan {
    nodes: Vec<TensorRef>,
    checks: RecentChecks<Vec<Steps>>,
    choices: Choices,
    n_threads: usize,
    work: AlignedBlock,
}

impl Choices {
    /// Number of threads to use. If the host's number is not positive: that of the pool, or the default.
    fn threads(&self, pool: Option<&Pool>) -> usize {
        match usize::try_from(self.n_threads) {
            Ok(n) if n > 0 => n,
            _ => pool.map_or(GGML_DEFAULT_N_THREADS as usize, Pool::n_threads),
        }
    }

    fn pool(&self) -> Option<&Pool> {
        // SAFETY: the promise of `set_pool`: the pool lives while the stream or a plan uses it.
        self.pool.map(|p| unsafe { p.as_ref() })
    }

    fn settings<'a>(&'a self, n_threads: usize, work: &'a mut AlignedBlock) -> Settings<'a> {
        // SAFETY: the block has `size()` bytes, and the mutable borrow lasts as long as the settings, so no other code
        // uses them.
        let scratch = unsafe { Scratch::new(work.as_ptr(), work.size()) };
        Settings { n_threads, pool: self.pool(), scratch, abort: self.abort, use_ref: self.use_ref }
    }
}

fn work_block(size: usize) -> Result<AlignedBlock> {
    AlignedBlock::new(size, Scratch::ALIGN, "the work memory of a graph")
}

impl CpuStream {
    /// A stream with the default settings.
    pub(super) fn new() -> Self {
        let choices = Choices { n_threads: GGML_DEFAULT_N_THREADS, pool: None, abort: Abort::NEVER, use_ref: false };
        Self { choices: Mutex::new(choices), state: Lasting::default() }
    }

    /// Sets the number of threads for later computations.
    pub fn set_n_threads(&self, n: i32) {
        brief(&self.choices).n_threads = n;
    }

    /// Sets the pool for later computations, or `None` for a pool of this library. The previous pool is paused.
    ///
    /// # Safety
    /// The pool lives until another one is set, and until no computation of this stream, or of a plan made with it,
    /// uses it any more.
    pub unsafe fn set_pool(&self, pool: Option<NonNull<Pool>>) {
        let mut choices = brief(&self.choices);
        if let Some(old) = choices.pool()
            && choices.pool != pool
        {
            old.pause();
        }
        choices.pool = pool;
    }

    /// Sets the abort callback.
    pub fn set_abort(&self, abort: Abort) {
        brief(&self.choices).abort = abort;
    }

    /// Sets whether to use the reference kernels.
    pub fn set_use_ref(&self, use_ref: bool) {
        brief(&self.choices).use_ref = use_ref;
    }
}

impl Stream for CpuStream {
    type Event = NoEvent;
    type Plan = CpuPlan;
    const GUID: &'static ggml_guid =
        &[0xaa, 0x67, 0xc7, 0x43, 0x96, 0xe6, 0xa3, 0x8a, 0xe3, 0xaf, 0xea, 0x92, 0x36, 0xbc, 0xfc, 0x89];
    const PLANS: bool = true;

    fn name(&self) -> &CStr {
        c"CPU"
    }

    fn compute(&self, graph: GraphRef) -> Result<()> {
        let choices = *brief(&self.choices);
        let nodes: Vec<TensorRef> = graph.nodes().collect();
        let n_threads = choices.threads(choices.pool());
        let mut state = self.state.lock();
        let StreamState { checks, work } = &mut *state;
        let (graph, known) = checks.check(&nodes)?;
        let n_threads = exec::useful_threads(&graph, n_threads);
        let steps = steps_of(known, &graph, n_threads, choices.pool());
        let size = steps.work_size();
        let block = match work.take().filter(|b| b.size() >= size) {
            Some(block) => block,
            None => work_block(size)?,
        };
        let block = work.insert(block);
        exec::compute_steps(&graph, steps, &choices.settings(n_threads, block))
    }

    fn plan(&self, graph: GraphRef) -> Result<CpuPlan> {
        let choices = *brief(&self.choices);
        let nodes: Vec<TensorRef> = graph.nodes().collect();
        let n_threads = choices.threads(choices.pool());
        let plan = Plan::of(nodes.iter().copied(), n_threads);
        Ok(CpuPlan { nodes, checks: RecentChecks::default(), choices, n_threads, work: work_block(plan.work_size())? })
    }

    fn plan_compute(&self, plan: &mut CpuPlan) -> Result<()> {
        let (graph, known) = plan.checks.check(&plan.nodes)?;
        let n_threads = exec::useful_threads(&graph, plan.n_threads);
        let steps = steps_of(known, &graph, n_threads, plan.choices.pool());
        exec::compute_steps(&graph, steps, &plan.choices.settings(n_threads, &mut plan.work))
    }
}

/// The stream of a backend, or `None` if it is not a CPU backend.
pub fn stream(backend: &BackendRef) -> Option<&CpuStream> {
    stream_author(backend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE;
    use crate::abi::ggml::ggml_type::GGML_TYPE_Q4_0;
    use crate::cpu::tests::{ctx, floats, noise, read, tensor, write};
    use crate::tensor::ops::{binary, matmul};

    /// Two products share their activations, until the result of the node between them moves to where these are.
    #[test]
    fn steps_follow_data_that_moves() {
        let mut c = ctx();
        let weights = [1, 2].map(|seed| tensor(&mut c, GGML_TYPE_Q4_0, &[64, 8], seed));
        let (x, y) = (floats(&mut c, &[64, 3], 3), floats(&mut c, &[64, 3], 4));
        let first = matmul::mul_mat(&mut c, weights[0], x).unwrap();
        let sum = binary::add(&mut c, y, y).unwrap();
        let second = matmul::mul_mat(&mut c, weights[1], x).unwrap();
        let nodes = [first, sum, second];
        nodes.iter().for_each(|t| t.add_flag(GGML_TENSOR_FLAG_COMPUTE));
        let mut checks = RecentChecks::default();
        let mut compute = || {
            let (graph, known) = checks.check(&nodes).unwrap();
            let steps = steps_of(known, &graph, 1, None);
            let mut block = work_block(steps.work_size()).unwrap();
            let choices = Choices { n_threads: 1, pool: None, abort: Abort::NEVER, use_ref: false };
            exec::compute_steps(&graph, steps, &choices.settings(1, &mut block)).unwrap();
            read(second)
        };
        let before = compute();
        (0..3).for_each(|_| assert!(compute() == before));
        sum.set_data(x.data());
        let after = compute();
        // The result is the same in a graph without earlier checks and steps.
        write(x, &noise(64 * 3, 4).iter().map(|y| y + y).collect::<Vec<_>>());
        crate::cpu::tests::compute_with(&[second], 1, Abort::NEVER).unwrap();
        assert!(after == read(second) && after != before);
    }
}
