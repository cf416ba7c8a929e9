//! Computes a piece of a product of plain numbers by matrix registers ([`matrix`](crate::cpu::simd::matrix)).

use super::memory::{FEW_STEP, MANY_STEP, MOST_COLS, MOST_ROWS, Parts, ROWS_STEP, SUMS, packed_bytes, row_stride};
use super::product::{Addresses, Columns, Job, parts};
use crate::cpu::Worker;
use crate::cpu::access::Dest;
use crate::cpu::simd::matrix::{CHUNK, MatrixProducts, Multiply, Packed, Planes, Rows, SIDE, Sums};
use std::ops::Range;

/// A thread's memory.
struct Scratch<'m> {
    sums: &'m mut [Sums],
    rows: &'m mut [f32],
    columns: &'m mut [f32],
}

impl<'m> Scratch<'m> {
    fn new(parts: Parts, own: &'m mut [f32]) -> Self {
        let (sums, rest) = own.split_at_mut(parts.sums);
        let (rows, rest) = rest.split_at_mut(parts.rows);
        // SAFETY: any bits are floats.
        let (before, sums, after) = unsafe { sums.align_to_mut::<Sums>() };
        assert!(before.is_empty() && after.is_empty(), "memory of a thread begins at a cache line");
        Self { sums, rows, columns: &mut rest[..parts.columns] }
    }

    /// Multiplies. `sums` is the index of the results.
    ///
    /// # Safety
    /// Rows and columns are readable for `chunks` chunks in the form of the kernel.
    unsafe fn multiply(
        &mut self,
        kernel: Multiply,
        chunks: usize,
        rows: Rows,
        columns: Packed,
        sums: usize,
        add: bool,
    ) {
        let sums = &mut self.sums[sums..][..rows.registers * columns.registers];
        // SAFETY: the contract of `Multiply`: the caller promises rows and columns, and there are as many results.
        unsafe { kernel(chunks, rows, columns, sums.as_mut_ptr(), add) }
    }
}

/// `k` values from `k0` on.
#[derive(Clone, Copy)]
struct Values {
    k0: usize,
    k: usize,
}

impl<C: Columns> Job<'_, C> {
    /// Computes the piece. `own` has [`Parts::total`].
    pub(super) fn by_registers(&self, m: &MatrixProducts, w: &Worker<'_>, dest: &mut Dest<'_>, own: &mut [f32]) {
        let mut memory = Scratch::new(Parts::new(m, self.plan.k, self.plan.rows, self.plan.columns), own);
        for rows in parts(&self.rows, MOST_ROWS) {
            for cols in parts(&self.cols, MOST_COLS) {
                if w.is_stopped() {
                    return;
                }
                self.results(m, dest, &mut memory, rows.clone(), cols);
            }
        }
    }

    /// Computes the results of at most [`MOST_ROWS`] rows and [`MOST_COLS`] columns.
    fn results(
        &self,
        m: &MatrixProducts,
        dest: &mut Dest<'_>,
        memory: &mut Scratch<'_>,
        rows: Range<usize>,
        cols: Range<usize>,
    ) {
        let (one, two) = (m.columns(), 2 * m.columns());
        let few = cols.len() <= two;
        let height = SIDE * if cols.len() <= one { m.few } else { 2 };
        let blocks = rows.len().div_ceil(height);
        for k0 in (0..self.plan.k).step_by(if few { FEW_STEP } else { MANY_STEP }) {
            let k = if few { FEW_STEP } else { MANY_STEP }.min(self.plan.k - k0);
            let values = Values { k0, k };
            // With many columns, rows that are not multiplied in place are packed once for all of them.
            let packed = (!few && !m.in_place).then(|| self.pack_rows(m, memory, rows.clone(), values));
            for (j, together) in parts(&cols, two).enumerate() {
                let columns = self.pack_columns(m, dest, memory, together, cols.len() == 1, values);
                for (i, some) in parts(&rows, height).enumerate() {
                    let sums = SUMS * (j * blocks + i);
                    let Some(packed) = packed else {
                        self.multiply_rows(m, memory, columns, some, sums, values);
                        continue;
                    };
                    let from = packed.first.wrapping_add((some.start - rows.start) * packed.stride);
                    let these = Rows { first: from, registers: some.len().div_ceil(SIDE), ..packed };
                    // SAFETY: rows and columns are packed.
                    unsafe { memory.multiply(m.multiply, k.div_ceil(CHUNK), these, columns, sums, k0 > 0) };
                }
            }
        }
        for (j, some) in parts(&cols, one).enumerate() {
            let (c, n, alone) = (some.start, some.len(), cols.len() == 1);
            let at: Addresses<SIDE> = self.addresses(dest, some);
            // The registers of columns that were multiplied together.
            let registers = (cols.end - (c - j % 2 * one)).min(two).div_ceil(one);
            for (i, some) in parts(&rows, SIDE).enumerate() {
                let (block, register) = (i * SIDE / height, i * SIDE % height / SIDE);
                let sums = &memory.sums[SUMS * (j / 2 * blocks + block) + register * registers + j % 2];
                let dsts = at.moved(0, some.start - self.rows.start).dsts;
                // SAFETY: the contract of `Finish`: the results have the rows of the piece (`addresses`).
                unsafe { (m.finish)(sums, some.len(), n, alone, dsts.as_ptr()) };
            }
        }
    }

    /// Packs values of rows.
    fn pack_rows(
        &self,
        m: &MatrixProducts,
        memory: &mut Scratch<'_>,
        rows: Range<usize>,
        Values { k0, k }: Values,
    ) -> Rows {
        let (stride, height) = (row_stride(k), rows.len().next_multiple_of(SIDE));
        let apart = height * stride;
        assert!(m.planes * apart <= size_of_val(memory.rows));
        let to = Planes { first: memory.rows.as_mut_ptr().cast(), apart };
        let from = self.row(rows.start).wrapping_add(2 * k0);
        // SAFETY: the contract of `PackRows`: the rows are inside the matrix by the assertions in `Job::new`, with `k`
        // values from `k0`, and by the assertion there is room for them.
        unsafe { (m.pack_rows)(k, rows.len(), from, self.stride(), to, stride) };
        Rows { first: to.first, stride, apart, registers: height / SIDE }
    }

    /// Packs values of columns of at most two registers. A column may be `alone`.
    fn pack_columns(
        &self,
        m: &MatrixProducts,
        dest: &mut Dest<'_>,
        memory: &mut Scratch<'_>,
        cols: Range<usize>,
        alone: bool,
        Values { k0, k }: Values,
    ) -> Packed {
        let size = if m.planes == 1 { size_of::<u16>() } else { size_of::<f32>() };
        let stride = k.div_ceil(CHUNK) * packed_bytes(m, alone);
        let registers = cols.len().div_ceil(m.columns());
        assert!(registers * stride <= size_of_val(memory.columns));
        let first: *mut u8 = memory.columns.as_mut_ptr().cast();
        for (r, some) in parts(&cols, m.columns()).enumerate() {
            let n = some.len();
            let at: Addresses<SIDE> = self.addresses(dest, some);
            let at = at.moved(k0 * size, 0);
            // SAFETY: the contract of `PackColumns`: the columns have `k` values from `k0` in the form of the plan, and
            // by the assertion there is room for them.
            unsafe { (m.pack_columns)(k, n, at.acts.as_ptr(), alone, first.wrapping_add(r * stride)) };
        }
        Packed { first, stride, registers, alone }
    }

    /// Multiplies rows of at most four registers by packed columns, in place, or after packing a step.
    fn multiply_rows(
        &self,
        m: &MatrixProducts,
        memory: &mut Scratch<'_>,
        columns: Packed,
        rows: Range<usize>,
        sums: usize,
        Values { k0, k }: Values,
    ) {
        if rows.len().is_multiple_of(SIDE) && k.is_multiple_of(CHUNK) {
            let first = self.row(rows.start).wrapping_add(2 * k0);
            let these = Rows { first, stride: self.stride(), apart: 0, registers: rows.len() / SIDE };
            // SAFETY: the rows are inside the matrix by the assertions in `Job::new`, with `k` values from `k0`, and
            // the columns are packed.
            return unsafe { memory.multiply(m.multiply_in_place, k / CHUNK, these, columns, sums, k0 > 0) };
        }
        for start in (0..k).step_by(ROWS_STEP) {
            let step = Values { k0: k0 + start, k: ROWS_STEP.min(k - start) };
            let packed = self.pack_rows(m, memory, rows.clone(), step);
            let first = columns.first.wrapping_add(start / CHUNK * packed_bytes(m, columns.alone));
            let columns = Packed { first, ..columns };
            // SAFETY: rows and columns are packed.
            unsafe { memory.multiply(m.multiply, step.k.div_ceil(CHUNK), packed, columns, sums, step.k0 > 0) };
        }
    }
}
