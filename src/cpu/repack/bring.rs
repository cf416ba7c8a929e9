//! Bringing matrices of weights into memory: one thread, or several together, *claim* a matrix and interleave what its
//! file has.

use super::price;
use super::quiet;
use super::resident::Weight;
use super::strips::Reader;
use crate::error::{Error, Result};
use crate::sys::fork;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A claim, which ends with it.
pub(super) struct Claim<'a>(&'a AtomicU32);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

impl Weight {
    /// Brings a matrix into memory. The caller holds the weight.
    ///
    /// # Errors
    /// If the file cannot be read, or was written, and [`Error::Aborted`] if the weight ends or the reader
    /// gives way.
    pub fn load(&self, matrix: usize, reader: &mut Reader) -> Result<()> {
        let one = &self.matrices[matrix];
        while !self.claim(matrix) {
            if self.is_here(matrix) {
                return Ok(());
            }
            // Others bring it now.
            std::thread::sleep(Duration::from_micros(50));
        }
        let _claim = self.claimed(matrix);
        let Range { start, end } = self.bytes(matrix);
        let gives_way = reader.gives_way;
        let before = |part: Range<usize>| {
            if self.is_ending() || gives_way && quiet::is_busy() {
                return Err(Error::Aborted);
            }
            self.will_write(start + part.start..start + part.end);
            if one.is_mapped.load(Ordering::Relaxed) {
                // Not both of a large matrix.
                self.origin.give_back(start + part.start..start + part.end);
            }
            Ok(())
        };
        // SAFETY: only this thread has claimed the matrix.
        let memory = unsafe { self.part(start..end) };
        let begun = Instant::now();
        self.strips.fill(memory, &self.origin, start, reader, before)?;
        price::learn(end - start, begun.elapsed());
        self.origin.check()?;
        self.is_here_now(matrix);
        Ok(())
    }

    /// Whether the caller alone brings a matrix now, which ends with [`Self::claimed`]. False if others do, or if it is
    /// there.
    #[must_use]
    pub(super) fn claim(&self, matrix: usize) -> bool {
        if self.is_here(matrix) {
            return false;
        }
        let claimed = &self.matrices[matrix].claimed;
        let (before, own) = (claimed.load(Ordering::Relaxed), fork::generation() + 1);
        // A child of the process that has claimed it does not have its threads.
        if before == own || claimed.compare_exchange(before, own, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        // Others may have brought it just before.
        let is_here = self.is_here(matrix);
        if is_here {
            drop(self.claimed(matrix));
        }
        !is_here
    }

    /// What ends the caller's claim of a matrix.
    pub(super) fn claimed(&self, matrix: usize) -> Claim<'_> {
        Claim(&self.matrices[matrix].claimed)
    }

    /// [`Self::load`] for all matrices.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_all(&self, reader: &mut Reader) -> Result<()> {
        (0..self.matrices.len()).try_for_each(|matrix| self.load(matrix, reader))
    }
}
