//! Weights that computations use where their file is mapped, until they are interleaved. The file's rows are as good
//! for that (`matmul`) and cost no memory of their own: a host's first answer does not wait for a copy of the model.

use super::price;
use super::resident::Weight;
use crate::error::Result;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Weight {
    /// Whether its rows can be used where the file is mapped, and are what the host has set.
    pub fn has_rows(&self) -> bool {
        self.origin.mapped().is_some()
    }

    /// Whether the file was written since.
    ///
    /// # Errors
    /// If it was, or if the system does not say.
    pub fn check(&self) -> Result<()> {
        self.origin.check()
    }

    /// Whether another weight is of the same file.
    pub fn is_beside(&self, other: &Self) -> bool {
        self.origin.is_beside(&other.origin)
    }

    /// Whether the rows of all matrices are in memory, or the matrices themselves.
    pub fn are_mapped(&self) -> bool {
        (0..self.matrices()).all(|matrix| self.is_mapped(matrix))
    }

    /// Whether the rows of a matrix are in memory as the file has them, or the matrix itself.
    fn is_mapped(&self, matrix: usize) -> bool {
        let is_mapped = &self.matrices[matrix].is_mapped;
        let is_cached = || {
            let is_cached = self.origin.are_cached(self.bytes(matrix));
            is_mapped.store(is_cached, Ordering::Relaxed);
            is_cached
        };
        self.is_here(matrix) || is_mapped.load(Ordering::Relaxed) || is_cached()
    }

    /// Brings the rows of a matrix into memory, as the file has them, unless the matrix is there. The caller holds the
    /// weight.
    ///
    /// # Errors
    /// If the file cannot be read, or has them no more.
    pub fn map(&self, matrix: usize) -> Result<()> {
        if !self.is_mapped(matrix) {
            self.origin.load(self.bytes(matrix))?;
            self.matrices[matrix].is_mapped.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes the rows of matrices that are interleaved now out of memory: a computation may have used them until then.
    pub fn leave_rows(&self) {
        let both = |i: &usize| self.is_here(*i) && self.matrices[*i].is_mapped.swap(false, Ordering::Relaxed);
        (0..self.matrices()).filter(both).for_each(|i| self.origin.give_back_around(self.bytes(i)));
    }
}

/// Interleaving by several threads, from the mapped rows.
impl Weight {
    /// Parts of a matrix, each of about `size` bytes.
    pub fn pieces(&self, size: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let (all, size) = (self.matrix_size(), size.next_multiple_of(self.strips.bytes()));
        (0..all).step_by(size).map(move |at| at..all.min(at + size))
    }

    /// Interleaves a piece of a matrix. Returns false if the file is not mapped.
    ///
    /// # Safety
    /// The caller has [claimed](Self::claim) the matrix and holds the weight; no other thread has this piece.
    pub unsafe fn interleave(&self, matrix: usize, piece: Range<usize>) -> bool {
        let Some(rows) = self.origin.mapped() else { return false };
        let Range { start, end } = self.bytes(matrix);
        assert!(piece.start <= piece.end && piece.end <= end - start);
        let piece = start + piece.start..start + piece.end;
        let begun = Instant::now();
        // SAFETY: the promise of `new`: the bytes are in the memory, and those of a matrix that is not there are not
        // read. By the caller's promise, only this thread writes them.
        let memory =
            unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(self.at + piece.start), piece.len()) };
        self.strips.interleave_all(&rows[piece.clone()], memory);
        price::learn(piece.len(), begun.elapsed());
        // Not both of a large matrix.
        self.origin.give_back(piece);
        true
    }

    /// Ends a claim: all pieces of a matrix are interleaved, or not.
    pub fn finish(&self, matrix: usize, are_all: bool) {
        if are_all && self.origin.check().is_ok() {
            self.is_here_now(matrix);
        }
        self.matrices[matrix].claimed.store(0, Ordering::Release);
    }
}

/// The rows of a weight that a computation holds.
#[derive(Clone, Copy)]
pub struct FileRows<'a>(&'a Weight);

impl<'a> FileRows<'a> {
    pub(super) fn of(weight: &'a Weight) -> Self {
        Self(weight)
    }

    /// The rows of all matrices, as the file has them, if those of this matrix are needed: `None` when it is in memory.
    #[inline]
    pub fn instead_of(&self, matrix: usize) -> Option<&'a [u8]> {
        if self.0.is_here(matrix) { None } else { self.0.origin.mapped() }
    }
}
