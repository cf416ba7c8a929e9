//! Streams: computing graphs, asynchronous copies, events.

use crate::abi::ggml::{ggml_guid, ggml_op};
use crate::backend::Abort;
use crate::backend::BackendRef;
use crate::backend::author::{Event, HostSource, HostTarget, NoPlan, Stream, stream_author};
use crate::backend::damage::{self, Queued};
use crate::backend::tensor_io::Pieces;
use crate::environment;
use crate::error::{Error, Result};
use crate::graph::GraphRef;
use crate::sys::sync::lock;
use crate::tensor::TensorRef;
use crate::vulkan::backend::graph::Work;
use crate::vulkan::backend::kept::KeptGraphs;
use crate::vulkan::backend::reorder;
use crate::vulkan::device::core::Core;
use crate::vulkan::device::info::Info;
use crate::vulkan::device::memory::Span;
use crate::vulkan::device::timeline::Mark;
use crate::vulkan::gpu::buffer::{self, Location};
use crate::vulkan::gpu::crossing::{Copy, Crossing};
use crate::vulkan::gpu::open::Gpu;
use crate::vulkan::gpu::upload::{Origin, Uploads};
use crate::vulkan::ops::Shapes;
use crate::vulkan::submit::{CopyEnd, Recorder};
use crate::{log_debug, log_error};
use std::ffi::{CStr, CString};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// A stream of work on a device.
pub struct VkStream {
    name: CString,
    // Dropped first: it waits for its work, which uses the pipelines of `gpu`.
    recorder: Mutex<Recorder>,
    /// Locked after the recorder.
    uploads: Mutex<Uploads>,
    /// Locked after the recorder.
    kept: Mutex<KeptGraphs>,
    /// Dropped after the recorder, whose work may wait for them. Locked before it.
    crossings: Mutex<Vec<Crossing>>,
    /// Whether work went on without what it waited for.
    adrift: Arc<AtomicBool>,
    gpu: Arc<Gpu>,
    shapes: Shapes,
    /// Writes that the recorder has not finished.
    writes: Queued,
    /// Whether a call without a result has failed since the last call that has one.
    failed: AtomicBool,
}

/// A mark in a stream's queue.
#[derive(Default)]
pub struct VkEvent {
    mark: Mutex<Option<Mark>>,
}

impl VkEvent {
    /// An event that was not recorded yet. Waiting for it returns at once.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Event for VkEvent {
    // Drivers have threads, which a child does not have.
    const IN_CHILDREN: bool = false;
    fn synchronize(&self) {
        let mark = lock(&self.mark).clone();
        if let Some(mark) = mark
            && let Err(e) = mark.timeline.wait(mark.value)
        {
            log_error!("ggml_vulkan: event_synchronize: {e}; waiting for the whole device");
            mark.timeline.wait_idle();
        }
    }
}

/// The bytes of pieces at a place, from the first piece to the end of the last. Only for the functions of `Stream`,
/// when the stream is idle.
fn span(at: &Location, p: Pieces) -> Result<Span<'_>> {
    // SAFETY: no work of this stream is queued. `Stream`: nothing else uses the pieces until the stream is
    // synchronised.
    unsafe { Span::new(&at.memory, at.offset + p.offset as u64, p.extent_in_tensor() as u64) }
}

/// Whether a device can compute a node.
pub(in crate::vulkan) fn supports(info: &Info, shapes: Shapes, op: TensorRef) -> bool {
    match crate::vulkan::ops::supports(op, info, shapes) {
        Ok(()) => true,
        Err(e) => {
            log_debug!("ggml_vulkan: {:?} '{}': {e}", op.op(), op.name());
            false
        }
    }
}

/// Whether a node is worth computing here although its weights must be copied first. It is if it has at least
/// GGML_OP_OFFLOAD_MIN_BATCH rows.
pub(in crate::vulkan) fn worth_offloading(op: TensorRef) -> bool {
    static LEAST: OnceLock<i64> = OnceLock::new();
    let least = *crate::sys::sync::once(&LEAST, || {
        environment::OP_OFFLOAD_MIN_BATCH.number().and_then(|n| i64::try_from(n).ok()).unwrap_or(32)
    });
    let rows = match op.op() {
        ggml_op::GGML_OP_GET_ROWS => 0,
        ggml_op::GGML_OP_MUL_MAT => op.ne()[1],
        ggml_op::GGML_OP_MUL_MAT_ID | ggml_op::GGML_OP_ROPE | ggml_op::GGML_OP_ROPE_BACK => op.ne()[2],
        _ => op.nrows(),
    };
    rows >= least
}

impl VkStream {
    pub(in crate::vulkan) fn new(gpu: &Arc<Gpu>, name: CString, shapes: Shapes) -> Result<Self> {
        let recorder = Mutex::new(Recorder::new(&gpu.core)?);
        let (uploads, kept, crossings, adrift) = Default::default();
        let (writes, failed) = (Queued::default(), AtomicBool::new(false));
        Ok(Self { gpu: gpu.clone(), shapes, name, recorder, uploads, kept, crossings, adrift, writes, failed })
    }

    /// Sets the host's callback that cancels computations.
    pub(in crate::vulkan) fn set_abort(&self, abort: Abort) {
        lock(&self.recorder).set_abort(abort);
    }

    /// What was recorded so far.
    #[cfg(test)]
    pub(in crate::vulkan) fn stats(&self) -> crate::vulkan::submit::recorder::Stats {
        lock(&self.recorder).stats()
    }

    /// Submissions of copies that were begun ahead of other work.
    #[cfg(test)]
    pub(in crate::vulkan) fn uploads(&self) -> u64 {
        lock(&self.uploads).submissions()
    }

    /// Does as the thread of a crossing that has failed.
    #[cfg(test)]
    pub(in crate::vulkan) fn set_adrift(&self) {
        self.adrift.store(true, Ordering::Release);
    }

    fn place(&self, tensor: TensorRef) -> Result<Location> {
        match buffer::location(tensor) {
            Some(l) if Arc::ptr_eq(&l.gpu, &self.gpu) => Ok(l),
            _ => Err(Error::Invalid(format!("tensor '{}' is not on {}", tensor.name(), self.name.to_string_lossy()))),
        }
    }

    /// The end of a call without a result. If it has failed, work that was recorded before may be lost with it.
    fn noted(&self, what: &str, result: Result<()>) -> bool {
        self.lent(result.inspect_err(|e| log_error!("ggml_vulkan: {what}: {e}"))).is_ok()
    }

    /// The end of a part of another stream's call that is recorded on this one. If it has failed, work of this stream
    /// may be lost with it.
    fn lent<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|_| {
            self.failed.store(true, Ordering::Relaxed);
            self.writes.lost();
        })
    }

    /// The end of a call with a result.
    fn ended(&self, result: Result<()>) -> Result<()> {
        let adrift = self.adrift.swap(false, Ordering::Acquire);
        let result = match adrift {
            true => result.and(Err(Error::Backend("another device has failed, see the log".into()))),
            false => result,
        };
        let result = result.inspect_err(|_| self.writes.lost());
        match self.failed.swap(false, Ordering::Relaxed) {
            true => result.and(Err(Error::Backend("an earlier call has failed, see the log".into()))),
            false => result,
        }
    }

    /// The end of a queued write.
    fn set_queued(&self, what: &str, result: Result<()>, tensor: TensorRef, p: Pieces) {
        if self.noted(what, result) {
            self.writes.add(tensor, p.offset, p.extent_in_tensor());
        } else {
            damage::unwritten(tensor, p.offset, p.extent_in_tensor());
        }
    }

    /// The end of a copy to `dst` that was queued, or not (false). Returns whether it was.
    fn copied(&self, what: &str, queued: Result<bool>, dst: TensorRef) -> bool {
        let is_queued = *queued.as_ref().unwrap_or(&false);
        let is_queued = self.noted(what, queued.map(drop)) && is_queued;
        if is_queued {
            self.writes.add(dst, 0, dst.nbytes());
        }
        is_queued
    }

    /// Makes the work that is queued from now on wait for a mark, of whatever device.
    pub(in crate::vulkan) fn wait_for(&self, mark: &Mark) -> Result<()> {
        if mark.timeline.is_of(&self.gpu.core) {
            return lock(&self.recorder).wait_for(mark);
        }
        let gate = self.across(mark.timeline.core(), |crossing| crossing.gate(mark.clone(), None))?;
        lock(&self.recorder).wait_for(&gate)
    }

    /// Uses the way from another device.
    fn across<T>(&self, source: &Arc<Core>, f: impl FnOnce(&mut Crossing) -> Result<T>) -> Result<T> {
        let mut all = lock(&self.crossings);
        let i = match all.iter().position(|c| c.is_from(source)) {
            Some(i) => i,
            None => {
                all.push(Crossing::new(source, &self.gpu.core, &self.adrift)?);
                all.len() - 1
            }
        };
        f(&mut all[i])
    }

    /// Queues a copy on the device, after the work that is queued on both streams. Work that is queued on the other
    /// stream from now on comes after the copy, because it may write what the copy reads.
    fn queue_copy(&self, other: &Self, from: &Location, to: &Location, bytes: u64) -> Result<()> {
        let before = if std::ptr::eq(other, self) { None } else { Some(other.lent(lock(&other.recorder).mark())?) };
        let mut recorder = lock(&self.recorder);
        if let Some(before) = &before {
            recorder.wait_for(before)?;
        }
        recorder.copy(CopyEnd::new(&from.memory, from.offset), CopyEnd::new(&to.memory, to.offset), bytes)?;
        self.settle(&mut recorder)?;
        if before.is_some() {
            let copied = recorder.mark()?;
            // One lock at a time: another thread may copy the other way.
            drop(recorder);
            other.lent(lock(&other.recorder).wait_for(&copied))?;
        }
        Ok(())
    }

    /// Queues a copy from another device, after the work that is queued on both streams.
    fn queue_crossing(&self, other: &Self, from: &Location, to: &Location, bytes: u64) -> Result<()> {
        let record = |crossing: &mut Crossing| -> Result<(Copy, Mark)> {
            let copy = crossing.copy(&other.gpu, &self.gpu, bytes)?;
            let mut recorder = lock(&other.recorder);
            let copied = recorder.copy(CopyEnd::new(&from.memory, from.offset), copy.landing(), bytes);
            let staged = other.lent(copied.and_then(|()| recorder.mark()))?;
            drop(recorder);
            let gate = crossing.gate(staged, Some(&copy))?;
            Ok((copy, gate))
        };
        let (copy, gate) = self.across(&other.gpu.core, record)?;
        let mut recorder = lock(&self.recorder);
        recorder.wait_for(&gate)?;
        recorder.copy(copy.departure(), CopyEnd::new(&to.memory, to.offset), bytes)
    }

    /// Waits for the work on devices that lose queued work (`Features::queues`).
    fn settle(&self, recorder: &mut Recorder) -> Result<()> {
        if self.gpu.info().features.queues { Ok(()) } else { recorder.finish() }
    }

    fn queue_set(&self, tensor: TensorRef, data: &HostSource, p: Pieces) -> Result<()> {
        let at = self.place(tensor)?;
        let (bytes, offset) = (data.bytes(), at.offset + p.offset as u64);
        let mut recorder = lock(&self.recorder);
        let to = CopyEnd::new(&at.memory, offset);
        if self.gpu.fetches(&at.memory, p) && self.begin_upload(&mut recorder, to.clone(), self.gpu.origin(bytes), p)? {
            return self.settle(&mut recorder);
        }
        if recorder.is_idle() && self.gpu.is_direct(&at.memory) {
            return self.gpu.write_2d(&span(&at, p)?, bytes, p);
        }
        if let Origin::Pinned(from) = self.gpu.origin(bytes) {
            let strides = (p.stride_data as u64, p.stride_tensor as u64);
            recorder.copy_pieces(from, to, p.size as u64, p.count as u64, strides)?;
            return self.settle(&mut recorder);
        }
        if bytes.len() > LONG_COPY {
            recorder.finish()?;
            return self.gpu.write_2d(&span(&at, p)?, bytes, p);
        }
        recorder.upload_pieces(to, bytes, p.size, p.count, (p.stride_data, p.stride_tensor))?;
        self.settle(&mut recorder)
    }

    /// Begins a copy to a card at once, unless other work is queued.
    fn begin_upload(&self, recorder: &mut Recorder, to: CopyEnd, from: Origin<'_>, p: Pieces) -> Result<bool> {
        lock(&self.uploads).begin(&self.gpu.core, recorder, to, from, p)
    }

    /// Queues a copy of what a backend without a queue has computed, if the card can fetch it from where it is. Returns
    /// false if it cannot. That backend may write the same memory as soon as the next graph of this stream was started.
    fn queue_fetch(&self, src: TensorRef, at: &Location) -> Result<bool> {
        let p = Pieces::one(0, src.nbytes());
        if !self.gpu.info().features.queues || !self.gpu.fetches(&at.memory, p) {
            return Ok(false);
        }
        let in_host = src.data_buffer().is_some_and(|b| b.is_host());
        let Some(data) = NonNull::new(src.data().cast::<u8>()).filter(|_| in_host) else { return Ok(false) };
        let Some((memory, start)) = self.gpu.pinned(data, p.size) else { return Ok(false) };
        let (from, to) = (CopyEnd::new(&memory, start), CopyEnd::new(&at.memory, at.offset));
        let begun = self.begin_upload(&mut lock(&self.recorder), to, Origin::Pinned(from), p)?;
        if begun {
            lock(&self.uploads).lend();
        }
        Ok(begun)
    }

    fn queue_get(&self, tensor: TensorRef, data: &mut HostTarget, p: Pieces) -> Result<()> {
        let at = self.place(tensor)?;
        let offset = at.offset + p.offset as u64;
        let mut recorder = lock(&self.recorder);
        let bytes = data.bytes();
        if recorder.is_idle() && self.gpu.is_read_directly(&at.memory) {
            return self.gpu.read_2d(&span(&at, p)?, bytes, p);
        }
        let (from, len) = (CopyEnd::new(&at.memory, offset), bytes.len());
        let target: NonNull<u8> = NonNull::from(&mut *bytes).cast();
        if let Some((memory, start)) = self.gpu.pinned(target, len) {
            let strides = (p.stride_tensor as u64, p.stride_data as u64);
            let to = CopyEnd::new(&memory, start);
            recorder.copy_pieces(from, to, p.size as u64, p.count as u64, strides)?;
            return self.settle(&mut recorder);
        }
        if len > LONG_COPY {
            recorder.finish()?;
            return self.gpu.read_2d(&span(&at, p)?, bytes, p);
        }
        // SAFETY: `HostTarget` promises that the bytes are writable and that nothing else uses them until the stream is
        // synchronised, which waits for this recorder.
        unsafe { recorder.download(from, target, p.size, p.count, (p.stride_tensor, p.stride_data)) }?;
        self.settle(&mut recorder)
    }
}

/// Copies of more bytes are not queued, because they would need staging memory of their own size.
const LONG_COPY: usize = 64 << 20;

impl Stream for VkStream {
    // Drivers have threads, which a child does not have.
    const IN_CHILDREN: bool = false;
    type Event = VkEvent;
    type Plan = NoPlan;
    const GUID: &'static ggml_guid =
        &[0xb8, 0xf7, 0x4f, 0x86, 0x40, 0x3c, 0xe1, 0x02, 0x91, 0xc8, 0xdd, 0xe9, 0x02, 0x3f, 0xc0, 0x2b];
    const QUEUES: bool = true;
    const TRANSFERS: bool = true;
    const PIECES: bool = true;
    const COPIES: bool = true;
    const EVENTS: bool = true;
    const OPTIMIZES: bool = true;

    fn name(&self) -> &CStr {
        &self.name
    }

    fn compute(&self, graph: GraphRef) -> Result<()> {
        let mut recorder = lock(&self.recorder);
        let work = Work { graph, pipelines: &self.gpu.pipelines, shapes: self.shapes };
        let recorded = lock(&self.kept).compute(&mut recorder, work);
        let settled = recorded.and_then(|()| self.settle(&mut recorder));
        self.ended(lock(&self.uploads).give_back().and(settled))
    }

    fn optimize(&self, graph: GraphRef) {
        if reorder::is_on() {
            reorder::reorder(graph);
        }
    }

    fn synchronize(&self) -> Result<()> {
        let mut recorder = lock(&self.recorder);
        let uploaded = lock(&self.uploads).finish();
        let finished = recorder.finish();
        drop(recorder);
        self.ended(uploaded.and(finished))?;
        self.writes.done();
        Ok(())
    }

    fn set_async(&self, tensor: TensorRef, data: HostSource, offset: usize) {
        let p = Pieces::one(offset, data.bytes().len());
        self.set_queued("set_async", self.queue_set(tensor, &data, p), tensor, p);
    }

    fn get_async(&self, tensor: TensorRef, mut data: HostTarget, offset: usize) {
        let p = Pieces::one(offset, data.bytes().len());
        if !self.noted("get_async", self.queue_get(tensor, &mut data, p)) {
            buffer::not_read(data.bytes(), p);
        }
    }

    fn set_2d_async(&self, tensor: TensorRef, data: HostSource, pieces: Pieces) {
        debug_assert!(pieces.extent_in_tensor() <= tensor.nbytes());
        self.set_queued("set_2d_async", self.queue_set(tensor, &data, pieces), tensor, pieces);
    }

    fn get_2d_async(&self, tensor: TensorRef, mut data: HostTarget, pieces: Pieces) {
        if !self.noted("get_2d_async", self.queue_get(tensor, &mut data, pieces)) {
            buffer::not_read(data.bytes(), pieces);
        }
    }

    fn copy_async(&self, from: BackendRef, _to: BackendRef, src: TensorRef, dst: TensorRef) -> bool {
        let Some(target) = buffer::location(dst).filter(|l| Arc::ptr_eq(&l.gpu, &self.gpu)) else { return false };
        if !from.has_queue() {
            return self.copied("copy_async", self.queue_fetch(src, &target), dst);
        }
        let Some(other) = stream_author::<Self>(&from) else { return false };
        let Some(source) = buffer::location(src).filter(|l| Arc::ptr_eq(&l.gpu, &other.gpu)) else { return false };
        let bytes = src.nbytes() as u64;
        let queued = if Arc::ptr_eq(&other.gpu, &self.gpu) {
            self.queue_copy(other, &source, &target, bytes)
        } else if bytes <= LONG_COPY as u64 && [self, other].iter().all(|s| s.gpu.info().features.queues) {
            self.queue_crossing(other, &source, &target, bytes)
        } else {
            return false;
        };
        self.copied("copy_async", queued.map(|()| true), dst)
    }

    fn event_record(&self, event: &VkEvent) {
        let marked = lock(&self.recorder).mark();
        self.noted("event_record", marked.map(|mark| *lock(&event.mark) = Some(mark)));
    }

    fn event_wait(&self, event: &VkEvent) {
        let mark = lock(&event.mark).clone();
        if let Some(mark) = mark {
            self.noted("event_wait", self.wait_for(&mark));
        }
    }
}
