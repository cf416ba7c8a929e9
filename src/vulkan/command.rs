//! Recording of work: steps with barriers where data flows, submitted in growing pieces while the device works.

use super::core::Core;
use super::hazard::{Hazards, Range};
use super::memory::{Memory, Purpose};
use super::profile::{Label, Profile, Stamps};
use super::timeline::{Mark, Timeline};
use crate::error::{Error, Result};
use crate::log_warn;
use ash::vk;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

/// What a dispatch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// The pipeline.
    pub pipeline: vk::Pipeline,
    /// Its layout: push constants alone.
    pub layout: vk::PipelineLayout,
}

/// Bytes of push constants that every device has.
pub const PUSH_BYTES: usize = 128;

/// A place in memory to copy from or to.
#[derive(Clone, Copy)]
pub struct Place {
    buffer: vk::Buffer,
    offset: u64,
    address: u64,
}

impl Place {
    /// The byte at `offset` of `memory`.
    pub fn new(memory: &Memory, offset: u64) -> Self {
        Self { buffer: memory.buffer(), offset, address: memory.address + offset }
    }

    fn range(&self, len: u64) -> Range {
        Range::new(self.address, len)
    }

    fn plus(&self, n: u64) -> Self {
        Self { offset: self.offset + n, address: self.address + n, ..*self }
    }
}

/// A piece of staging memory: the host writes or reads it, the device copies from or to it.
pub struct Staged {
    ptr: NonNull<u8>,
    len: usize,
    /// Where it lies for the device.
    pub place: Place,
}

impl Staged {
    /// Writes `data` from byte `at` on.
    fn write(&self, at: usize, data: &[u8]) {
        assert!(at <= self.len && data.len() <= self.len - at);
        // SAFETY: the piece is `len` mapped bytes that nobody else uses, and the data fits.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.ptr.as_ptr().add(at), data.len()) }
    }
}

/// Host memory that is to be filled when the work is done.
struct Landing {
    from: NonNull<u8>,
    to: NonNull<u8>,
    len: usize,
    /// Number of pieces, and how far apart they are in host memory.
    pieces: (usize, usize),
}

impl Landing {
    /// # Safety
    /// The device is done with `from`.
    unsafe fn land(&self) {
        let (count, stride) = self.pieces;
        for i in 0..count {
            // SAFETY: whoever queued the landing promised the target; the source is staging memory of its size.
            unsafe {
                let (from, to) = (self.from.as_ptr().add(i * self.len), self.to.as_ptr().add(i * stride));
                std::ptr::copy_nonoverlapping(from, to, self.len);
            }
        }
    }
}

/// What recorded work holds until it is done.
#[derive(Default)]
struct Keep {
    pages: Vec<Page>,
    memory: Vec<Arc<Memory>>,
    landings: Vec<Landing>,
    waits: Vec<Mark>,
}

struct Page {
    memory: Memory,
    used: u64,
}

struct Open {
    commands: vk::CommandBuffer,
    bound: Option<vk::Pipeline>,
    keep: Keep,
    stamps: Option<Stamps>,
    nodes: u32,
    bytes: u64,
}

struct Flight {
    value: u64,
    commands: vk::CommandBuffer,
    keep: Keep,
    stamps: Option<Stamps>,
}

/// How much is submitted at once: the first pieces are small, so that the device starts early, and none is so long that a
/// system takes the device for hung.
#[derive(Clone, Copy, Debug)]
struct Piece {
    nodes: u32,
    bytes: u64,
}

impl Piece {
    const FIRST: Self = Self { nodes: 8, bytes: 32 << 20 };
    const MOST: Self = Self { nodes: 100, bytes: 512 << 20 };

    fn grown(self, most: Self) -> Self {
        Self { nodes: (self.nodes * 2).min(most.nodes), bytes: (self.bytes * 2).min(most.bytes) }
    }
}

/// Records and submits the work of one stream. One thread at a time.
pub struct Recorder {
    core: Arc<Core>,
    timeline: Arc<Timeline>,
    pool: vk::CommandPool,
    spare: Vec<vk::CommandBuffer>,
    pages: Vec<Memory>,
    open: Option<Open>,
    flying: VecDeque<Flight>,
    submitted: u64,
    hazards: Hazards,
    waits: Vec<Mark>,
    piece: Piece,
    most: Piece,
    scratch: Option<(Arc<Memory>, u64)>,
    stats: Stats,
    profile: Profile,
}
// SAFETY: the raw addresses in it are staging memory of its own and host memory that whoever queued a copy promised to keep
// until the work is done.
unsafe impl Send for Recorder {}

/// What was recorded so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Dispatches.
    pub dispatches: u64,
    /// Barriers between steps.
    pub barriers: u64,
    /// Submissions.
    pub submissions: u64,
    /// The longest piece, in nodes.
    pub longest: u32,
}

/// Bytes of a page of staging memory; more is had for one use.
const PAGE: u64 = 1 << 20;
/// Pages kept for the next use.
const SPARE_PAGES: usize = 8;
/// Pieces in flight before recording waits for the device.
const MOST_FLYING: usize = 32;
/// Alignment of staging and scratch memory.
const ALIGN: u64 = 256;

impl Recorder {
    /// A recorder with a pool and a timeline of its own.
    pub fn new(core: &Arc<Core>) -> Result<Self> {
        let timeline = Timeline::new(core)?;
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(core.info.queue_family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER | vk::CommandPoolCreateFlags::TRANSIENT);
        // SAFETY: the family is the queue's.
        let pool =
            unsafe { core.vk.create_command_pool(&info, None) }.map_err(|e| core.failed("making a command pool", e))?;
        let nodes = super::env::number("GGML_VK_MAX_NODES_PER_SUBMIT").and_then(|n| u32::try_from(n).ok());
        let most = Piece { nodes: nodes.unwrap_or(Piece::MOST.nodes).max(1), ..Piece::MOST };
        Ok(Self {
            core: core.clone(),
            timeline,
            pool,
            spare: Vec::new(),
            pages: Vec::new(),
            open: None,
            flying: VecDeque::new(),
            submitted: 0,
            hazards: Hazards::default(),
            waits: Vec::new(),
            piece: Piece { nodes: Piece::FIRST.nodes.min(most.nodes), ..Piece::FIRST },
            most,
            scratch: None,
            stats: Stats::default(),
            profile: Profile::new(),
        })
    }

    /// The device.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// What was recorded so far.
    #[cfg(test)]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Records a dispatch. The shader may touch `reads` and `writes` alone (the staging, parameter and scratch memory of
    /// this recorder among them); nothing is recorded when a group count is 0.
    ///
    /// Errors: more groups than the device's limit (the caller splits), more than [`PUSH_BYTES`] of push constants.
    pub fn dispatch(
        &mut self,
        program: Program,
        push: &[u8],
        groups: [u32; 3],
        reads: &[Range],
        writes: &[Range],
    ) -> Result<()> {
        if groups.contains(&0) {
            return Ok(());
        }
        let limit = self.core.info.limits.groups;
        if groups.iter().zip(limit).any(|(n, most)| *n > most) {
            return Err(Error::Backend(format!("Vulkan: a dispatch of {groups:?} groups, the limit is {limit:?}")));
        }
        if push.len() > PUSH_BYTES || !push.len().is_multiple_of(4) {
            return Err(Error::Backend(format!("Vulkan: {} bytes of push constants", push.len())));
        }
        let commands = self.step(reads, writes)?;
        let rebind = self.open.as_mut().is_some_and(|o| o.bound.replace(program.pipeline) != Some(program.pipeline));
        let vk = &self.core.vk;
        // SAFETY: the command buffer is being recorded, by this thread alone; the pipeline and its layout live in the
        // device's cache; sizes were checked.
        unsafe {
            if rebind {
                vk.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, program.pipeline);
            }
            if !push.is_empty() {
                vk.cmd_push_constants(commands, program.layout, vk::ShaderStageFlags::COMPUTE, 0, push);
            }
            vk.cmd_dispatch(commands, groups[0], groups[1], groups[2]);
        }
        self.stats.dispatches += 1;
        Ok(())
    }

    /// Device memory for intermediate results of a step. It may be given again to a later step: barriers keep them apart,
    /// as long as steps say what they read and write.
    pub fn scratch(&mut self, bytes: u64) -> Result<Range> {
        let need = bytes.max(1).next_multiple_of(ALIGN);
        if let Some((memory, at)) = &mut self.scratch
            && memory.size >= need
        {
            let start = if *at + need <= memory.size { *at } else { 0 };
            *at = start + need;
            return Ok(Range::new(memory.address + start, bytes));
        }
        let old = self.scratch.take();
        let size = need.max(old.as_ref().map_or(PAGE, |(m, _)| m.size * 2).min(256 << 20));
        if let Some((memory, _)) = old {
            // Queued work may use it.
            self.opened()?.keep.memory.push(memory);
        }
        let memory = Arc::new(Memory::new(&self.core, size, Purpose::Tensors, "scratch memory of a graph")?);
        let range = Range::new(memory.address, bytes);
        self.scratch = Some((memory, need));
        Ok(range)
    }

    /// Records a copy on the device.
    pub fn copy(&mut self, from: Place, to: Place, len: u64) -> Result<()> {
        self.copy_pieces(from, to, len, 1, (0, 0))
    }

    /// Records a copy of `count` pieces of `len` bytes; the strides are those of the source and the target.
    pub fn copy_pieces(&mut self, from: Place, to: Place, len: u64, count: u64, strides: (u64, u64)) -> Result<()> {
        if len == 0 || count == 0 {
            return Ok(());
        }
        let reach = |stride: u64| stride * (count - 1) + len;
        let commands = self.step(&[from.range(reach(strides.0))], &[to.range(reach(strides.1))])?;
        let regions: Vec<_> = (0..count)
            .map(|i| {
                vk::BufferCopy::default()
                    .src_offset(from.offset + i * strides.0)
                    .dst_offset(to.offset + i * strides.1)
                    .size(len)
            })
            .collect();
        // SAFETY: the command buffer is being recorded; the ranges are in the buffers, by the callers' checks.
        unsafe { self.core.vk.cmd_copy_buffer(commands, from.buffer, to.buffer, &regions) };
        Ok(())
    }

    /// Records setting `len` bytes to `value`.
    pub fn fill(&mut self, to: Place, len: u64, value: u8) -> Result<()> {
        // The command fills whole words; what is left before and after is copied.
        let head = (to.offset.next_multiple_of(4) - to.offset).min(len);
        let words = (len - head) / 4 * 4;
        let tail = len - head - words;
        for (at, n) in [(0, head), (head + words, tail)] {
            self.upload(to.plus(at), &[value; 4][..usize::try_from(n).unwrap_or(0)])?;
        }
        if words > 0 {
            let to = to.plus(head);
            let commands = self.step(&[], &[to.range(words)])?;
            let word = u32::from_ne_bytes([value; 4]);
            // SAFETY: the command buffer is being recorded; the range is in the buffer, by the callers' checks.
            unsafe { self.core.vk.cmd_fill_buffer(commands, to.buffer, to.offset, words, word) };
        }
        Ok(())
    }

    /// Records a copy of host memory, which may be changed as soon as this returns.
    pub fn upload(&mut self, to: Place, data: &[u8]) -> Result<()> {
        self.upload_pieces(to, data, data.len(), 1, (0, 0))
    }

    /// As `upload`, for `count` pieces of `len` bytes that lie `strides.0` apart in `data` and `strides.1` on the device.
    pub fn upload_pieces(
        &mut self,
        to: Place,
        data: &[u8],
        len: usize,
        count: usize,
        strides: (usize, usize),
    ) -> Result<()> {
        if len == 0 || count == 0 {
            return Ok(());
        }
        let staged = self.stage((len * count) as u64)?;
        (0..count).for_each(|i| staged.write(i * len, &data[i * strides.0..][..len]));
        self.copy_pieces(staged.place, to, len as u64, count as u64, (len as u64, strides.1 as u64))
    }

    /// Records a copy into host memory, which is filled when the work is waited for: `count` pieces of `len` bytes that lie
    /// `strides.0` apart on the device and `strides.1` in host memory.
    ///
    /// # Safety
    /// The pieces at `target` are writable, and nobody else uses them, until this recorder has waited for the work.
    pub unsafe fn download(
        &mut self,
        from: Place,
        target: NonNull<u8>,
        len: usize,
        count: usize,
        strides: (usize, usize),
    ) -> Result<()> {
        if len == 0 || count == 0 {
            return Ok(());
        }
        let staged = self.stage((len * count) as u64)?;
        self.copy_pieces(from, staged.place, len as u64, count as u64, (strides.0 as u64, len as u64))?;
        let landing = Landing { from: staged.ptr, to: target, len, pieces: (count, strides.1) };
        self.opened()?.keep.landings.push(landing);
        Ok(())
    }

    /// Starts a graph: its first piece is small again.
    pub fn start_graph(&mut self) {
        self.piece = Piece { nodes: Piece::FIRST.nodes.min(self.most.nodes), ..Piece::FIRST };
    }

    /// Takes the time of the step that ends here, if times are recorded.
    pub fn stamp(&mut self, label: impl FnOnce() -> Label) {
        let Some(Open { commands, stamps: Some(_), .. }) = self.open else { return };
        self.barrier(commands);
        self.hazards.clear();
        if let Some(stamps) = self.open.as_mut().and_then(|o| o.stamps.as_mut()) {
            stamps.step(&self.core, commands, label());
        }
    }

    /// Ends a graph. If the table of times is enabled, waits for the graph and prints the table.
    pub fn end_graph(&mut self) -> Result<()> {
        self.submit()?;
        if super::profile::table_wanted() {
            self.finish()?;
            self.profile.end_graph(&self.core.info.identity.name);
        }
        Ok(())
    }

    /// Ends a node that moved `bytes`; submits when the piece is long enough.
    pub fn end_node(&mut self, bytes: u64) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.nodes += 1;
        open.bytes = open.bytes.saturating_add(bytes);
        self.stats.longest = self.stats.longest.max(open.nodes);
        if open.nodes >= self.piece.nodes || open.bytes >= self.piece.bytes {
            self.piece = self.piece.grown(self.most);
            self.submit()?;
        }
        Ok(())
    }

    /// Lets what is recorded from now on wait for a mark of another stream.
    pub fn wait_for(&mut self, mark: &Mark) -> Result<()> {
        if Arc::ptr_eq(&mark.timeline, &self.timeline) {
            return Ok(());
        }
        if !mark.timeline.is_of(&self.core) {
            // Semaphores are their device's own: the host waits.
            return mark.timeline.wait(mark.value);
        }
        self.submit()?;
        self.waits.push(mark.clone());
        Ok(())
    }

    /// Submits what is recorded, and gives the mark that is reached when everything so far is done.
    pub fn mark(&mut self) -> Result<Mark> {
        if !self.waits.is_empty() {
            self.opened()?;
        }
        self.submit()?;
        Ok(Mark { timeline: self.timeline.clone(), value: self.submitted })
    }

    /// Whether nothing is recorded or in flight.
    pub fn is_idle(&mut self) -> bool {
        self.retire();
        self.open.is_none() && self.flying.is_empty() && self.waits.is_empty()
    }

    /// Submits what is recorded.
    pub fn submit(&mut self) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        // What the host reads after the wait must have been made visible to it.
        let barrier = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::SHADER_WRITE | vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ)];
        let stages = vk::PipelineStageFlags::COMPUTE_SHADER | vk::PipelineStageFlags::TRANSFER;
        // SAFETY: the command buffer is being recorded, by this thread alone.
        let ended = unsafe {
            self.core.vk.cmd_pipeline_barrier(
                open.commands,
                stages,
                vk::PipelineStageFlags::HOST,
                vk::DependencyFlags::empty(),
                &barrier,
                &[],
                &[],
            );
            self.core.vk.end_command_buffer(open.commands)
        };
        open.keep.waits = std::mem::take(&mut self.waits);
        let waits: Vec<_> = open.keep.waits.iter().map(|m| (m.timeline.semaphore, m.value)).collect();
        let value = self.submitted + 1;
        let result = match ended {
            // SAFETY: recorded just now; what it uses is kept until the value is reached, and so is the pool.
            Ok(()) => unsafe { self.core.submit(&[open.commands], &waits, (self.timeline.semaphore, value)) },
            Err(e) => Err(self.core.failed("recording work", e)),
        };
        if let Err(e) = result {
            self.hazards.clear();
            if let Some(stamps) = open.stamps {
                stamps.abandon(&mut self.profile);
            }
            self.recycle(open.commands, open.keep);
            return Err(e);
        }
        self.submitted = value;
        self.stats.submissions += 1;
        self.flying.push_back(Flight { value, commands: open.commands, keep: open.keep, stamps: open.stamps });
        self.retire();
        self.wait_below(MOST_FLYING)
    }

    /// Submits what is recorded and waits until everything is done; host memory that was to be filled is.
    pub fn finish(&mut self) -> Result<()> {
        let begun = if self.waits.is_empty() { Ok(()) } else { self.opened().map(drop) };
        let submitted = begun.and(self.submit());
        let waited = self.wait_below(1);
        self.hazards.clear();
        submitted.and(waited)
    }

    /// Waits until fewer than `n` pieces are in flight.
    pub fn wait_below(&mut self, n: usize) -> Result<()> {
        while self.flying.len() >= n.max(1) {
            let value = self.flying[0].value;
            if let Err(e) = self.timeline.wait(value) {
                self.abandon();
                return Err(e);
            }
            self.retire();
        }
        Ok(())
    }

    /// Staging memory that stays until the work that is being recorded is done.
    fn stage(&mut self, bytes: u64) -> Result<Staged> {
        let need = bytes.max(1).next_multiple_of(ALIGN);
        self.opened()?;
        let room = |o: &Open| o.keep.pages.last().is_some_and(|p| p.memory.size - p.used >= need);
        if !self.open.as_ref().is_some_and(room) {
            let memory = match self.pages.pop_if(|_| need <= PAGE) {
                Some(memory) => memory,
                None => Memory::new(&self.core, need.max(PAGE), Purpose::Host, "staging memory")?,
            };
            self.opened()?.keep.pages.push(Page { memory, used: 0 });
        }
        let Some(page) = self.opened()?.keep.pages.last_mut() else {
            return Err(Error::Backend("Vulkan: no staging memory".into()));
        };
        let at = page.used;
        page.used += need;
        let base = page.memory.mapped().ok_or_else(|| Error::Backend("Vulkan: staging memory is not mapped".into()))?;
        let (at_host, len) = (usize::try_from(at).unwrap_or(usize::MAX), usize::try_from(bytes).unwrap_or(usize::MAX));
        // SAFETY: the page has the room.
        let ptr = unsafe { base.add(at_host) };
        Ok(Staged { ptr, len, place: Place::new(&page.memory, at) })
    }

    /// The command buffer, after a barrier where one must stand.
    fn step(&mut self, reads: &[Range], writes: &[Range]) -> Result<vk::CommandBuffer> {
        let commands = self.opened()?.commands;
        if self.hazards.step(reads, writes) {
            self.barrier(commands);
            self.stats.barriers += 1;
        }
        Ok(commands)
    }

    fn barrier(&self, commands: vk::CommandBuffer) {
        use vk::AccessFlags as A;
        let (read, write) = (A::SHADER_READ | A::TRANSFER_READ, A::SHADER_WRITE | A::TRANSFER_WRITE);
        let barrier = [vk::MemoryBarrier::default().src_access_mask(write).dst_access_mask(read | write)];
        let stages = vk::PipelineStageFlags::COMPUTE_SHADER | vk::PipelineStageFlags::TRANSFER;
        // SAFETY: the command buffer is being recorded, by this thread alone.
        unsafe {
            let none = vk::DependencyFlags::empty();
            self.core.vk.cmd_pipeline_barrier(commands, stages, stages, none, &barrier, &[], &[]);
        }
    }

    fn opened(&mut self) -> Result<&mut Open> {
        let open = match self.open.take() {
            Some(open) => open,
            None => self.begin()?,
        };
        Ok(self.open.insert(open))
    }

    fn begin(&mut self) -> Result<Open> {
        if self.core.is_lost() {
            return Err(self.core.failed("recording work", vk::Result::ERROR_DEVICE_LOST));
        }
        let vk = &self.core.vk;
        let commands = match self.spare.pop() {
            Some(c) => c,
            None => {
                let info = vk::CommandBufferAllocateInfo::default()
                    .command_pool(self.pool)
                    .level(vk::CommandBufferLevel::PRIMARY)
                    .command_buffer_count(1);
                // SAFETY: the pool is this recorder's.
                let made = unsafe { vk.allocate_command_buffers(&info) };
                let made = made.map_err(|e| self.core.failed("making a command buffer", e))?;
                made.first().copied().ok_or_else(|| Error::Backend("Vulkan: no command buffer".into()))?
            }
        };
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the command buffer is not in use.
        if let Err(e) = unsafe { vk.begin_command_buffer(commands, &info) } {
            self.spare.push(commands);
            return Err(self.core.failed("recording work", e));
        }
        let stamps = if Profile::is_on(&self.core) { Some(self.profile.begin(&self.core, commands)?) } else { None };
        Ok(Open { commands, bound: None, keep: Keep::default(), stamps, nodes: 0, bytes: 0 })
    }

    /// Takes back what the device is done with.
    fn retire(&mut self) {
        if self.flying.is_empty() {
            return;
        }
        let reached = match self.timeline.reached() {
            Ok(reached) => reached,
            Err(e) => {
                log_warn!("{e}");
                return self.abandon();
            }
        };
        while self.flying.front().is_some_and(|f| f.value <= reached) {
            let Some(flight) = self.flying.pop_front() else { break };
            // SAFETY: its value is reached.
            flight.keep.landings.iter().for_each(|l| unsafe { l.land() });
            if let Some(stamps) = flight.stamps {
                self.profile.collect(&self.core, stamps);
            }
            self.recycle(flight.commands, flight.keep);
        }
    }

    /// Takes everything back after the device failed: nothing lands.
    fn abandon(&mut self) {
        self.core.wait_idle();
        while let Some(flight) = self.flying.pop_front() {
            if let Some(stamps) = flight.stamps {
                stamps.abandon(&mut self.profile);
            }
            self.recycle(flight.commands, flight.keep);
        }
    }

    fn recycle(&mut self, commands: vk::CommandBuffer, keep: Keep) {
        self.spare.push(commands);
        for page in keep.pages {
            if self.pages.len() < SPARE_PAGES && page.memory.size == PAGE {
                self.pages.push(page.memory);
            }
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // What was recorded and never submitted is of no use to anybody.
        if let Err(e) = self.wait_below(1) {
            log_warn!("{e}");
        }
        if let Some(stamps) = self.open.take().and_then(|o| o.stamps) {
            stamps.abandon(&mut self.profile);
        }
        self.profile.free(&self.core);
        // SAFETY: nothing of the pool is in use any more.
        unsafe { self.core.vk.destroy_command_pool(self.pool, None) };
    }
}
