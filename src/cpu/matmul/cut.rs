//! The partition of the work of a product into pieces.
#![forbid(unsafe_code)]

use super::memory::MOST_ROWS;
use super::panels::PANELS;
use super::plan::{Method, ProductPlan};
use std::ops::Range;

/// Rows that are multiplied with all columns before the next rows. A multiple of all numbers of rows of a strip.
pub const COLUMN_ROWS: usize = 16;
/// From this number of columns on, all rows of a piece are multiplied by one step of the columns before the next step:
/// all steps of so many columns take more pages than the TLB holds.
pub const BY_STEP_FROM: usize = 128;
/// Rows of a piece of work with as many columns, if there are enough rows.
const PIECE: usize = MOST_ROWS;
/// Columns from which on a piece for matrix registers should have many rows.
const MANY: usize = 64;
/// Pieces of work for each thread, if there are so many.
const PIECES: usize = 4;
/// The same for plain numbers with many columns, whose pieces take milliseconds: a thread that the system stops for a
/// moment should have few of them left.
const MANY_PIECES: usize = 16;

/// A partition of rows and columns into pieces.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    rows: usize,
    columns: usize,
    row_step: usize,
    col_step: usize,
}

impl Cut {
    /// Number of pieces.
    pub fn chunks(&self) -> usize {
        self.rows.div_ceil(self.row_step) * self.columns.div_ceil(self.col_step.max(1))
    }

    /// Rows of a piece. Adjacent pieces have the same columns.
    pub fn rows(&self, piece: usize) -> Range<usize> {
        let start = piece % self.rows.div_ceil(self.row_step) * self.row_step;
        start..(start + self.row_step).min(self.rows)
    }

    /// Columns of a piece.
    pub fn cols(&self, piece: usize) -> Range<usize> {
        let start = piece / self.rows.div_ceil(self.row_step) * self.col_step;
        start..(start + self.col_step).min(self.columns)
    }
}

impl ProductPlan {
    /// Partition of `times` matrices of `rows` by `columns` results for `threads` threads.
    pub fn cut(&self, rows: usize, columns: usize, times: usize, threads: usize) -> Cut {
        let mut wanted = PIECES * threads;
        match self.method {
            Method::Dots => {
                // All columns at once; rows in several pieces for each thread, but not too small ones.
                let pieces = wanted.div_ceil(times);
                Cut {
                    rows,
                    columns,
                    row_step: rows.div_ceil(pieces).clamp(8, 1024).next_multiple_of(COLUMN_ROWS),
                    col_step: columns,
                }
            }
            Method::Tiles => {
                let mut cut = Cut { rows, columns, row_step: PANELS * self.panels.height, col_step: 1024 };
                // More rows need the columns less often from a cache far away, but each thread needs some pieces.
                let many = if self.registers { MANY } else { BY_STEP_FROM };
                if self.panels.form.is_none() && columns >= many {
                    cut.row_step = cut.row_step.max(PIECE);
                    // Not with registers, which pack their columns for each piece again.
                    if !self.registers {
                        wanted = MANY_PIECES * threads;
                    }
                }
                // A piece packs its columns for its rows: rather fewer columns than fewer rows.
                if self.registers {
                    cut.col_step = cut.col_step.min(columns.max(1));
                    while cut.chunks() * times < wanted && cut.col_step > MANY {
                        cut.col_step = (cut.col_step / 2).next_multiple_of(MANY);
                    }
                }
                while cut.chunks() * times < wanted && cut.row_step > PANELS * self.panels.height {
                    cut.row_step /= 2;
                }
                if cut.chunks() * times < wanted {
                    cut.row_step = self.panels.height;
                }
                while cut.chunks() * times < wanted && cut.col_step > 48 {
                    cut.col_step = (cut.col_step / 2).next_multiple_of(12);
                }
                cut
            }
        }
    }
}
