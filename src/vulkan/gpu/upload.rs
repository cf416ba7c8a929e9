//! Copies of host memory to the memory of a card, done by the card, which fetches bytes over PCI Express several times
//! as fast as a processor writes them.
//!
//! They are submitted at once, to a queue of their own if the card has one, so that they run while the host records the
//! graph that needs them.

#![forbid(unsafe_code)]

use crate::backend::tensor_io::Pieces;
use crate::error::Result;
use crate::sys::sync::lock;
use crate::vulkan::device::core::Core;
use crate::vulkan::device::memory::{Memory, Span};
use crate::vulkan::device::timeline::Mark;
use crate::vulkan::gpu::open::Gpu;
use crate::vulkan::submit::{CopyEnd, Recorder};
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes that the host writes sooner than the card has begun to fetch them.
const SHORT: usize = 64 << 10;
/// Bytes of a piece in staging memory. The host fills the next piece while the card copies the last.
const PIECE: usize = 1 << 20;
/// Pieces in flight.
const FLYING: usize = 4;

/// Host memory to copy from.
pub(in crate::vulkan) enum Origin<'a> {
    /// Memory that the device reads, until the copy is done.
    Pinned(CopyEnd),
    /// Other memory, which is free again when the copy was submitted.
    Bytes(&'a [u8]),
}

impl Gpu {
    /// Whether the card should fetch pieces itself.
    pub(in crate::vulkan) fn fetches(&self, to: &Memory, p: Pieces) -> bool {
        to.is_on_card() && p.size.saturating_mul(p.count) > SHORT
    }

    /// How the device gets at bytes of the host.
    pub(in crate::vulkan) fn origin<'a>(&self, bytes: &'a [u8]) -> Origin<'a> {
        match self.pinned(NonNull::from(bytes).cast(), bytes.len()) {
            Some((memory, start)) => Origin::Pinned(CopyEnd::new(&memory, start)),
            None => Origin::Bytes(bytes),
        }
    }

    /// Copies pieces to a span, which begins at the first one, and waits for the copy. Nothing in flight may use the
    /// span.
    pub(in crate::vulkan) fn upload(&self, to: &Span<'_>, data: &[u8], p: Pieces) -> Result<()> {
        to.part(0, p.extent_in_tensor() as u64)?;
        let mut recorder = lock(&self.uploads);
        let submitted = submit(&mut recorder, CopyEnd::of(to, 0), self.origin(data), p);
        recorder.finish().and(submitted)
    }
}

/// Submits a copy of pieces. `from` and `to` begin at the first one. Takes as long as copying to staging memory if
/// `from` is not pinned.
fn submit(recorder: &mut Recorder, to: CopyEnd, from: Origin<'_>, p: Pieces) -> Result<()> {
    let data = match from {
        Origin::Pinned(from) => {
            let strides = (p.stride_data as u64, p.stride_tensor as u64);
            recorder.copy_pieces(from, to, p.size as u64, p.count as u64, strides)?;
            return recorder.submit();
        }
        Origin::Bytes(data) => data,
    };
    let mut staged = |at: usize, data: &[u8], size: usize, count: usize| {
        recorder.upload_pieces(to.plus(at as u64), data, size, count, (p.stride_data, p.stride_tensor))?;
        recorder.submit()?;
        recorder.wait_below(FLYING)
    };
    if p.size > PIECE {
        for i in 0..p.count {
            for (k, part) in data[i * p.stride_data..][..p.size].chunks(PIECE).enumerate() {
                staged(i * p.stride_tensor + k * PIECE, part, part.len(), 1)?;
            }
        }
        return Ok(());
    }
    let most = PIECE / p.size.max(1);
    for first in (0..p.count).step_by(most) {
        let count = most.min(p.count - first);
        staged(first * p.stride_tensor, &data[first * p.stride_data..], p.size, count)?;
    }
    Ok(())
}

/// The copies to a card that a stream has begun ahead of its other work.
#[derive(Default)]
pub(in crate::vulkan) struct Uploads {
    /// Made when first needed.
    recorder: Option<Recorder>,
    /// The last copy whose source its owner may write as soon as the next graph was started.
    lent: Option<Mark>,
}

impl Uploads {
    /// Begins a copy if nothing but such copies is queued on `stream`, whose later work waits for it. Returns false if
    /// it does nothing.
    pub fn begin(
        &mut self,
        core: &Arc<Core>,
        stream: &mut Recorder,
        to: CopyEnd,
        from: Origin<'_>,
        p: Pieces,
    ) -> Result<bool> {
        let timeline = self.recorder.as_ref().map(|r| r.last().timeline);
        if !stream.is_idle_but_for(timeline.as_ref()) {
            return Ok(false);
        }
        let recorder = match self.recorder.take() {
            Some(recorder) => self.recorder.insert(recorder),
            None => self.recorder.insert(Recorder::for_copies(core)?),
        };
        // The stream's work is done, and what it wrote must not arrive after the copy.
        recorder.wait_for(&stream.last())?;
        let submitted = submit(recorder, to, from, p);
        stream.wait_for(&recorder.last())?;
        submitted.map(|()| true)
    }

    /// Notes that the source of the last copy must not be read any more when the next graph was started.
    pub fn lend(&mut self) {
        self.lent = self.recorder.as_ref().map(Recorder::last);
    }

    /// Waits until lent sources are not read any more. Recording a graph takes longer than the copies, so they are
    /// mostly done.
    pub fn give_back(&mut self) -> Result<()> {
        match self.lent.take() {
            Some(copied) => copied.timeline.wait(copied.value).map(drop),
            None => Ok(()),
        }
    }

    /// Waits for all copies.
    pub fn finish(&mut self) -> Result<()> {
        self.lent = None;
        self.recorder.as_mut().map_or(Ok(()), Recorder::finish)
    }

    /// Number of submissions so far.
    #[cfg(test)]
    pub fn submissions(&self) -> u64 {
        self.recorder.as_ref().map_or(0, |r| r.stats().submissions)
    }
}
