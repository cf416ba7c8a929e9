//! Computes a piece of a product whose weights are plain numbers.

use super::cut::BY_STEP_FROM;
use super::memory::spaced;
use super::plan::ActForm;
use super::product::{Addresses, Columns, Job};
use crate::abi::ggml::ggml_type::{self, *};
use crate::cpu::Worker;
use crate::cpu::access::Dest;
use crate::cpu::simd::cover;
use crate::cpu::simd::products::{MAX_BLOCK_ROWS, MAX_COLS, Product, ROWS, STEP};
use crate::sys::prefetch::prefetch;
use std::ops::Range;

/// Values of `k` in a chain of additions. The longer the chains, the larger the error. The original has four for each
/// lane of a row, and multiplies floats as they are: up to a `k` of `4 * STEP` its chains are shorter than those of a
/// step. Three chains are enough for its precision, two for short rows, where the sums of lanes and chains weigh more.
/// With halves and bfloat16s it rounds the columns, which costs more digits than any chain.
fn chain_of(weights: ggml_type, k: usize) -> usize {
    let chains = match (weights, k) {
        (GGML_TYPE_F32 | GGML_TYPE_F8_E4M3, 97..=256) => 2,
        (GGML_TYPE_F32 | GGML_TYPE_F8_E4M3, 257..) if k < 3 * STEP => 3,
        _ => return STEP,
    };
    k.div_ceil(chains).next_multiple_of(32).min(STEP)
}

/// Some rows of weights, as they are or converted, for a step of `k`.
struct Step {
    /// The first row.
    first: *const u8,
    /// Bytes from one row to the next.
    stride: usize,
    /// Number of rows.
    rows: usize,
    /// Number of values.
    k: usize,
    /// Those that are added up on their own.
    chain: usize,
    /// Whether there were steps before.
    add: bool,
    /// After how many bytes the memory follows that is multiplied next, or 0 if it is in the cache.
    ahead: usize,
}

impl Step {
    /// Multiplies the rows, at most [`MAX_BLOCK_ROWS`], by the columns `at`, of which there are as many as the kernel
    /// has.
    ///
    /// # Safety
    /// The rows are readable for `k` numbers of the format of the kernel. The columns have `k` numbers, and their
    /// results are writable for a float of each row (readable, too, if there were steps before).
    unsafe fn multiply(&self, kernel: Product, columns: usize, at: &Addresses<MAX_COLS>) {
        // The last row fills the places of missing rows.
        let mut rows = [std::ptr::null(); MAX_BLOCK_ROWS];
        for (r, at) in rows[..self.rows.next_multiple_of(ROWS)].iter_mut().enumerate() {
            *at = self.first.wrapping_add(r.min(self.rows - 1) * self.stride);
        }
        let whole = self.rows - self.rows % ROWS;
        // SAFETY: forwarded to the caller: this is the contract of `Product`.
        unsafe {
            kernel(self.k, self.chain, whole, rows.as_ptr(), self.ahead, at.acts.as_ptr(), at.dsts.as_ptr(), self.add)
        };
        let n = self.rows - whole;
        if n == 0 {
            return;
        }
        let to = at.dsts.map(|d| d.wrapping_add(whole));
        let mut results = [[0.0f32; ROWS]; MAX_COLS];
        let room = results.each_mut().map(|r| r.as_mut_ptr());
        // SAFETY: as above, with results that have room for all rows of the kernel. The caller promises those of `n`
        // rows from `to` on.
        unsafe {
            for c in 0..if self.add { columns } else { 0 } {
                room[c].cast::<u8>().copy_from_nonoverlapping(to[c].cast(), n * size_of::<f32>());
            }
            kernel(
                self.k,
                self.chain,
                ROWS,
                rows[whole..].as_ptr(),
                self.ahead,
                at.acts.as_ptr(),
                room.as_ptr(),
                self.add,
            );
            for c in 0..columns {
                to[c].cast::<u8>().copy_from_nonoverlapping(room[c].cast(), n * size_of::<f32>());
            }
        }
    }
}

impl<C: Columns> Job<'_, C> {
    /// Computes the piece in steps of [`STEP`] values. `own` has [`own_floats`](super::memory::own_floats).
    pub(super) fn floats(&self, w: &Worker<'_>, dest: &mut Dest<'_>, own: &mut [f32]) {
        let (products, weights, columns) = (&self.kernels.products, self.plan.weights, self.cols.len());
        if let Some(matrix) = products.matrix(weights) {
            return self.by_registers(matrix, w, dest, own);
        }
        let bfloat16s = matches!(self.plan.act, ActForm::Bfloat16s);
        let act_size = if bfloat16s { size_of::<u16>() } else { size_of::<f32>() };
        let convert = !bfloat16s && columns >= products.convert_from.of(weights, self.stride());
        let kernels = if convert { products.together.f32 } else { products.together.of(weights) };
        // Few columns stay in the cache, and rows are read in their order.
        let height = if columns > MAX_COLS { products.block_rows } else { ROWS };
        // The addresses of a column take some divisions.
        let few: Option<Addresses<MAX_COLS>> = (columns <= MAX_COLS).then(|| self.addresses(dest, self.cols.clone()));
        let by_step = columns >= BY_STEP_FROM;
        let (blocks, steps) = (self.rows.len().div_ceil(height), self.plan.k.div_ceil(STEP));
        let (outer, inner) = if by_step { (steps, blocks) } else { (blocks, steps) };
        for i in 0..outer {
            for j in 0..inner {
                // With many columns this is a millisecond of work.
                if few.is_none() && w.is_stopped() {
                    return;
                }
                let (block, step) = if by_step { (j, i) } else { (i, j) };
                let (first, k0) = (self.rows.start + block * height, step * STEP);
                let mut step = self.step(first..self.rows.end.min(first + height), k0, convert.then_some(&mut *own));
                for (c, width, kernel) in cover(kernels, columns) {
                    let at = match &few {
                        Some(all) => all.from(c),
                        None => self.addresses(dest, self.cols.start + c..self.cols.start + c + width),
                    };
                    let at = at.moved(k0 * act_size, first - self.rows.start);
                    // SAFETY: the rows are inside the matrix by the assertions in `new`, or converted, with `step.k`
                    // values. The columns have as many from `k0`, and their results have the rows of the piece
                    // (`addresses`).
                    unsafe { step.multiply(kernel, width, &at) };
                    // The data that follows is in the cache now, and to request it again takes time.
                    step.ahead = 0;
                }
            }
        }
    }

    /// The values from `k0` of some rows, converted to floats if there is memory for that.
    fn step(&self, rows: Range<usize>, k0: usize, own: Option<&mut [f32]>) -> Step {
        let (size, stride) = (self.plan.weights.type_size(), self.stride());
        let (first, k) = (self.row(rows.start).wrapping_add(k0 * size), STEP.min(self.plan.k - k0));
        let chain = chain_of(self.plan.weights, self.plan.k);
        let step = Step { first, stride, rows: rows.len(), k, chain, add: k0 > 0, ahead: ROWS * stride };
        let Some(own) = own else { return step };
        let space = spaced(self.plan.k.min(STEP));
        assert!(rows.len() * space <= own.len(), "memory for the converted rows");
        for (r, to) in own.chunks_exact_mut(space).enumerate().take(rows.len()) {
            let row = first.wrapping_add(r * stride);
            // The rows after these are read from memory while these are multiplied.
            prefetch(row.wrapping_add(self.kernels.products.block_rows * stride), k * size);
            self.convert(row, &mut to[..k]);
        }
        Step { first: own.as_ptr().cast(), stride: space * size_of::<f32>(), ahead: 0, ..step }
    }

    /// Converts a row of weights, which has as many values as `to`.
    fn convert(&self, row: *const u8, to: &mut [f32]) {
        let (k, n) = (self.kernels, to.len());
        // SAFETY: the contract of `Kernels`: the row is inside the matrix by the assertions in `new`, and `to` has room
        // for `n` floats.
        unsafe {
            match self.plan.weights {
                GGML_TYPE_F16 => (k.f16_to_f32)(n, to.as_mut_ptr(), row.cast()),
                GGML_TYPE_BF16 => (k.bf16_to_f32)(n, to.as_mut_ptr(), row.cast()),
                GGML_TYPE_F8_E4M3 => (k.f8_to_f32)(n, to.as_mut_ptr(), row),
                _ => to.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(row, 4 * n),
            }
        }
    }
}
