//! Synchronous copies between host and device, outside of streams.
//!
//! Memory that the host can access is written directly: ggml-backend.h requires that the caller has waited for the
//! streams that use it. It is also read directly, unless it is that of a card, which also fetches what is long
//! (`upload`). Other memory is copied in pieces through staging memory, so that host and device copy at the same time.

use crate::backend::tensor_io::Pieces;
use crate::error::{Error, Result};
use crate::vulkan::device::memory::{Memory, Span, Window};
use crate::vulkan::gpu::open::Gpu;
use crate::vulkan::submit::{CopyEnd, Recorder};
use std::ptr::NonNull;

/// Bytes of a piece in staging memory.
const PIECE: usize = 8 << 20;
/// Bytes that the host sets in a card's memory sooner than the device begins.
const SHORT_FILL: u64 = 64 << 10;
/// Pieces in flight.
const FLYING: usize = 3;

impl Gpu {
    /// Whether the host writes this memory directly.
    pub(in crate::vulkan) fn is_direct(&self, memory: &Memory) -> bool {
        self.direct && memory.mapped().is_some()
    }

    /// Whether the host reads this memory directly.
    pub(in crate::vulkan) fn is_read_directly(&self, memory: &Memory) -> bool {
        self.is_direct(memory) && memory.is_near()
    }

    /// The bytes of a span, if the host writes them directly.
    pub(in crate::vulkan) fn window<'m>(&self, span: &Span<'m>) -> Option<Window<'m>> {
        if self.direct { span.window() } else { None }
    }

    /// The bytes of a span, if the host reads them directly.
    fn near_window<'m>(&self, span: &Span<'m>) -> Option<Window<'m>> {
        self.window(span).filter(|_| span.memory().is_near())
    }

    /// Sets all bytes of a span.
    pub fn write(&self, to: &Span<'_>, data: &[u8]) -> Result<()> {
        same_size(to.size(), data.len() as u64)?;
        let whole = Pieces::one(0, data.len());
        if self.fetches(to.memory(), whole) {
            return self.upload(to, data, whole);
        }
        if let Some(window) = self.window(to) {
            window.write(data);
            return Ok(());
        }
        let mut recorder = self.transfer();
        for (i, piece) in data.chunks(PIECE).enumerate() {
            recorder.upload(CopyEnd::of(to, (i * PIECE) as u64), piece)?;
            recorder.submit()?;
            recorder.wait_below(FLYING)?;
        }
        recorder.finish()
    }

    /// Reads all bytes of a span.
    pub fn read(&self, from: &Span<'_>, data: &mut [u8]) -> Result<()> {
        same_size(from.size(), data.len() as u64)?;
        if let Some(window) = self.near_window(from) {
            window.read(data);
            return Ok(());
        }
        let mut recorder = self.transfer();
        for (i, piece) in data.chunks_mut(PIECE).enumerate() {
            let start = CopyEnd::of(from, (i * PIECE) as u64);
            let len = piece.len();
            // SAFETY: `piece` is borrowed from `data` for this call, and the call returns only after `finish`, which
            // waits for the copy.
            let queued = unsafe { recorder.download(start, NonNull::from(piece).cast(), len, 1, (len, len)) };
            let queued = queued.and_then(|()| recorder.submit()).and_then(|()| recorder.wait_below(FLYING));
            if queued.is_err() {
                return recorder.finish().and(queued);
            }
        }
        recorder.finish()
    }

    /// Sets pieces of a span, which begins at the first one. `data` begins at the first piece and ends with the last
    /// one.
    pub fn write_2d(&self, to: &Span<'_>, data: &[u8], p: Pieces) -> Result<()> {
        if self.fetches(to.memory(), p) {
            return self.upload(to, data, p);
        }
        if !self.is_direct(to.memory()) && self.fit_one_copy(p) {
            to.part(0, p.extent_in_tensor() as u64)?;
            let mut recorder = self.transfer();
            recorder.upload_pieces(CopyEnd::of(to, 0), data, p.size, p.count, (p.stride_data, p.stride_tensor))?;
            return recorder.finish();
        }
        (0..p.count).try_for_each(|i| {
            let piece = to.part((i * p.stride_tensor) as u64, p.size as u64)?;
            self.write(&piece, &data[i * p.stride_data..][..p.size])
        })
    }

    /// Reads pieces of a span, which begins at the first one. The bytes of `data` between the pieces keep their values.
    pub fn read_2d(&self, from: &Span<'_>, data: &mut [u8], p: Pieces) -> Result<()> {
        if !self.is_read_directly(from.memory()) && self.fit_one_copy(p) {
            from.part(0, p.extent_in_tensor() as u64)?;
            let mut recorder = self.transfer();
            let (start, target) = (CopyEnd::of(from, 0), NonNull::from(data).cast());
            // SAFETY: the pieces are in `data`, which this call borrows, and `finish` waits for the copy before the
            // call returns.
            let queued = unsafe { recorder.download(start, target, p.size, p.count, (p.stride_tensor, p.stride_data)) };
            return recorder.finish().and(queued);
        }
        (0..p.count).try_for_each(|i| {
            let piece = from.part((i * p.stride_tensor) as u64, p.size as u64)?;
            self.read(&piece, &mut data[i * p.stride_data..][..p.size])
        })
    }

    /// Whether one copy through staging memory can take all pieces.
    fn fit_one_copy(&self, p: Pieces) -> bool {
        p.size > 0 && p.count > 0 && p.size.saturating_mul(p.count) <= PIECE
    }

    /// Sets all bytes of a span to a value.
    pub fn fill(&self, to: &Span<'_>, value: u8) -> Result<()> {
        let by_host = self.window(to).filter(|_| to.memory().is_near() || to.size() <= SHORT_FILL);
        if let Some(window) = by_host {
            window.fill(value);
            return Ok(());
        }
        self.with_transfer(|r| r.fill(CopyEnd::of(to, 0), to.size(), value))
    }

    /// Copies a span to another one of the same size, on the device if the host cannot access both.
    pub fn copy(&self, from: &Span<'_>, to: &Span<'_>) -> Result<()> {
        same_size(from.size(), to.size())?;
        if let (Some(source), Some(target)) = (self.near_window(from), self.near_window(to)) {
            target.copy_from(&source);
            return Ok(());
        }
        self.with_transfer(|r| r.copy(CopyEnd::of(from, 0), CopyEnd::of(to, 0), to.size()))
    }

    fn with_transfer(&self, f: impl FnOnce(&mut Recorder) -> Result<()>) -> Result<()> {
        let mut recorder = self.transfer();
        let queued = f(&mut recorder);
        recorder.finish().and(queued)
    }
}

fn same_size(a: u64, b: u64) -> Result<()> {
    if a == b { Ok(()) } else { Err(Error::Invalid(format!("Vulkan: a copy between {a} and {b} bytes"))) }
}
