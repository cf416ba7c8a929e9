//! Copies between host memory and the device: places to copy from and to, pages of staging memory, and host memory to
//! fill when the work is done.

use crate::backend::author::NOT_READ;
use crate::error::{Error, Result};
use crate::vulkan::device::memory::{Memory, Span};
use crate::vulkan::submit::hazard::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// A place in memory to copy from or to.
#[derive(Clone)]
pub struct CopyEnd {
    pub(super) memory: Arc<Memory>,
    pub(super) offset: u64,
}

impl CopyEnd {
    /// The byte at `offset` of `memory`.
    pub fn new(memory: &Arc<Memory>, offset: u64) -> Self {
        Self { memory: memory.clone(), offset }
    }

    /// Byte `at` of a span.
    pub fn of(span: &Span<'_>, at: u64) -> Self {
        Self::new(span.memory(), span.offset().saturating_add(at))
    }

    /// The device addresses of `len` bytes from here on, which [`Self::check`] has found in the memory.
    pub(super) fn range(&self, len: u64) -> Range {
        Range::new(self.memory.address + self.offset, len)
    }

    /// The place `n` bytes further.
    pub(in crate::vulkan) fn plus(&self, n: u64) -> Self {
        Self::new(&self.memory, self.offset.saturating_add(n))
    }

    /// Fails unless the memory has `len` bytes here.
    pub(super) fn check(&self, len: u64) -> Result<()> {
        let left = self.memory.size.saturating_sub(self.offset);
        if len <= left {
            return Ok(());
        }
        Err(Error::Invalid(format!("Vulkan: a copy of {len} bytes where the buffer has {left}")))
    }
}

/// A piece of staging memory. The host writes or reads it, and the device copies from or to it.
pub struct Staged {
    pub(super) ptr: NonNull<u8>,
    pub(super) len: usize,
    /// The same bytes for the device.
    pub place: CopyEnd,
}

impl Staged {
    /// Writes `data` from byte `at` on.
    pub(super) fn write(&self, at: usize, data: &[u8]) {
        assert!(at <= self.len && data.len() <= self.len - at);
        // SAFETY: `stage` made the piece of `len` mapped bytes of a page that the recorder keeps, and the assertion
        // checked the range. The copy that reads the piece is recorded later. `data` is outside the page, which is
        // private to the recorder.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.ptr.as_ptr().add(at), data.len()) }
    }
}

/// Host memory to fill when the work is done.
pub(super) struct Readback {
    pub(super) from: NonNull<u8>,
    pub(super) to: NonNull<u8>,
    pub(super) len: usize,
    /// Number of pieces, and their stride in host memory.
    pub(super) pieces: (usize, usize),
}

impl Readback {
    /// # Safety
    /// The device has written `from`, and the promise of [`Recorder::download`] still holds for `to`.
    pub(super) unsafe fn finish(&self) {
        let (count, stride) = self.pieces;
        for i in 0..count {
            // SAFETY: `from` is staging memory of `count * len` bytes, kept with the readback. The pieces at `to` are
            // writable and unused by others: the caller's promise.
            unsafe {
                let (from, to) = (self.from.as_ptr().add(i * self.len), self.to.as_ptr().add(i * stride));
                std::ptr::copy_nonoverlapping(from, to, self.len);
            }
        }
    }

    /// Marks the host memory as not read.
    ///
    /// # Safety
    /// The promise of [`Recorder::download`] still holds for `to`.
    pub(super) unsafe fn mark_unread(&self) {
        let (count, stride) = self.pieces;
        for i in 0..count {
            // SAFETY: the pieces at `to` are writable and unused by others: the caller's promise.
            unsafe { std::ptr::write_bytes(self.to.as_ptr().add(i * stride), NOT_READ, self.len) }
        }
    }
}

/// A page of staging memory, of which the first bytes are used.
pub(super) struct Page {
    pub(super) memory: Arc<Memory>,
    pub(super) used: u64,
}
