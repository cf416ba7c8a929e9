//! The CPU backend as backend objects: the registry "CPU", its only device, and streams that compute synchronously.

use super::check::{self, CheckedGraph, Memory};
use super::exec::{self, Abort, Settings, Steps};
use super::plan::Plan;
use super::procs;
use super::recent::Recent;
use super::threadpool::Pool;
use super::worker::Scratch;
use super::{features, repack, simd};
use crate::abi::backend::{ggml_backend_dev_caps, ggml_backend_dev_type, ggml_backend_feature};
use crate::abi::ggml::{GGML_DEFAULT_N_THREADS, ggml_guid};
use crate::backend::author::{Device, HostMemory, NoEvent, Reg, Stream, publish, stream_author};
use crate::backend::{BackendRef, BufferBox, BufferTypeRef, DeviceRef, RegRef, host};
use crate::error::Result;
use crate::graph::GraphRef;
use crate::sys::lasting::Lasting;
use crate::sys::memory::{AlignedBlock, physical};
use crate::sys::sync::brief;
use crate::tensor::TensorRef;
use std::ffi::{CStr, CString, c_void};
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock};

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
    state: Lasting<State>,
}

/// Data that a stream keeps between computations.
#[derive(Default)]
struct State {
    checks: Memory,
    steps: RecentSteps,
    /// Scratch memory of the last graph.
    work: Option<AlignedBlock>,
}

/// The steps of the graphs that were computed recently.
#[derive(Default)]
struct RecentSteps(Recent<Steps, 16>);

impl RecentSteps {
    /// The steps of a graph: those from the last time, if its check is the same, or new ones.
    fn of(&mut self, graph: &CheckedGraph<'_>, n_threads: usize, pool: Option<&Pool>) -> &Steps {
        let known = self.0.take(|s| s.are_of(graph, n_threads, pool));
        self.0.keep(known.unwrap_or_else(|| Steps::new(graph, n_threads, pool)))
    }
}

/// A graph to compute several times, with its scratch memory and the host's settings from when the plan was made.
pub struct CpuPlan {
    nodes: Vec<TensorRef>,
    checks: Memory,
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
    fn new() -> Self {
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
        let State { checks, steps, work } = &mut *state;
        let graph = checks.check(&nodes)?;
        let n_threads = exec::useful_threads(&graph, n_threads);
        let steps = steps.of(&graph, n_threads, choices.pool());
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
        Ok(CpuPlan { nodes, checks: Memory::default(), choices, n_threads, work: work_block(plan.work_size())? })
    }

    fn plan_compute(&self, plan: &mut CpuPlan) -> Result<()> {
        let graph = plan.checks.check(&plan.nodes)?;
        exec::compute(&graph, &plan.choices.settings(plan.n_threads, &mut plan.work))
    }
}

/// The stream of a backend, or `None` if it is not a CPU backend.
pub fn stream(backend: &BackendRef) -> Option<&CpuStream> {
    stream_author(backend)
}

/// The CPU device.
pub struct CpuDevice {
    description: CString,
}

impl CpuDevice {
    fn new() -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info
            .lines()
            .find_map(|l| l.strip_prefix("model name")?.split_once(':'))
            .map(|(_, name)| name.trim())
            .filter(|name| !name.is_empty())
            .unwrap_or("CPU");
        Self { description: CString::new(model).unwrap_or_else(|_| c"CPU".to_owned()) }
    }
}

impl Device for CpuDevice {
    type Stream = CpuStream;
    type Event = NoEvent;
    const BUFFERS_FROM_HOST: bool = true;

    fn name(&self) -> &CStr {
        c"CPU"
    }

    fn description(&self) -> &CStr {
        &self.description
    }

    fn memory(&self) -> (usize, usize) {
        // All memory is reported as free: the free amount changes with the caches of the system.
        let total = physical();
        (total, total)
    }

    fn kind(&self) -> ggml_backend_dev_type {
        ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_CPU
    }

    fn caps(&self) -> ggml_backend_dev_caps {
        ggml_backend_dev_caps {
            r#async: false,
            host_buffer: false,
            buffer_from_host_ptr: true,
            events: false,
            mmap_support: true,
        }
    }

    fn open(&self, _this: DeviceRef, _params: Option<&CStr>) -> Result<CpuStream> {
        Ok(CpuStream::new())
    }

    fn buffer_type(&self, _this: DeviceRef) -> BufferTypeRef {
        host::buffer_type()
    }

    fn buffer_from_host(&self, _this: DeviceRef, memory: HostMemory, _max_tensor_size: usize) -> Result<BufferBox> {
        Ok(memory.into_buffer())
    }

    fn supports_op(&self, op: TensorRef) -> bool {
        check::supported(op).is_ok()
    }

    fn supports_buft(&self, _this: DeviceRef, buft: BufferTypeRef) -> bool {
        buft.is_host() || buft == repack::buffer_type()
    }
}

struct CpuReg;

impl Reg for CpuReg {
    type Device = CpuDevice;

    fn name(&self) -> &CStr {
        c"CPU"
    }

    fn devices(&self) -> Vec<CpuDevice> {
        vec![CpuDevice::new()]
    }

    fn proc_address(&self, name: &CStr) -> *const c_void {
        procs::address(name)
    }
}

/// The backend registry "CPU".
pub fn reg() -> RegRef {
    static REG: OnceLock<RegRef> = OnceLock::new();
    *crate::sys::sync::once(&REG, || publish(CpuReg))
}

/// The CPU device.
pub fn device() -> DeviceRef {
    match reg().device(0) {
        Some(device) => device,
        None => unreachable!("the family has one device"),
    }
}

struct Features(Vec<ggml_backend_feature>);
// SAFETY: the pointers are to static strings, which any thread may read.
unsafe impl Send for Features {}
// SAFETY: the list does not change, and its pointers are to static strings, which any thread may read.
unsafe impl Sync for Features {}

/// The features of this processor and the level of the kernels in use, terminated by an entry of NULLs. It omits parts
/// of the original that this library does not have (`LLAMAFILE`, `OPENMP`, `KLEIDIAI`).
pub fn feature_list() -> &'static [ggml_backend_feature] {
    static LIST: OnceLock<Features> = OnceLock::new();
    let list = crate::sys::sync::once(&LIST, || {
        let present = features::ALL.iter().filter(|f| (f.present)());
        let entry = |name: *const _, value: *const _| ggml_backend_feature { name, value };
        let mut list: Vec<_> = present.map(|f| entry(f.name.as_ptr(), c"1".as_ptr())).collect();
        if repack::is_offered() {
            list.push(entry(c"REPACK".as_ptr(), c"1".as_ptr()));
        }
        list.push(entry(c"KERNELS".as_ptr(), simd::kernels().level.name().as_ptr()));
        list.push(entry(std::ptr::null(), std::ptr::null()));
        Features(list)
    });
    &list.0
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
        let (mut checks, mut steps) = (Memory::default(), RecentSteps::default());
        let mut compute = || {
            let graph = checks.check(&nodes).unwrap();
            let steps = steps.of(&graph, 1, None);
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
