//! Weights that computations use where their file is mapped, until they are interleaved. The file's rows are as good
//! for that (`matmul`) and cost no memory of their own: a host's first answer does not wait for a copy of the model.

use super::resident::Weight;
use crate::error::Result;
use std::sync::atomic::{AtomicI64, Ordering};

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
        (0..self.matrices()).filter(both).for_each(|i| self.origin.give_back(self.bytes(i)));
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

/// What a product reads of its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reads {
    /// Bytes, at most.
    pub bytes: usize,
    /// Columns that each of them is multiplied with.
    pub columns: usize,
}

impl Reads {
    /// Bytes of weights to interleave in a computation that reads so much.
    fn share(self) -> i64 {
        /// Interleaving a byte takes as long as multiplying it with so many columns, and ten times as long as reading it,
        /// which takes as long as eight columns: this makes a computation a tenth slower at most.
        const COLUMNS: usize = 512;
        const READING: usize = 8;
        let columns = self.columns.saturating_add(READING).min(COLUMNS);
        (self.bytes as u128 * columns as u128 / COLUMNS as u128) as i64
    }
}

/// Bytes that computations may interleave. Less than none: before, they read so much.
static CREDIT: AtomicI64 = AtomicI64::new(0);

/// A weight of so many bytes was set. Nothing of it is interleaved before computations have read it a few times: a host's
/// first answers come first.
pub fn owe(bytes: usize) {
    CREDIT.fetch_sub(bytes as i64 / 4, Ordering::Relaxed);
}

/// A computation begins that reads this, while `away` bytes of weights are not interleaved.
pub fn earn(reads: impl Iterator<Item = Reads>, away: u64) {
    let share = reads.map(Reads::share).fold(0, i64::saturating_add);
    let away = i64::try_from(away).unwrap_or(i64::MAX);
    // What was owed for weights that are gone is not.
    let more = |credit: i64| Some(credit.max(-away / 4).saturating_add(share).min(away));
    let _ = CREDIT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
}

/// Whether a computation may interleave so many bytes. If so, there is less left for others.
pub fn spend(bytes: usize) -> bool {
    let less = |credit: i64| Some(credit - bytes as i64).filter(|&left| left >= 0);
    CREDIT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computation_interleaves_a_part_of_what_it_reads() {
        let share = |bytes, columns| Reads { bytes, columns }.share();
        assert_eq!([1, 8, 504, 5000].map(|columns| share(512 << 20, columns) >> 20), [9, 16, 512, 512]);
        assert_eq!(share(usize::MAX >> 1, usize::MAX), i64::MAX);
    }
}
