//! Computes a piece of a product whose weights are plain numbers.

use super::plan::spaced;
use super::product::{Columns, Job};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::access::Dest;
use crate::cpu::simd::products::{MAX_COLS, ROWS, STEP};

/// Rows that are converted at a time.
const CONVERTED: usize = 32;
/// Minimum number of columns for converting rows to floats once for all of them.
const CONVERT_FROM: usize = 16;

/// Number of floats of a thread's memory for rows of `k` values.
pub fn own_floats(k: usize) -> usize {
    CONVERTED * spaced(k.min(STEP))
}

impl<C: Columns> Job<'_, C> {
    /// Computes the piece in steps of [`STEP`] values. `own` has [`own_floats`], unless the weights are floats.
    pub(super) fn floats(&self, dest: &mut Dest<'_>, own: &mut [f32]) {
        let (products, weights) = (&self.kernels.products, self.plan.weights);
        let convert = weights != GGML_TYPE_F32 && self.cols.len() >= CONVERT_FROM;
        let kernels = if convert { products.f32 } else { products.of(weights) };
        // Few columns stay in the cache, and rows are read in their order.
        let height = if self.cols.len() > MAX_COLS { CONVERTED } else { ROWS };
        let space = spaced(self.plan.k.min(STEP));
        for first in self.rows.clone().step_by(height) {
            let rows = height.min(self.rows.end - first);
            for k0 in (0..self.plan.k).step_by(STEP) {
                let step = STEP.min(self.plan.k - k0);
                // The next step of these rows, or the next rows.
                let last = k0 + step == self.plan.k;
                let ahead = if last {
                    (ROWS * self.stride()).wrapping_sub(k0 * weights.type_size())
                } else {
                    STEP * weights.type_size()
                };
                let row = |r: usize| self.row(first).wrapping_add(r * self.stride() + k0 * weights.type_size());
                if convert {
                    for (r, to) in own.chunks_exact_mut(space).enumerate().take(rows) {
                        self.convert(row(r), &mut to[..step]);
                    }
                }
                // The last row stands for rows that are missing.
                let at = |r: usize| match r.min(rows - 1) {
                    r if convert => own[r * space..].as_ptr().cast::<u8>(),
                    r => row(r),
                };
                let mut j = self.cols.start;
                for &(width, kernel) in kernels {
                    while self.cols.end - j >= width {
                        let (mut acts, mut dsts) = ([std::ptr::null(); MAX_COLS], [std::ptr::null_mut(); MAX_COLS]);
                        for c in 0..width {
                            let (from, to) = self.columns.get(j + c);
                            acts[c] = self.activations.row(from).cast::<f32>().wrapping_add(k0);
                            dsts[c] = dest.floats(to, first..first + rows);
                        }
                        for r in (0..rows).step_by(ROWS) {
                            let from = [at(r), at(r + 1), at(r + 2), at(r + 3)];
                            let all = rows - r >= ROWS;
                            let mut rest = [[0.0f32; ROWS]; MAX_COLS];
                            let to: [*mut f32; MAX_COLS] =
                                std::array::from_fn(
                                    |c| {
                                        if all { dsts[c].wrapping_add(r) } else { rest[c].as_mut_ptr() }
                                    },
                                );
                            // SAFETY: the contract of `Product`: the rows are inside the matrix by the assertions in `new`, or converted with `step`
                            // values. The columns have `step` floats from `k0` (`Activations::row`). There is room for all rows in the results, which
                            // `dest.floats` has checked, or in `rest`.
                            unsafe { kernel(step, from.as_ptr(), ahead, acts.as_ptr(), to.as_ptr(), all && k0 > 0) };
                            if !all {
                                for (c, rest) in rest.iter().enumerate().take(width) {
                                    for (i, sum) in rest.iter().enumerate().take(rows - r) {
                                        let to = dsts[c].wrapping_add(r + i);
                                        // SAFETY: `dest.floats` has checked the results of `rows` rows.
                                        unsafe {
                                            let before = if k0 > 0 { to.read_unaligned() + *sum } else { *sum };
                                            to.write_unaligned(before);
                                        }
                                    }
                                }
                            }
                        }
                        j += width;
                    }
                }
            }
        }
    }

    /// Converts a row of weights, which has as many values as `to`.
    fn convert(&self, row: *const u8, to: &mut [f32]) {
        let (k, n) = (self.kernels, to.len());
        // SAFETY: the contract of `Kernels`: the row is inside the matrix by the assertions in `new`, and `to` has room for `n` floats.
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
