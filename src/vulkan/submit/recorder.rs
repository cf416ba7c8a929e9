//! Recording of work: steps, with barriers between those that depend on each other. Work is submitted in pieces that
//! grow, so that the device starts early.

use crate::environment;
mod pieces;
mod replay;
mod waits;

use crate::backend::Abort;
use crate::error::{Error, Result};
use crate::log_warn;
use crate::vulkan::device::core::{Core, Lane};
use crate::vulkan::device::memory::{Memory, Purpose};
use crate::vulkan::device::timeline::{Mark, Reached, Timeline};
use crate::vulkan::shaders::interface::MAX_PUSH;
use crate::vulkan::shaders::pipeline::Program;
use crate::vulkan::submit::hazard::{Hazards, Range};
use crate::vulkan::submit::open::{Before, Flight, Keep, Open};
use crate::vulkan::submit::piece::{KeptCommands, Piece};
use crate::vulkan::submit::profile::{Label, Profile};
use crate::vulkan::submit::staging::{CopyEnd, Page, Readback, Staged};
use ash::vk;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

/// Records and submits the work of one stream. Only one thread may use it at a time.
pub struct Recorder {
    core: Arc<Core>,
    lane: Lane,
    timeline: Arc<Timeline>,
    pool: vk::CommandPool,
    spare: Vec<vk::CommandBuffer>,
    pages: Vec<Arc<Memory>>,
    open: Option<Open>,
    flying: VecDeque<Flight>,
    submitted: u64,
    /// What the timeline is known to have reached.
    reached: Reached,
    hazards: Hazards,
    waits: Vec<Mark>,
    /// Why pieces in flight were given up, until a call says so.
    given_up: Option<Error>,
    piece: Piece,
    most: Piece,
    scratch: Option<(Arc<Memory>, u64)>,
    /// The graph that is recorded now, if its commands are kept.
    keeping: Option<KeptCommands>,
    abort: Abort,
    /// The open piece is long enough.
    full: bool,
    /// Kept commands that were discarded. They may be in flight.
    discarded: Vec<KeptCommands>,
    stats: Stats,
    profile: Profile,
}
// SAFETY: only the addresses in readbacks are not `Send`. `from` is staging memory of the recorder; `to` is writable
// until the work is done, by the promise of `download`, which names no thread.
unsafe impl Send for Recorder {}

/// Counts of what was recorded.
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
    /// Graphs that were submitted again.
    pub replays: u64,
}

/// Bytes of a page of staging memory. Larger copies get pages of their own size.
const PAGE: u64 = 1 << 20;
/// Maximum number of free pages that are kept.
const SPARE_PAGES: usize = 8;
/// Maximum number of pieces in flight. Recording waits for the device if there are more.
const MOST_FLYING: usize = 32;
/// The same for hosts that may cancel a computation.
const MOST_TO_CANCEL: usize = 2;
/// Alignment of staging and scratch memory.
const ALIGN: u64 = 256;

impl Recorder {
    /// Creates a recorder with its own command pool and timeline.
    pub fn new(core: &Arc<Core>) -> Result<Self> {
        Self::on(core, Lane::Compute)
    }

    /// Creates a recorder for copies only, which need not wait for what the device computes meanwhile.
    pub fn for_copies(core: &Arc<Core>) -> Result<Self> {
        Self::on(core, Lane::Copies)
    }

    fn on(core: &Arc<Core>, lane: Lane) -> Result<Self> {
        let timeline = Timeline::new(core)?;
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(core.family(lane))
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER | vk::CommandPoolCreateFlags::TRANSIENT);
        // SAFETY: `Core`: the device is valid, and was created with a queue of the lane's family.
        let pool =
            unsafe { core.vk.create_command_pool(&info, None) }.map_err(|e| core.failed("making a command pool", e))?;
        let nodes = environment::VK_MAX_NODES_PER_SUBMIT.number().and_then(|n| u32::try_from(n).ok());
        let most = Piece { nodes: nodes.unwrap_or(Piece::MOST.nodes).max(1), ..Piece::MOST };
        Ok(Self {
            core: core.clone(),
            lane,
            timeline,
            pool,
            spare: Vec::new(),
            pages: Vec::new(),
            open: None,
            flying: VecDeque::new(),
            submitted: 0,
            reached: Reached::default(),
            hazards: Hazards::default(),
            waits: Vec::new(),
            given_up: None,
            piece: Piece { nodes: Piece::FIRST.nodes.min(most.nodes), ..Piece::FIRST },
            most,
            scratch: None,
            keeping: None,
            abort: Abort::NEVER,
            full: false,
            discarded: Vec::new(),
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

    /// Records a dispatch. The shader must access only `reads` and `writes`. Records nothing if a group count is 0.
    ///
    /// Fails if there are more groups than the device allows, or more than [`MAX_PUSH`] bytes of push constants.
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
        if push.len() > MAX_PUSH || !push.len().is_multiple_of(4) {
            return Err(Error::Backend(format!("Vulkan: {} bytes of push constants", push.len())));
        }
        self.next_piece()?;
        let commands = self.step(reads, writes)?;
        let rebind = self.open.as_mut().is_some_and(|o| o.bound.replace(program.pipeline) != Some(program.pipeline));
        let vk = &self.core.vk;
        // SAFETY: `Open`: commands may be recorded. `Pipelines` keeps pipeline and layout of a program until the
        // streams of the device are gone. The group counts and the size of the push constants are within the limits
        // (checked).
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

    /// Device memory for intermediate results of a step. A later step may get the same memory. Barriers order the two,
    /// because steps name what they read and write.
    pub fn scratch(&mut self, bytes: u64) -> Result<Range> {
        self.next_piece()?;
        let need = aligned(bytes)?;
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
            // Recorded work may use it.
            self.opened()?.keep.memory.push(memory.clone());
            if let Some(kept) = &mut self.keeping {
                kept.memory.push(memory);
            }
        }
        let memory = Arc::new(Memory::new(&self.core, size, Purpose::Tensors, "scratch memory of a graph")?);
        let range = Range::new(memory.address, bytes);
        self.scratch = Some((memory, need));
        Ok(range)
    }

    /// The memory that [`Self::scratch`] gives out now.
    pub fn scratch_memory(&self) -> Range {
        self.scratch.as_ref().map_or(Range::default(), |(m, _)| Range::new(m.address, m.size))
    }

    /// Records a copy on the device.
    pub fn copy(&mut self, from: CopyEnd, to: CopyEnd, len: u64) -> Result<()> {
        self.copy_pieces(from, to, len, 1, (0, 0))
    }

    /// Records a copy of `count` pieces of `len` bytes. `strides` are those of the source and the target. Fails if a
    /// piece is outside its memory.
    pub fn copy_pieces(&mut self, from: CopyEnd, to: CopyEnd, len: u64, count: u64, strides: (u64, u64)) -> Result<()> {
        if len == 0 || count == 0 {
            return Ok(());
        }
        let reach = |stride: u64| stride.saturating_mul(count - 1).saturating_add(len);
        let (read, written) = (reach(strides.0), reach(strides.1));
        from.check(read)?;
        to.check(written)?;
        self.next_piece()?;
        let commands = self.step(&[from.range(read)], &[to.range(written)])?;
        self.keep([&from, &to])?;
        let regions: Vec<_> = (0..count)
            .map(|i| {
                vk::BufferCopy::default()
                    .src_offset(from.offset + i * strides.0)
                    .dst_offset(to.offset + i * strides.1)
                    .size(len)
            })
            .collect();
        // SAFETY: `Open`: commands may be recorded. The ranges are in the buffers (checked), which `Keep` holds until
        // the copy is done.
        unsafe { self.core.vk.cmd_copy_buffer(commands, from.memory.buffer(), to.memory.buffer(), &regions) };
        Ok(())
    }

    /// Records setting `len` bytes to `value`.
    pub fn fill(&mut self, to: CopyEnd, len: u64, value: u8) -> Result<()> {
        // The command fills aligned words. The bytes before and after them are copied.
        to.check(len)?;
        if len == 0 {
            return Ok(());
        }
        self.next_piece()?;
        let head = (to.offset.next_multiple_of(4) - to.offset).min(len);
        let words = (len - head) / 4 * 4;
        let tail = len - head - words;
        for (at, n) in [(0, head), (head + words, tail)] {
            self.upload(to.plus(at), &[value; 4][..usize::try_from(n).unwrap_or(0)])?;
        }
        if words > 0 {
            let to = to.plus(head);
            let commands = self.step(&[], &[to.range(words)])?;
            self.keep([&to])?;
            let word = u32::from_ne_bytes([value; 4]);
            // SAFETY: `Open`: commands may be recorded. Offset and size are multiples of 4, and the range is in the
            // buffer (checked), which `Keep` holds until the work is done.
            unsafe { self.core.vk.cmd_fill_buffer(commands, to.memory.buffer(), to.offset, words, word) };
        }
        Ok(())
    }

    /// Records a copy of host memory. The caller may change `data` after the call.
    pub fn upload(&mut self, to: CopyEnd, data: &[u8]) -> Result<()> {
        self.upload_pieces(to, data, data.len(), 1, (0, 0))
    }

    /// Like `upload`, for `count` pieces of `len` bytes, with a stride of `strides.0` in `data` and of `strides.1` on
    /// the device.
    pub fn upload_pieces(
        &mut self,
        to: CopyEnd,
        data: &[u8],
        len: usize,
        count: usize,
        strides: (usize, usize),
    ) -> Result<()> {
        if len == 0 || count == 0 {
            return Ok(());
        }
        let staged = self.stage(total(len, count)?)?;
        (0..count).for_each(|i| staged.write(i * len, &data[i * strides.0..][..len]));
        self.copy_pieces(staged.place, to, len as u64, count as u64, (len as u64, strides.1 as u64))
    }

    /// Records a copy into host memory: `count` pieces of `len` bytes, with a stride of `strides.0` on the device and
    /// of `strides.1` in host memory. The host memory is filled when the recorder waits for the work.
    ///
    /// # Safety
    /// The pieces at `target` are writable, and nothing else uses them, until this recorder has waited for the work.
    pub unsafe fn download(
        &mut self,
        from: CopyEnd,
        target: NonNull<u8>,
        len: usize,
        count: usize,
        strides: (usize, usize),
    ) -> Result<()> {
        if len == 0 || count == 0 {
            return Ok(());
        }
        let staged = self.stage(total(len, count)?)?;
        self.copy_pieces(from, staged.place, len as u64, count as u64, (strides.0 as u64, len as u64))?;
        let readback = Readback { from: staged.ptr, to: target, len, pieces: (count, strides.1) };
        self.opened()?.keep.readbacks.push(readback);
        Ok(())
    }

    /// Starts a graph. Its first piece is small again.
    pub fn start_graph(&mut self) {
        self.piece = Piece { nodes: Piece::FIRST.nodes.min(self.most.nodes), ..Piece::FIRST };
    }

    /// Records the time of the step that ends here, if times are recorded.
    pub fn stamp(&mut self, label: impl FnOnce() -> Label) {
        let Some(open) = self.open.as_mut().filter(|o| o.stamps.is_some()) else { return };
        open.barrier(&self.core, Before::Commands);
        self.hazards.clear();
        if let Some(stamps) = &mut open.stamps {
            stamps.step(&self.core, open.commands, label());
        }
    }

    /// Ends a graph. If the table of times is enabled, waits for the graph and prints the table.
    pub fn end_graph(&mut self) -> Result<()> {
        self.submit()?;
        if crate::vulkan::submit::profile::table_wanted() {
            self.finish()?;
            self.profile.end_graph(&self.core.info.identity.name);
        }
        Ok(())
    }

    /// Ends a node that takes as long as reading and writing `bytes`.
    pub fn end_node(&mut self, bytes: u64) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.nodes += 1;
        open.bytes = open.bytes.saturating_add(bytes);
        self.stats.longest = self.stats.longest.max(open.nodes);
        if open.nodes >= self.piece.nodes || open.bytes >= self.piece.bytes {
            self.piece = self.piece.grown(self.most);
            // Submitted when more is recorded: the last piece of a graph also makes its results visible to the host.
            self.full = true;
        }
        Ok(())
    }

    /// Submits what is recorded.
    pub fn submit(&mut self) -> Result<()> {
        if self.open.is_some() { self.submit_with(&[], true) } else { Ok(()) }
    }

    /// Submits what is recorded, and kept commands after it. `visible`: the host may read the results once it has
    /// waited. Otherwise work that is submitted later makes them visible, as barriers cover all earlier work of the
    /// queue.
    fn submit_with(&mut self, again: &[vk::CommandBuffer], visible: bool) -> Result<()> {
        self.full = false;
        let mut commands = Vec::with_capacity(again.len() + 1);
        let mut ended = Ok(());
        let (mut own, mut keep, mut stamps) = (None, Keep::default(), None);
        if let Some(open) = self.open.take() {
            if visible {
                open.barrier(&self.core, Before::Host);
            }
            // SAFETY: `Open`: the command buffer is in the recording state, and no query or render pass is active in
            // it.
            ended = unsafe { self.core.vk.end_command_buffer(open.commands) };
            commands.push(open.commands);
            match &mut self.keeping {
                Some(kept) => kept.pieces.push((open.commands, Piece { nodes: open.nodes, bytes: open.bytes })),
                None => own = Some(open.commands),
            }
            (keep, stamps) = (open.keep, open.stamps);
        }
        commands.extend_from_slice(again);
        keep.waits = std::mem::take(&mut self.waits);
        let waits: Vec<_> = keep.waits.iter().map(|m| (m.timeline.semaphore, m.value)).collect();
        let value = self.submitted + 1;
        let result = match ended {
            // SAFETY: the recording has just ended, or the commands are kept and `replay` found them done, so they are
            // not in flight. Their pool is of the lane's family. The flight below keeps what new commands use until the
            // value is reached. `KeptCommands` has the scratch memory of the others; `kept.rs` submits them only while
            // buffers of their tensors exist. `keep.waits` keeps the semaphores, and only this recorder uses the pool.
            Ok(()) => unsafe { self.core.submit(self.lane, &commands, &waits, (self.timeline.semaphore, value)) },
            Err(e) => Err(self.core.failed("recording work", e)),
        };
        if let Err(e) = result {
            self.hazards.clear();
            if let Some(stamps) = stamps {
                stamps.abandon(&mut self.profile);
            }
            self.discard_piece(own, keep);
            return Err(e);
        }
        self.submitted = value;
        self.stats.submissions += 1;
        self.flying.push_back(Flight { value, commands: own, keep, stamps });
        self.retire();
        self.wait_below(MOST_FLYING)
    }

    /// Submits what is recorded, waits until all work is done, and fills the host memory of downloads.
    pub fn finish(&mut self) -> Result<()> {
        let begun = if self.waits_are_over() { Ok(()) } else { self.opened().map(drop) };
        let submitted = begun.and(self.submit());
        let waited = self.wait_below(1);
        self.hazards.clear();
        submitted.and(waited).and(self.given_up.take().map_or(Ok(()), Err))
    }

    /// Waits until fewer than `n` pieces are in flight.
    pub fn wait_below(&mut self, n: usize) -> Result<()> {
        while self.flying.len() >= n.max(1) {
            let value = self.flying[0].value;
            // Uses the value that the wait returns, and does not query the device again: if its answer were out of
            // date, this loop would never end.
            match self.timeline.wait(value) {
                Ok(reached) => self.retire_to(&reached),
                Err(e) => {
                    self.abandon();
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    /// Staging memory that is kept until the work that is being recorded is done.
    fn stage(&mut self, bytes: u64) -> Result<Staged> {
        self.next_piece()?;
        let need = aligned(bytes)?;
        self.opened()?;
        let room = |o: &Open| o.keep.pages.last().is_some_and(|p| p.memory.size - p.used >= need);
        if !self.open.as_ref().is_some_and(room) {
            let memory = match self.pages.pop_if(|_| need <= PAGE) {
                Some(memory) => memory,
                None => Arc::new(Memory::new(&self.core, need.max(PAGE), Purpose::Host, "staging memory")?),
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
        // SAFETY: the page is mapped at `base`, and `room` checked that it has `need` bytes after `at`.
        let ptr = unsafe { base.add(at_host) };
        Ok(Staged { ptr, len, place: CopyEnd::new(&page.memory, at) })
    }

    /// The command buffer of the piece that is recorded, after a barrier if the step depends on earlier ones.
    fn step(&mut self, reads: &[Range], writes: &[Range]) -> Result<vk::CommandBuffer> {
        self.opened()?;
        let Some(open) = &self.open else { return Err(Error::Backend("Vulkan: no command buffer".into())) };
        if self.hazards.step(reads, writes) {
            open.barrier(&self.core, Before::Commands);
            self.stats.barriers += 1;
        }
        Ok(open.commands)
    }

    /// Keeps the memory of a copy until the piece that is recorded is done, even if its buffer is freed.
    fn keep<const N: usize>(&mut self, ends: [&CopyEnd; N]) -> Result<()> {
        let keep = &mut self.opened()?.keep;
        ends.into_iter().for_each(|end| keep.hold(&end.memory));
        Ok(())
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
                // SAFETY: the pool is valid until drop, and only this recorder uses it.
                let made = unsafe { vk.allocate_command_buffers(&info) };
                let made = made.map_err(|e| self.core.failed("making a command buffer", e))?;
                made.first().copied().ok_or_else(|| Error::Backend("Vulkan: no command buffer".into()))?
            }
        };
        let once = if self.keeping.is_none() {
            vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT
        } else {
            vk::CommandBufferUsageFlags::empty()
        };
        let info = vk::CommandBufferBeginInfo::default().flags(once);
        // SAFETY: the command buffer is new, or spare: retired after its work was done. Its pool allows the implicit
        // reset.
        if let Err(e) = unsafe { vk.begin_command_buffer(commands, &info) } {
            self.spare.push(commands);
            return Err(self.core.failed("recording work", e));
        }
        // A queue that only copies cannot reset timestamps.
        let timed = self.lane == Lane::Compute && Profile::is_on(&self.core);
        let stamps = if timed { Some(self.profile.begin(&self.core, commands)?) } else { None };
        Ok(Open { lane: self.lane, commands, bound: None, keep: Keep::default(), stamps, nodes: 0, bytes: 0 })
    }

    /// Retires the pieces that are done: fills host memory, and recycles command buffers and staging memory.
    fn retire(&mut self) {
        if self.flying.is_empty() {
            return;
        }
        let reached = match self.timeline.reached() {
            Ok(reached) => reached,
            Err(e) => {
                log_warn!("{e}");
                self.given_up = Some(e);
                return self.abandon();
            }
        };
        self.retire_to(&reached);
    }

    /// Retires the pieces that are done by a value of the recorder's timeline.
    fn retire_to(&mut self, reached: &Reached) {
        while self.flying.front().is_some_and(|f| reached.includes(f.value)) {
            let Some(flight) = self.flying.pop_front() else { break };
            // SAFETY: the timeline has reached the value of the flight, so the device has written the staging memory.
            // The caller of `download` promised the target until now.
            flight.keep.readbacks.iter().for_each(|l| unsafe { l.finish() });
            if let Some(stamps) = flight.stamps {
                self.profile.collect(&self.core, stamps);
            }
            self.recycle(flight.commands, flight.keep);
        }
        self.reached = self.reached.max(*reached);
        self.retire_discarded(reached);
    }

    /// Recycles all pieces after the device failed. Host memory gets what marks it as not read.
    fn abandon(&mut self) {
        self.core.wait_idle();
        while let Some(flight) = self.flying.pop_front() {
            if let Some(stamps) = flight.stamps {
                stamps.abandon(&mut self.profile);
            }
            self.discard_piece(flight.commands, flight.keep);
        }
    }

    /// As [`Self::recycle`], for work that was not done, or not known to be: host memory gets what marks it as not
    /// read.
    fn discard_piece(&mut self, commands: Option<vk::CommandBuffer>, keep: Keep) {
        // SAFETY: the caller of `download` promised the target until the recorder has waited for the work, which it
        // gives up here.
        keep.readbacks.iter().for_each(|l| unsafe { l.mark_unread() });
        self.recycle(commands, keep);
    }

    fn recycle(&mut self, commands: Option<vk::CommandBuffer>, keep: Keep) {
        self.spare.extend(commands);
        for page in keep.pages {
            if self.pages.len() < SPARE_PAGES && page.memory.size == PAGE {
                self.pages.push(page.memory);
            }
        }
    }
}

/// Bytes of `count` pieces of `len` bytes.
fn total(len: usize, count: usize) -> Result<u64> {
    let bytes = len.checked_mul(count).map(|n| n as u64);
    bytes.ok_or_else(|| Error::Invalid(format!("Vulkan: a copy of {count} times {len} bytes")))
}

/// A size in staging or scratch memory.
fn aligned(bytes: u64) -> Result<u64> {
    let size = bytes.max(1).checked_next_multiple_of(ALIGN);
    size.ok_or_else(|| Error::Invalid(format!("Vulkan: memory of {bytes} bytes")))
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Work that was recorded but not submitted is dropped.
        if let Err(e) = self.wait_below(1) {
            log_warn!("{e}");
        }
        if let Some(stamps) = self.open.take().and_then(|o| o.stamps) {
            stamps.abandon(&mut self.profile);
        }
        self.profile.free(&self.core);
        // SAFETY: the pool was created from this device. `wait_below` returned, so no command buffer of the pool is in
        // flight.
        unsafe { self.core.vk.destroy_command_pool(self.pool, None) };
    }
}
