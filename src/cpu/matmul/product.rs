//! Computes a piece of a product: some rows of a matrix of weights by some columns of activations.

use super::activations::Activations;
use super::panels::Panels;
use super::plan::{ActForm, Method, ProductPlan};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::access::{Dest, RowIndex, Source};
use crate::cpu::simd::{Kernels, interleave::Interleaved, tile};
use std::ops::Range;

/// Rows that are multiplied with all columns before the next rows. A multiple of all numbers of rows of a strip.
pub const COLUMN_ROWS: usize = 16;

/// The columns for a matrix of weights.
pub trait Columns {
    /// Row of `src1` and row of the result for column `j`.
    fn get(&self, j: usize) -> (RowIndex, RowIndex);
}

/// A matrix of weights.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    /// `src0`.
    pub source: Source<'a>,
    /// Its indices in dimensions 2 and 3.
    pub at: [usize; 2],
}

/// A piece of work: `rows` of a matrix by `columns`.
pub struct Job<'a, C> {
    kernels: &'a Kernels,
    plan: &'a ProductPlan,
    matrix: Matrix<'a>,
    activations: Activations<'a>,
    columns: C,
    rows: Range<usize>,
    cols: Range<usize>,
}

impl<'a, C: Columns> Job<'a, C> {
    /// A piece with rows `rows` of `matrix` and columns `cols` of `columns`.
    pub fn new(
        kernels: &'a Kernels,
        matrix: Matrix<'a>,
        activations: Activations<'a>,
        columns: C,
        rows: Range<usize>,
        cols: Range<usize>,
    ) -> Self {
        let plan = activations.plan();
        let weights = &matrix.source;
        // The SAFETY comments of the kernels below use these conditions.
        assert!(weights.dtype == plan.weights && weights.ne[0] == plan.k && weights.has_dense_rows());
        assert!(rows.start <= rows.end && rows.end <= weights.ne[1]);
        if plan.interleaved {
            let lanes = kernels.interleaved.lanes;
            let dense = weights.nb[1] == weights.ne[0] / weights.block() * weights.dtype.type_size();
            assert!(
                plan.strips.is_some() && dense && rows.start.is_multiple_of(lanes) && rows.end.is_multiple_of(lanes)
            );
        }
        Self { kernels, plan, matrix, activations, columns, rows, cols }
    }

    /// Computes the piece. `own` is memory of this thread with the length in the plan.
    pub fn run(&self, dest: &mut Dest<'_>, own: &mut [f32]) {
        match (self.plan.method, self.kernels.byte_tiles.unpack[self.plan.weights as usize]) {
            (Method::Dots, _) => self.dots(dest),
            (Method::Tiles, None) => self.float_tiles(dest, self.plan.panels.split(own)),
            (Method::Tiles, Some(unpacker)) => self.byte_tiles(dest, self.plan.panels.split(own), unpacker),
        }
    }

    /// Address of row `i` of the matrix. The rows of the piece are `stride` bytes apart.
    fn row(&self, i: usize) -> *const u8 {
        let [i2, i3] = self.matrix.at;
        self.matrix.source.row_ptr([i, i2, i3])
    }

    fn stride(&self) -> usize {
        self.matrix.source.nb[1]
    }

    fn dots(&self, dest: &mut Dest<'_>) {
        if let Some(strips) = self.plan.strips.as_ref().filter(|_| self.plan.interleaved) {
            return self.columns(dest, strips);
        }
        let (k, n, stride) = (self.kernels, self.plan.k, self.stride());
        let vec_dot = k.vec_dot[self.plan.weights as usize];
        let gemv = k.gemv[self.plan.weights as usize]
            .filter(|_| matches!(self.plan.act, ActForm::Wide(_) | ActForm::Bytes(_)));
        // A few rows at a time: they stay in the cache for all columns, and the addresses of a column (some divisions) are computed once
        // for these rows.
        for first in self.rows.clone().step_by(COLUMN_ROWS) {
            let rows = COLUMN_ROWS.min(self.rows.end - first);
            let weights = self.row(first);
            for j in self.cols.clone() {
                let (from, to) = self.columns.get(j);
                let (act, dst) = (self.activations.row(from), dest.floats(to, first..first + rows));
                if let Some(gemv) = gemv {
                    // SAFETY: the contract of `Rows`: by the assertions in `new` there are `rows` rows of `n` values. The column has `n`
                    // values in the form of the plan (`Activations::row`), and `dest.floats` has checked the results.
                    unsafe { (gemv.rows)(n, weights, stride, rows, act, dst) };
                    continue;
                }
                for i in 0..rows {
                    let row = weights.wrapping_add(i * stride);
                    // SAFETY: the contracts of `Kernels` and `VecDot`: by the assertions in `new` the row has `n` values. The column has
                    // `n` values in the form of the plan (`Activations::row`), and `dest.floats` has checked `rows` floats at `dst`.
                    unsafe {
                        let sum = match self.plan.weights {
                            GGML_TYPE_F32 => (k.dot)(n, row.cast(), act.cast()),
                            GGML_TYPE_F16 => (k.dot_f16)(n, row.cast(), act.cast()),
                            GGML_TYPE_BF16 => (k.dot_bf16)(n, row.cast(), act.cast()),
                            GGML_TYPE_F8_E4M3 => (k.dot_f8)(n, row, act.cast()),
                            _ => vec_dot.map_or(0.0, |dot| dot(n, row, act)),
                        };
                        dst.wrapping_add(i).write_unaligned(sum);
                    }
                }
            }
        }
    }

    /// Matrix times column for each column, for interleaved weights.
    fn columns(&self, dest: &mut Dest<'_>, strips: &Interleaved) {
        let (n, lanes) = (self.plan.k, self.kernels.interleaved.lanes);
        for first in self.rows.clone().step_by(COLUMN_ROWS) {
            let rows = COLUMN_ROWS.min(self.rows.end - first);
            for j in self.cols.clone() {
                let (from, to) = self.columns.get(j);
                let (act, dst) = (self.activations.row(from), dest.floats(to, first..first + rows));
                for r in (0..rows).step_by(lanes) {
                    // SAFETY: the contract of `Column`: by the assertions in `new` there are whole strips of rows of `n` values. The column has `n`
                    // values in the form of the plan (`Activations::row`), and `dest.floats` has checked the results.
                    unsafe { (strips.column)(n, self.row(first + r), act, dst.wrapping_add(r), lanes, false) }
                }
            }
        }
    }

    /// Calls `tile(kernel, activations, results)` for all columns, in tiles as wide as possible. Each pointer to activations has `k` values
    /// in the form of the plan, and each pointer to results has a float for each row of the piece.
    fn for_tiles<T: Copy>(
        &self,
        dest: &mut Dest<'_>,
        kernels: &[(usize, T)],
        mut tile: impl FnMut(T, &[*const u8; tile::MAX_COLS], &[*mut f32; tile::MAX_COLS]),
    ) {
        let mut j = self.cols.start;
        for &(width, kernel) in kernels {
            while self.cols.end - j >= width {
                let (mut acts, mut dsts) = ([std::ptr::null(); tile::MAX_COLS], [std::ptr::null_mut(); tile::MAX_COLS]);
                for c in 0..width {
                    let (from, to) = self.columns.get(j + c);
                    (acts[c], dsts[c]) = (self.activations.row(from), dest.floats(to, self.rows.clone()));
                }
                tile(kernel, &acts, &dsts);
                j += width;
            }
        }
    }

    /// Panels of the piece: number, first row, number of rows.
    fn panels(&self) -> impl Iterator<Item = (usize, usize, usize)> + Clone {
        let (end, height) = (self.rows.end, self.plan.panels.height);
        self.rows.clone().step_by(height).enumerate().map(move |(p, i)| (p, i, height.min(end - i)))
    }

    /// Steps over `k`: start and length.
    fn steps(&self) -> impl Iterator<Item = (usize, usize)> + use<C> {
        let (k, step) = (self.plan.k, self.plan.panels.step);
        (0..k).step_by(step).map(move |k0| (k0, step.min(k - k0)))
    }

    fn float_tiles(&self, dest: &mut Dest<'_>, mut packed: Panels<'_>) {
        let (stride, size) = (self.stride(), self.plan.weights.type_size());
        for (k0, step) in self.steps() {
            for (p, first, rows) in self.panels() {
                let from = self.row(first).wrapping_add(k0 * size);
                // SAFETY: the rows are inside the matrix by the assertions in `new`, `stride` bytes apart, and `k0 + step` is at most `k`.
                unsafe {
                    packed.pack_floats(
                        self.kernels,
                        self.plan.weights,
                        p,
                        step,
                        rows,
                        |r| from.wrapping_add(r * stride),
                        stride,
                    );
                }
            }
            self.for_tiles(dest, self.kernels.float_tiles.kernels, |kernel, acts, dsts| {
                let acts = acts.map(|a| a.cast::<f32>().wrapping_add(k0));
                for (p, first, rows) in self.panels() {
                    let dsts = dsts.map(|d| d.wrapping_add(first - self.rows.start));
                    let panel = packed.floats(p, step);
                    // SAFETY: the contract of `FloatTile`: the panel has `step` values of each row. The columns have `step` floats from `k0`,
                    // and the results have the rows of this panel (`for_tiles`).
                    unsafe { kernel(step, panel.as_ptr(), acts.as_ptr(), dsts.as_ptr(), rows, k0 > 0) };
                }
            });
        }
    }

    fn byte_tiles(&self, dest: &mut Dest<'_>, mut packed: Panels<'_>, unpacker: tile::Unpacker) {
        let (tiles, stride) = (&self.kernels.byte_tiles, self.stride());
        let form = self.plan.panels.form.unwrap_or(unpacker.form);
        let (values, bytes) = (self.plan.weights.blck_size() as usize, self.plan.weights.type_size());
        for (k0, step) in self.steps() {
            for (p, first, rows) in self.panels() {
                if let Some(strips) = &self.plan.strips {
                    let lanes = self.kernels.interleaved.lanes;
                    let row = |r: usize| self.row(first).wrapping_add(r * stride);
                    // SAFETY: the rows are inside the matrix by the assertions in `new`, in whole strips if they are interleaved; `k0 + step` is at
                    // most `k`, and both are multiples of the block.
                    unsafe {
                        if self.plan.interleaved {
                            let strip = |r: usize| row(r).wrapping_add(k0 / values * bytes * lanes);
                            packed.unpack_strips(strips, lanes, p, step, rows, strip);
                        } else {
                            packed.pack_strips(strips, lanes, p, step, rows, |r| {
                                row(r).wrapping_add(k0 / values * bytes)
                            });
                        }
                    }
                    continue;
                }
                let from = self.row(first).wrapping_add(k0 / values * bytes);
                // SAFETY: the rows are inside the matrix by the assertions in `new`, `k0 + step` is at most `k`, and both are multiples of
                // the block.
                unsafe {
                    packed.pack_blocks(tiles.transpose, unpacker, p, step, rows, |r| from.wrapping_add(r * stride))
                };
            }
            self.for_tiles(dest, tiles.kernels[form.index()], |kernel, acts, dsts| {
                let acts = acts.map(|a| a.wrapping_add(k0 / 32 * form.act_bytes()));
                for (p, first, rows) in self.panels() {
                    let dsts = dsts.map(|d| d.wrapping_add(first - self.rows.start));
                    // SAFETY: the contract of `ByteTile`: the panel has `step` values of each row. The columns have `step / 32` blocks from
                    // `k0`, and the results have the rows of this panel (`for_tiles`).
                    unsafe { kernel(step, packed.bytes(p, step), acts.as_ptr(), dsts.as_ptr(), rows, k0 > 0) };
                }
            });
        }
    }
}
