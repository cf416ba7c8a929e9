//! Weights that computations use where their file is mapped, until they are interleaved. The file's rows are as good
//! for that (`matmul`) and cost no memory of their own: a host's first answer does not wait for a copy of the model.

use super::price;
use super::resident::Weight;
use crate::error::Result;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Weight {
    /// Whether its rows can be used where the file is mapped. Whether they are what the host has set, its origin says.
    pub fn has_rows(&self) -> bool {
        self.origin.mapped().is_some()
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
    /// Parts of a matrix, in bytes of the weight, each of about `size`.
    pub fn pieces(&self, matrix: usize, size: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let (all, size) = (self.bytes(matrix), size.next_multiple_of(self.strips.bytes()));
        all.clone().step_by(size).map(move |at| at..all.end.min(at + size))
    }

    /// Interleaves a piece of a matrix.
    ///
    /// # Safety
    /// The caller has [claimed](Self::claim) the matrix and holds the weight; no other thread has this piece.
    pub unsafe fn interleave(&self, piece: Range<usize>) {
        let Some(rows) = self.origin.mapped() else {
            unreachable!("the file of a weight that is used there is mapped")
        };
        let begun = Instant::now();
        // SAFETY: the caller's promise.
        let memory = unsafe { self.part(piece.clone()) };
        self.strips.interleave_all(&rows[piece.clone()], memory);
        price::learn(piece.len(), begun.elapsed());
        // Not both of a large matrix.
        self.origin.give_back(piece);
    }

    /// Ends a claim: all pieces of a matrix are interleaved, or not.
    pub fn finish(&self, matrix: usize, are_all: bool) {
        let _claim = self.claimed(matrix);
        if are_all && self.origin.check().is_ok() {
            self.is_here_now(matrix);
        }
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
