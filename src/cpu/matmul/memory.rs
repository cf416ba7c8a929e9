//! The memory of a thread for weights of plain numbers: converted rows or, for matrix registers, packed rows and
//! columns with their results.
#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type;
use crate::cpu::simd::Kernels;
use crate::cpu::simd::matrix::{CHUNK, CHUNK_BYTES, MatrixProducts, SIDE};
use crate::cpu::simd::products::STEP;
use crate::cpu::worker::Scratch;

/// Rounds up to the alignment of scratch memory, a cache line.
pub fn line_up(bytes: usize) -> usize {
    bytes.next_multiple_of(Scratch::ALIGN)
}

/// Number of words between rows of unpacked weights, with an additional cache line, so that rows do not compete for the
/// same cache sets.
pub fn spaced(words: usize) -> usize {
    words.next_multiple_of(16) + 16
}

/// Values of `k` in a pass over few columns, those of at most two registers.
pub const FEW_STEP: usize = 4096;
/// The same in a pass over many columns.
pub const MANY_STEP: usize = 512;
/// Values of rows that are packed at a time for few columns: those of four registers stay in the L1 cache.
pub const ROWS_STEP: usize = 128;
/// Rows whose results are kept at a time.
pub const MOST_ROWS: usize = 256;
/// The same for columns.
pub const MOST_COLS: usize = 512;
/// Registers of results that are computed together.
pub const SUMS: usize = 4;

/// Bytes from one packed row of `k` values to the next: with another line, so that rows do not compete for the same
/// sets of a cache.
pub fn row_stride(k: usize) -> usize {
    2 * k.next_multiple_of(CHUNK) + 64
}

/// Bytes of a chunk of a register of columns.
pub fn packed_bytes(m: &MatrixProducts, alone: bool) -> usize {
    CHUNK_BYTES * if alone { m.planes } else { SIDE }
}

/// The parts of a thread's memory for matrix registers, in floats.
#[derive(Clone, Copy)]
pub struct Parts {
    /// Results.
    pub sums: usize,
    /// Packed rows.
    pub rows: usize,
    /// Packed columns.
    pub columns: usize,
}

impl Parts {
    /// Parts for products of at most `rows` rows of `k` values by `columns` columns.
    pub fn new(m: &MatrixProducts, k: usize, rows: usize, columns: usize) -> Self {
        // Rows in place are packed only at the end of the matrix and of a row.
        let few = SUMS * SIDE * row_stride(k.min(ROWS_STEP));
        let all = rows.min(MOST_ROWS).next_multiple_of(SIDE) * row_stride(k.min(MANY_STEP));
        let packed_rows = m.planes * if m.in_place || columns <= 2 * m.columns() { few } else { few.max(all) };
        let packed_columns = 2 * k.min(FEW_STEP).div_ceil(CHUNK) * packed_bytes(m, columns == 1);
        let blocks = rows.min(MOST_ROWS).div_ceil(2 * SIDE) * columns.min(MOST_COLS).div_ceil(2 * m.columns());
        Self {
            sums: SUMS * blocks * SIDE * SIDE,
            rows: packed_rows / size_of::<f32>(),
            columns: packed_columns / size_of::<f32>(),
        }
    }

    /// All of it.
    pub fn total(self) -> usize {
        self.sums + self.rows + self.columns
    }
}

/// Number of floats of a thread's memory for at most `rows` rows of `k` values by `columns` columns.
pub fn own_floats(kernels: &Kernels, weights: ggml_type, k: usize, rows: usize, columns: usize) -> usize {
    match kernels.products.matrix(weights) {
        Some(matrix) => Parts::new(matrix, k, rows, columns).total(),
        None => kernels.products.block_rows * spaced(k.min(STEP)),
    }
}
