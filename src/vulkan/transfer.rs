//! Synchronous copies between host and device, outside of streams.
//!
//! Memory that the host can access is written and read directly: ggml-backend.h requires that the caller has waited for the streams that
//! use it. Other memory is copied in pieces through staging memory, so that host and device copy at the same time.

use super::command::{CopyEnd, Recorder};
use super::gpu::Gpu;
use super::memory::{Memory, Window};
use crate::backend::tensor_io::Pieces;
use crate::error::{Error, Result};
use std::ptr::NonNull;

/// Bytes of a piece in staging memory.
const PIECE: usize = 8 << 20;
/// Pieces in flight.
const FLYING: usize = 3;

impl Gpu {
    /// Whether the host reads and writes this memory directly.
    pub(super) fn is_direct(&self, memory: &Memory) -> bool {
        self.direct && memory.mapped().is_some()
    }

    /// `len` bytes at `offset`, if the host accesses them directly. Fails if they are not in the memory.
    pub(super) fn window<'m>(&self, memory: &'m Memory, offset: u64, len: usize) -> Result<Option<Window<'m>>> {
        check(memory, offset, len)?;
        Ok(if self.direct { memory.window(offset, len) } else { None })
    }

    /// Sets bytes.
    pub fn write(&self, memory: &Memory, offset: u64, data: &[u8]) -> Result<()> {
        if let Some(window) = self.window(memory, offset, data.len())? {
            window.write(data);
            return Ok(());
        }
        let mut recorder = self.transfer();
        for (i, piece) in data.chunks(PIECE).enumerate() {
            recorder.upload(CopyEnd::new(memory, offset + (i * PIECE) as u64), piece)?;
            recorder.submit()?;
            recorder.wait_below(FLYING)?;
        }
        recorder.finish()
    }

    /// Reads bytes.
    pub fn read(&self, memory: &Memory, offset: u64, data: &mut [u8]) -> Result<()> {
        if let Some(window) = self.window(memory, offset, data.len())? {
            window.read(data);
            return Ok(());
        }
        let mut recorder = self.transfer();
        for (i, piece) in data.chunks_mut(PIECE).enumerate() {
            let from = CopyEnd::new(memory, offset + (i * PIECE) as u64);
            let len = piece.len();
            // SAFETY: `piece` is borrowed from `data` for this call, and the call returns only after `finish`, which waits for the copy.
            let queued = unsafe { recorder.download(from, NonNull::from(piece).cast(), len, 1, (len, len)) };
            let queued = queued.and_then(|()| recorder.submit()).and_then(|()| recorder.wait_below(FLYING));
            if queued.is_err() {
                return recorder.finish().and(queued);
            }
        }
        recorder.finish()
    }

    /// Sets pieces. `data` begins at the first piece and ends with the last one.
    pub fn write_2d(&self, memory: &Memory, offset: u64, data: &[u8], p: Pieces) -> Result<()> {
        if !self.is_direct(memory) && self.fit_one_copy(p) {
            check(memory, offset, p.extent_in_tensor())?;
            let mut recorder = self.transfer();
            let to = CopyEnd::new(memory, offset);
            recorder.upload_pieces(to, data, p.size, p.count, (p.stride_data, p.stride_tensor))?;
            return recorder.finish();
        }
        (0..p.count).try_for_each(|i| {
            self.write(memory, offset + (i * p.stride_tensor) as u64, &data[i * p.stride_data..][..p.size])
        })
    }

    /// Reads pieces. The bytes of `data` between the pieces keep their values.
    pub fn read_2d(&self, memory: &Memory, offset: u64, data: &mut [u8], p: Pieces) -> Result<()> {
        if !self.is_direct(memory) && self.fit_one_copy(p) {
            check(memory, offset, p.extent_in_tensor())?;
            let mut recorder = self.transfer();
            let (from, target) = (CopyEnd::new(memory, offset), NonNull::from(data).cast());
            // SAFETY: the pieces are in `data`, which this call borrows, and `finish` waits for the copy before the call returns.
            let queued = unsafe { recorder.download(from, target, p.size, p.count, (p.stride_tensor, p.stride_data)) };
            return recorder.finish().and(queued);
        }
        (0..p.count).try_for_each(|i| {
            self.read(memory, offset + (i * p.stride_tensor) as u64, &mut data[i * p.stride_data..][..p.size])
        })
    }

    /// Whether one copy through staging memory can take all pieces.
    fn fit_one_copy(&self, p: Pieces) -> bool {
        p.size > 0 && p.count > 0 && p.size.saturating_mul(p.count) <= PIECE
    }

    /// Sets `len` bytes to a value.
    pub fn fill(&self, memory: &Memory, offset: u64, len: u64, value: u8) -> Result<()> {
        let n = usize::try_from(len).unwrap_or(usize::MAX);
        if let Some(window) = self.window(memory, offset, n)? {
            window.fill(value);
            return Ok(());
        }
        self.with_transfer(|r| r.fill(CopyEnd::new(memory, offset), len, value))
    }

    /// Copies on the device.
    pub fn copy(&self, from: (&Memory, u64), to: (&Memory, u64), len: u64) -> Result<()> {
        let n = usize::try_from(len).unwrap_or(usize::MAX);
        if let (Some(source), Some(target)) = (self.window(from.0, from.1, n)?, self.window(to.0, to.1, n)?) {
            target.copy_from(&source);
            return Ok(());
        }
        self.with_transfer(|r| r.copy(CopyEnd::new(from.0, from.1), CopyEnd::new(to.0, to.1), len))
    }

    fn with_transfer(&self, f: impl FnOnce(&mut Recorder) -> Result<()>) -> Result<()> {
        let mut recorder = self.transfer();
        let queued = f(&mut recorder);
        recorder.finish().and(queued)
    }
}

/// Fails unless `len` bytes at `offset` are in the memory.
fn check(memory: &Memory, offset: u64, len: usize) -> Result<()> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= memory.size => Ok(()),
        _ => Err(Error::Invalid(format!("Vulkan: {len} bytes at {offset} of a buffer of {}", memory.size))),
    }
}
