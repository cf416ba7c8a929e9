//! Devices for tests of the rooms above: they compute a few operations on f32 in memory that is the host's but does not
//! say so.
//!
//! The asynchronous kind works as late as the contract allows: work waits in its queue until it is needed. A missing
//! wait therefore shows as a wrong result, every time.

use super::author::{Buffer, BufferType, Device, Event, HostSource, HostTarget, NoPlan, Reg, Stream};
use super::author::{leak_buffer_type, publish, stream_author};
use super::{BackendBox, BackendRef, BufferRef, BufferTypeRef, DeviceRef, RegRef, op_is_empty};
use crate::abi::backend::{ggml_backend_dev_caps, ggml_backend_dev_type};
use crate::abi::ggml::{ggml_guid, ggml_op};
use crate::error::{Error, Result, invalid};
use crate::graph::GraphRef;
use crate::sys::memory::AlignedBlock;
use crate::tensor::TensorRef;
use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};

type Job = Box<dyn FnOnce() + Send>;

/// What a test can see and set of a device.
#[derive(Default)]
pub(crate) struct Control {
    /// Buffers made so far.
    pub allocs: AtomicUsize,
    /// Buffers alive.
    pub live: AtomicUsize,
    /// Fails the allocation with this number, counted from 1 from the start of the test; 0: none.
    pub fail_at: AtomicUsize,
    /// Makes computations fail.
    pub refuse: AtomicBool,
    /// Computations started.
    pub computed: AtomicUsize,
    /// Bytes that `set` wrote.
    pub bytes_set: AtomicUsize,
    /// Copies to the device that a stream was given.
    pub copies_in: AtomicUsize,
    queue: Mutex<VecDeque<Job>>,
    done: AtomicUsize,
    queued: AtomicUsize,
}

impl Control {
    fn push(&self, job: Job) -> usize {
        self.queue.lock().unwrap().push_back(job);
        self.queued.fetch_add(1, SeqCst) + 1
    }

    fn run_until(&self, mark: usize) {
        while self.done.load(SeqCst) < mark {
            let job = self.queue.lock().unwrap().pop_front();
            match job {
                Some(job) => job(),
                None => return,
            }
            self.done.fetch_add(1, SeqCst);
        }
    }
}

/// What a device is like.
pub(crate) struct Spec {
    pub name: &'static CStr,
    pub kind: ggml_backend_dev_type,
    /// Its memory says that it is the host's.
    pub host: bool,
    pub alignment: usize,
    pub max_size: usize,
    pub supports: fn(TensorRef) -> bool,
    /// Other buffer types that it can use.
    pub reads: Vec<BufferTypeRef>,
    pub offloads: bool,
    /// Copies out of host memory wait in its queue too.
    pub host_copies: bool,
}

impl Spec {
    pub fn gpu() -> Self {
        Self {
            name: c"GPU",
            kind: ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_GPU,
            host: false,
            alignment: 32,
            max_size: usize::MAX,
            supports: |_| true,
            reads: Vec::new(),
            offloads: false,
            host_copies: false,
        }
    }

    pub fn cpu() -> Self {
        Self { name: c"CPU", kind: ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_CPU, host: true, ..Self::gpu() }
    }
}

struct FakeBuffer(AlignedBlock, Arc<Control>);

impl Drop for FakeBuffer {
    fn drop(&mut self) {
        self.1.live.fetch_sub(1, SeqCst);
    }
}

impl Buffer for FakeBuffer {
    fn base(&self) -> *mut u8 {
        self.0.as_ptr()
    }
    fn memset(&self, tensor: TensorRef, value: u8, offset: usize, size: usize) {
        // SAFETY: ranges are checked, and the tensor is in this block.
        unsafe { tensor.data().add(offset).write_bytes(value, size) }
    }
    fn set(&self, tensor: TensorRef, data: &[u8], offset: usize) {
        self.1.bytes_set.fetch_add(data.len(), SeqCst);
        // SAFETY: ranges are checked, and the tensor is in this block.
        unsafe { tensor.data().add(offset).copy_from(data.as_ptr(), data.len()) }
    }
    fn get(&self, tensor: TensorRef, data: &mut [u8], offset: usize) {
        // SAFETY: ranges are checked, and the tensor is in this block.
        unsafe { tensor.data().add(offset).copy_to(data.as_mut_ptr(), data.len()) }
    }
    fn clear(&self, _: BufferRef, value: u8) {
        // SAFETY: the whole block.
        unsafe { self.0.as_ptr().write_bytes(value, self.0.size()) }
    }
}

struct FakeBuft {
    name: &'static CStr,
    host: bool,
    alignment: usize,
    max_size: usize,
    /// Additional bytes that the result of a matrix product needs.
    expand: usize,
    state: Arc<Control>,
}

impl BufferType for FakeBuft {
    type Buffer = FakeBuffer;
    fn name(&self) -> &CStr {
        self.name
    }
    fn alloc(&self, size: usize) -> Result<FakeBuffer> {
        let number = self.state.allocs.fetch_add(1, SeqCst) + 1;
        if number == self.state.fail_at.load(SeqCst) {
            return Err(Error::OutOfMemory { what: "a fake buffer".into(), bytes: size });
        }
        let block = AlignedBlock::zeroed(size, self.alignment, "a fake buffer")?;
        self.state.live.fetch_add(1, SeqCst);
        Ok(FakeBuffer(block, self.state.clone()))
    }
    fn alignment(&self) -> usize {
        self.alignment
    }
    fn max_size(&self) -> usize {
        self.max_size
    }
    fn alloc_size(&self, tensor: TensorRef) -> usize {
        tensor.nbytes() + if tensor.op() == ggml_op::GGML_OP_MUL_MAT { self.expand } else { 0 }
    }
    fn is_host(&self) -> bool {
        self.host
    }
}

/// A buffer type without a device. `expand`: additional bytes that the result of a matrix product needs.
pub(crate) fn buffer_type(alignment: usize, max_size: usize, expand: usize) -> (BufferTypeRef, Arc<Control>) {
    let state = Arc::new(Control::default());
    let buft = FakeBuft { name: c"Fake", host: true, alignment, max_size, expand, state: state.clone() };
    (leak_buffer_type(None, buft), state)
}

/// Memory of a tensor at the time of the call.
#[derive(Clone, Copy)]
struct Span(*mut f32, usize);
// SAFETY: tests use one thread.
unsafe impl Send for Span {}

impl Span {
    fn of(t: TensorRef) -> Self {
        Self(t.data().cast(), t.nelements() as usize)
    }
    fn read(self, i: usize) -> f32 {
        // SAFETY: inside the tensor, whose buffer lives while the test computes.
        unsafe { self.0.add(i % self.1).read_unaligned() }
    }
    fn write(self, i: usize, v: f32) {
        // SAFETY: inside the tensor, as callers stay below its length. Its buffer lives while the test computes.
        unsafe { self.0.add(i).write_unaligned(v) }
    }
}

/// An address in a tensor's memory at the time of the call.
#[derive(Clone, Copy)]
struct Bytes(*mut u8);
// SAFETY: tests use one thread.
unsafe impl Send for Bytes {}

impl Bytes {
    fn place(self) -> *mut u8 {
        self.0
    }
}

/// A node as it was when it was queued.
fn kernel(t: TensorRef) -> Option<Job> {
    use ggml_op::*;
    let (dst, a) = (Span::of(t), t.src(0).map(Span::of)?);
    let b = t.src(1).map_or(a, Span::of);
    let binary = |f: fn(f32, f32) -> f32| -> Option<Job> {
        Some(Box::new(move || (0..dst.1).for_each(|i| dst.write(i, f(a.read(i), b.read(i))))))
    };
    match t.op() {
        GGML_OP_ADD => binary(|a, b| a + b),
        GGML_OP_SUB => binary(|a, b| a - b),
        GGML_OP_MUL => binary(|a, b| a * b),
        GGML_OP_SQR => binary(|a, _| a * a),
        GGML_OP_CONT | GGML_OP_DUP | GGML_OP_CPY => binary(|a, _| a),
        GGML_OP_SCALE => {
            let (s, add) = (t.op_param_f32(0), t.op_param_f32(1));
            Some(Box::new(move || (0..dst.1).for_each(|i| dst.write(i, a.read(i) * s + add))))
        }
        GGML_OP_FILL => {
            let value = t.op_param_f32(0);
            Some(Box::new(move || (0..dst.1).for_each(|i| dst.write(i, value))))
        }
        GGML_OP_SET_ROWS => {
            let (width, rows) = (t.ne()[0] as usize, t.src(0)?.ne()[1] as usize);
            Some(Box::new(move || {
                for i in 0..rows * width {
                    let row = b.read(i / width).to_bits() as usize;
                    dst.write(row * width + i % width, a.read(i));
                }
            }))
        }
        GGML_OP_MUL_MAT => {
            let (k, rows) = (t.src(0)?.ne()[0] as usize, t.ne()[0] as usize);
            Some(Box::new(move || {
                for i in 0..dst.1 {
                    let (column, row) = (i / rows, i % rows);
                    dst.write(i, (0..k).map(|j| a.read(row * k + j) * b.read(column * k + j)).sum());
                }
            }))
        }
        GGML_OP_MUL_MAT_ID => {
            let (k, rows, used) = (t.src(0)?.ne()[0] as usize, t.ne()[0] as usize, t.ne()[1] as usize);
            let ids = Span::of(t.src(2)?);
            let b_columns = t.src(1)?.ne()[1] as usize;
            Some(Box::new(move || {
                for i in 0..dst.1 {
                    let (token, choice, row) = (i / rows / used, i / rows % used, i % rows);
                    let expert = ids.read(token * used + choice).to_bits() as usize;
                    let column = token * b_columns + choice % b_columns;
                    let m = expert * rows * k + row * k;
                    dst.write(i, (0..k).map(|j| a.read(m + j) * b.read(column * k + j)).sum());
                }
            }))
        }
        _ => None,
    }
}

/// A mark in a queue.
#[derive(Default)]
pub(crate) struct Mark(Mutex<Option<(Arc<Control>, usize)>>);

impl Event for Mark {
    fn synchronize(&self) {
        let mark = self.0.lock().unwrap().clone();
        if let Some((state, n)) = mark {
            state.run_until(n);
        }
    }
}

/// A stream: its name, its device's state, whether copies out of host memory are queued, and the buffer types that it
/// can use.
struct FakeStream<const ASYNC: bool>(&'static CStr, Arc<Control>, bool, Vec<BufferTypeRef>);

impl<const ASYNC: bool> FakeStream<ASYNC> {
    /// Real devices cannot read or write what is in the memory of others.
    fn reaches(&self, node: TensorRef) -> Result<()> {
        if op_is_empty(node.op()) {
            return Ok(());
        }
        for t in std::iter::once(node).chain(node.srcs().map(|(_, s)| s)) {
            if let Some(buffer) = t.data_buffer()
                && !self.3.contains(&buffer.buft())
            {
                let (name, of) = (self.0.to_string_lossy(), buffer.name());
                return Err(invalid!("{name} computes '{}' and cannot use '{}' in {of}", node.name(), t.name()));
            }
        }
        Ok(())
    }

    fn do_or_queue(&self, job: Job) {
        if ASYNC {
            self.1.push(job);
        } else {
            job();
        }
    }
}

impl<const ASYNC: bool> Stream for FakeStream<ASYNC> {
    type Event = Mark;
    type Plan = NoPlan;
    const GUID: &'static ggml_guid = b"fake-for-testing";
    const QUEUES: bool = ASYNC;
    const TRANSFERS: bool = ASYNC;
    const COPIES: bool = ASYNC;
    const EVENTS: bool = ASYNC;
    fn name(&self) -> &CStr {
        self.0
    }
    fn compute(&self, graph: GraphRef) -> Result<()> {
        self.1.computed.fetch_add(1, SeqCst);
        if self.1.refuse.load(SeqCst) {
            return Err(Error::Aborted);
        }
        graph.nodes().try_for_each(|node| self.reaches(node))?;
        let jobs: Vec<Job> = graph.nodes().filter_map(kernel).collect();
        self.do_or_queue(Box::new(move || jobs.into_iter().for_each(|job| job())));
        Ok(())
    }
    fn synchronize(&self) -> Result<()> {
        self.1.run_until(self.1.queued.load(SeqCst));
        Ok(())
    }
    fn set_async(&self, tensor: TensorRef, data: HostSource, offset: usize) {
        self.1.bytes_set.fetch_add(data.bytes().len(), SeqCst);
        self.1.copies_in.fetch_add(1, SeqCst);
        let to = Bytes(tensor.data().wrapping_add(offset));
        // As late as a device that reads pinned memory by itself.
        self.do_or_queue(Box::new(move || {
            let bytes = data.bytes();
            // SAFETY: the range was checked, and the tensor's memory lives while the test computes.
            unsafe { to.place().copy_from(bytes.as_ptr(), bytes.len()) }
        }));
    }
    fn get_async(&self, tensor: TensorRef, mut data: HostTarget, offset: usize) {
        let from = Bytes(tensor.data().wrapping_add(offset));
        self.do_or_queue(Box::new(move || {
            let to = data.bytes();
            // SAFETY: the range was checked, and the tensor's memory lives while the test computes.
            unsafe { from.place().copy_to(to.as_mut_ptr(), to.len()) }
        }));
    }
    fn copy_async(&self, from: BackendRef, _to: BackendRef, src: TensorRef, dst: TensorRef) -> bool {
        let (source, n) = (stream_author::<FakeStream<true>>(&from), src.nelements() as usize);
        let (from, to) = (Span::of(src), Span::of(dst));
        let Some(source) = source else {
            if self.2 {
                self.1.push(Box::new(move || (0..n).for_each(|i| to.write(i, from.read(i)))));
            }
            return self.2;
        };
        let mark = source.1.push(Box::new(move || (0..n).for_each(|i| to.write(i, from.read(i)))));
        let state = source.1.clone();
        self.1.push(Box::new(move || state.run_until(mark)));
        true
    }
    fn event_record(&self, event: &Mark) {
        *event.0.lock().unwrap() = Some((self.1.clone(), self.1.queued.load(SeqCst)));
    }
    fn event_wait(&self, event: &Mark) {
        if let Some((state, n)) = event.0.lock().unwrap().clone() {
            self.1.push(Box::new(move || state.run_until(n)));
        }
    }
}

/// A device: what it is like, what a test sees, its buffer type, and whether it has a stream. Streams after the first
/// one have queues of their own.
struct FakeDevice<const ASYNC: bool>(Spec, Arc<Control>, OnceLock<BufferTypeRef>, AtomicBool);

impl<const ASYNC: bool> Device for FakeDevice<ASYNC> {
    type Stream = FakeStream<ASYNC>;
    type Event = Mark;
    const EVENTS: bool = ASYNC;
    const OFFLOADS: bool = true;
    fn name(&self) -> &CStr {
        self.0.name
    }
    fn description(&self) -> &CStr {
        self.0.name
    }
    fn memory(&self) -> (usize, usize) {
        (0, 0)
    }
    fn kind(&self) -> ggml_backend_dev_type {
        self.0.kind
    }
    fn caps(&self) -> ggml_backend_dev_caps {
        ggml_backend_dev_caps {
            r#async: ASYNC,
            host_buffer: false,
            buffer_from_host_ptr: false,
            events: ASYNC,
            mmap_support: false,
        }
    }
    fn open(&self, this: DeviceRef, _: Option<&CStr>) -> Result<FakeStream<ASYNC>> {
        let usable = std::iter::once(self.buffer_type(this)).chain(self.0.reads.iter().copied()).collect();
        let state = if self.3.swap(true, SeqCst) { Arc::default() } else { self.1.clone() };
        Ok(FakeStream(self.0.name, state, self.0.host_copies, usable))
    }
    fn buffer_type(&self, this: DeviceRef) -> BufferTypeRef {
        let Spec { name, host, alignment, max_size, .. } = self.0;
        let buft = FakeBuft { name, host, alignment, max_size, expand: 0, state: self.1.clone() };
        *self.2.get_or_init(|| leak_buffer_type(Some(this), buft))
    }
    fn supports_op(&self, op: TensorRef) -> bool {
        (self.0.supports)(op)
    }
    fn supports_buft(&self, this: DeviceRef, buft: BufferTypeRef) -> bool {
        buft == self.buffer_type(this) || self.0.reads.contains(&buft)
    }
    fn offload_op(&self, _: TensorRef) -> bool {
        self.0.offloads
    }
    fn event_new(&self) -> Result<Mark> {
        Ok(Mark::default())
    }
}

struct Family<const ASYNC: bool>(Mutex<Option<FakeDevice<ASYNC>>>);

impl<const ASYNC: bool> Reg for Family<ASYNC> {
    type Device = FakeDevice<ASYNC>;
    fn name(&self) -> &CStr {
        c"Fakes"
    }
    fn devices(&self) -> Vec<FakeDevice<ASYNC>> {
        self.0.lock().unwrap().take().into_iter().collect()
    }
}

/// A device with a stream.
pub(crate) struct Fake {
    pub backend: BackendBox,
    pub buft: BufferTypeRef,
    pub state: Arc<Control>,
}

impl Fake {
    fn make<const ASYNC: bool>(spec: Spec) -> Self {
        let state = Arc::new(Control::default());
        let device = FakeDevice::<ASYNC>(spec, state.clone(), OnceLock::new(), AtomicBool::new(false));
        let family = publish(Family(Mutex::new(Some(device))));
        // It lives until the process ends. The static keeps it reachable, so that LeakSanitizer reports no leak.
        static PUBLISHED: Mutex<Vec<RegRef>> = Mutex::new(Vec::new());
        PUBLISHED.lock().unwrap().push(family);
        let device = family.device(0).unwrap();
        Self { backend: device.init(None).unwrap(), buft: device.buffer_type().unwrap(), state }
    }

    /// A device that has computed when the call returns.
    pub fn new(spec: Spec) -> Self {
        Self::make::<false>(spec)
    }

    /// A device that computes only when it is waited for.
    pub fn lazy(spec: Spec) -> Self {
        Self::make::<true>(spec)
    }

    pub fn handle(&self) -> BackendRef {
        self.backend.handle()
    }
}
