//! Copies between host and device that belong to no stream: done when the function returns.
//!
//! Memory that the host can access is written and read directly: the caller has waited for the streams that use it, as the
//! interface requires. Other memory is copied in pieces through staging memory, so that host and device copy at the same time.

use super::command::{Place, Recorder};
use super::gpu::Gpu;
use super::memory::Memory;
use crate::backend::tensor_io::Pieces;
use crate::error::{Error, Result};
use std::ptr::NonNull;

/// Bytes of a piece in staging memory.
const PIECE: usize = 8 << 20;
/// Pieces in flight.
const FLYING: usize = 3;

impl Gpu {
    /// The host's address of device memory, where it may be used directly.
    pub(super) fn direct(&self, memory: &Memory) -> Option<NonNull<u8>> {
        if self.direct { memory.mapped() } else { None }
    }

    /// Sets bytes.
    pub fn write(&self, memory: &Memory, offset: u64, data: &[u8]) -> Result<()> {
        let at = check(memory, offset, data.len())?;
        if let Some(base) = self.direct(memory) {
            // SAFETY: the range was checked; whoever calls promises that no queued work uses it.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), base.as_ptr().add(at), data.len()) };
            return Ok(());
        }
        let mut recorder = self.transfer();
        for (i, piece) in data.chunks(PIECE).enumerate() {
            recorder.upload(Place::new(memory, offset + (i * PIECE) as u64), piece)?;
            recorder.submit()?;
            recorder.wait_below(FLYING)?;
        }
        recorder.finish()
    }

    /// Reads bytes.
    pub fn read(&self, memory: &Memory, offset: u64, data: &mut [u8]) -> Result<()> {
        let at = check(memory, offset, data.len())?;
        if let Some(base) = self.direct(memory) {
            // SAFETY: as in `write`.
            unsafe { std::ptr::copy_nonoverlapping(base.as_ptr().add(at), data.as_mut_ptr(), data.len()) };
            return Ok(());
        }
        let mut recorder = self.transfer();
        for (i, piece) in data.chunks_mut(PIECE).enumerate() {
            let from = Place::new(memory, offset + (i * PIECE) as u64);
            let len = piece.len();
            // SAFETY: the pieces are ours until `finish` below, which is called whatever happens before.
            let queued = unsafe { recorder.download(from, NonNull::from(piece).cast(), len, 1, (len, len)) };
            let queued = queued.and_then(|()| recorder.submit()).and_then(|()| recorder.wait_below(FLYING));
            if queued.is_err() {
                return recorder.finish().and(queued);
            }
        }
        recorder.finish()
    }

    /// Sets pieces; `data` reaches from the first to the end of the last.
    pub fn write_2d(&self, memory: &Memory, offset: u64, data: &[u8], p: Pieces) -> Result<()> {
        if self.direct(memory).is_none() && self.direct_pieces(p) {
            check(memory, offset, p.extent_in_tensor())?;
            let mut recorder = self.transfer();
            let to = Place::new(memory, offset);
            recorder.upload_pieces(to, data, p.size, p.count, (p.stride_data, p.stride_tensor))?;
            return recorder.finish();
        }
        (0..p.count).try_for_each(|i| {
            self.write(memory, offset + (i * p.stride_tensor) as u64, &data[i * p.stride_data..][..p.size])
        })
    }

    /// Reads pieces; what is between them in `data` is not touched.
    pub fn read_2d(&self, memory: &Memory, offset: u64, data: &mut [u8], p: Pieces) -> Result<()> {
        if self.direct(memory).is_none() && self.direct_pieces(p) {
            check(memory, offset, p.extent_in_tensor())?;
            let mut recorder = self.transfer();
            let (from, target) = (Place::new(memory, offset), NonNull::from(data).cast());
            // SAFETY: the pieces are in `data`, which is ours until `finish`.
            let queued = unsafe { recorder.download(from, target, p.size, p.count, (p.stride_tensor, p.stride_data)) };
            return recorder.finish().and(queued);
        }
        (0..p.count).try_for_each(|i| {
            self.read(memory, offset + (i * p.stride_tensor) as u64, &mut data[i * p.stride_data..][..p.size])
        })
    }

    /// Whether pieces are worth one copy together.
    fn direct_pieces(&self, p: Pieces) -> bool {
        p.size > 0 && p.count > 0 && p.size.saturating_mul(p.count) <= PIECE
    }

    /// Sets `len` bytes to a value.
    pub fn fill(&self, memory: &Memory, offset: u64, len: u64, value: u8) -> Result<()> {
        let n = usize::try_from(len).unwrap_or(usize::MAX);
        let at = check(memory, offset, n)?;
        if let Some(base) = self.direct(memory) {
            // SAFETY: as in `write`.
            unsafe { std::ptr::write_bytes(base.as_ptr().add(at), value, n) };
            return Ok(());
        }
        self.with_transfer(|r| r.fill(Place::new(memory, offset), len, value))
    }

    /// Copies on the device.
    pub fn copy(&self, from: (&Memory, u64), to: (&Memory, u64), len: u64) -> Result<()> {
        let n = usize::try_from(len).unwrap_or(usize::MAX);
        let (a, b) = (check(from.0, from.1, n)?, check(to.0, to.1, n)?);
        if let (Some(source), Some(target)) = (self.direct(from.0), self.direct(to.0)) {
            // SAFETY: as in `write`; the ranges may overlap.
            unsafe { std::ptr::copy(source.as_ptr().add(a), target.as_ptr().add(b), n) };
            return Ok(());
        }
        self.with_transfer(|r| r.copy(Place::new(from.0, from.1), Place::new(to.0, to.1), len))
    }

    fn with_transfer(&self, f: impl FnOnce(&mut Recorder) -> Result<()>) -> Result<()> {
        let mut recorder = self.transfer();
        let queued = f(&mut recorder);
        recorder.finish().and(queued)
    }
}

/// The offset on the host, when the range is in the memory.
fn check(memory: &Memory, offset: u64, len: usize) -> Result<usize> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= memory.size => Ok(usize::try_from(offset).unwrap_or(usize::MAX)),
        _ => Err(Error::Invalid(format!("Vulkan: {len} bytes at {offset} of a buffer of {}", memory.size))),
    }
}
