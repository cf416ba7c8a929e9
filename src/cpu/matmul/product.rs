//! Computes a piece of a product: some rows of a matrix of weights by some columns of activations.

use super::activations::Activations;
use super::cut::COLUMN_ROWS;
use super::panels::Panels;
use super::plan::{Method, ProductPlan};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::Worker;
use crate::cpu::access::{Dest, RowIndex, Source};
use crate::cpu::simd::interleave::{Interleaved, MAX_FEW};
use crate::cpu::simd::{Kernels, cover, tile};
use crate::cpu::stack;
use std::ops::Range;
use std::ptr::null;

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
    pub(super) kernels: &'a Kernels,
    pub(super) plan: &'a ProductPlan,
    matrix: Matrix<'a>,
    pub(super) activations: Activations<'a>,
    pub(super) columns: C,
    pub(super) rows: Range<usize>,
    pub(super) cols: Range<usize>,
}

/// Addresses of some columns: their activations in the form of the plan, and their results, from the first row of the
/// piece on.
#[derive(Clone, Copy)]
pub(super) struct Addresses<const N: usize> {
    pub acts: [*const u8; N],
    pub dsts: [*mut f32; N],
}

impl<const N: usize> Addresses<N> {
    /// The columns from `first` on.
    pub fn from(mut self, first: usize) -> Self {
        self.acts.rotate_left(first);
        self.dsts.rotate_left(first);
        self
    }

    /// The activations `bytes` bytes later, and the results `rows` rows later.
    pub fn moved(self, bytes: usize, rows: usize) -> Self {
        Self { acts: self.acts.map(|a| a.wrapping_add(bytes)), dsts: self.dsts.map(|d| d.wrapping_add(rows)) }
    }
}

/// The parts of a range, each of `n` except for the last, which may be smaller.
pub(super) fn parts(range: &Range<usize>, n: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = range.end;
    range.clone().step_by(n).map(move |first| first..end.min(first + n))
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
            let dense = weights.nb[1] == weights.ne[0] / weights.block() * weights.dtype.type_size();
            let whole = |f: &Interleaved| rows.start.is_multiple_of(f.lanes) && rows.end.is_multiple_of(f.lanes);
            assert!(dense && plan.strips.as_ref().is_some_and(whole));
        }
        Self { kernels, plan, matrix, activations, columns, rows, cols }
    }

    /// Computes the piece. `own` is memory of this thread with the length in the plan.
    pub fn run(&self, w: &Worker<'_>, dest: &mut Dest<'_>, own: &mut [f32]) {
        let plan = self.plan;
        let few = plan.strips.as_ref().filter(|f| self.cols.len() <= f.few);
        match (plan.method, plan.strips.as_ref().filter(|_| plan.interleaved), few) {
            (Method::Dots, Some(strips), _) | (Method::Tiles, Some(_), Some(strips)) => {
                self.columns(dest, strips, None)
            }
            (Method::Dots, None, _) if self.cols.len() == 1 => {
                let (from, _) = self.columns.get(self.cols.start);
                stack::call_below(self.activations.row(from).addr(), &mut || self.dots(dest));
            }
            (Method::Dots, None, _) => self.dots(dest),
            (Method::Tiles, None, Some(strips)) => self.columns(dest, strips, Some(plan.panels.split(own))),
            (Method::Tiles, ..) => match self.kernels.byte_tiles.unpack[plan.weights as usize] {
                Some(unpacker) => self.byte_tiles(dest, plan.panels.split(own), unpacker),
                None => self.floats(w, dest, own),
            },
        }
    }

    /// Address of row `i` of the matrix. The rows of the piece are `stride` bytes apart.
    pub(super) fn row(&self, i: usize) -> *const u8 {
        let [i2, i3] = self.matrix.at;
        self.matrix.source.row_ptr([i, i2, i3])
    }

    /// Bytes from one row to the next.
    pub(super) fn stride(&self) -> usize {
        self.matrix.source.nb[1]
    }

    /// Addresses of the columns `cols`, at most `N`.
    pub(super) fn addresses<const N: usize>(&self, dest: &mut Dest<'_>, cols: Range<usize>) -> Addresses<N> {
        let mut at = Addresses { acts: [null(); N], dsts: [std::ptr::null_mut(); N] };
        for (c, j) in cols.enumerate() {
            let (from, to) = self.columns.get(j);
            (at.acts[c], at.dsts[c]) = (self.activations.row(from), dest.floats(to, self.rows.clone()));
        }
        at
    }

    fn dots(&self, dest: &mut Dest<'_>) {
        let (k, n, stride) = (self.kernels, self.plan.k, self.stride());
        let vec_dot = k.vec_dot[self.plan.weights as usize];
        // A few rows at a time: they stay in the cache for all columns, and the addresses of a column (some divisions)
        // are computed once for these rows.
        for first in self.rows.clone().step_by(COLUMN_ROWS) {
            let rows = COLUMN_ROWS.min(self.rows.end - first);
            let weights = self.row(first);
            for j in self.cols.clone() {
                let (from, to) = self.columns.get(j);
                let (act, dst) = (self.activations.row(from), dest.floats(to, first..first + rows));
                if let Some(gemv) = self.plan.gemv {
                    // SAFETY: the contract of `Rows`: by the assertions in `new` there are `rows` rows of `n` values.
                    // The column has `n` values in the form of the plan (`Activations::row`), and `dest.floats` has
                    // checked the results.
                    unsafe { (gemv.rows)(n, weights, stride, rows, act, dst) };
                    continue;
                }
                for i in 0..rows {
                    let row = weights.wrapping_add(i * stride);
                    // SAFETY: the contracts of `Kernels` and `VecDot`: by the assertions in `new` the row has `n`
                    // values. The column has `n` values in the form of the plan (`Activations::row`), and `dest.floats`
                    // has checked `rows` floats at `dst`.
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

    /// A few columns at a time, in strips. `packed` has room to interleave the rows; `None` if they are interleaved.
    fn columns(&self, dest: &mut Dest<'_>, strips: &Interleaved, mut packed: Option<Panels<'_>>) {
        let (stride, lanes) = (self.stride(), strips.lanes);
        let (values, bytes, in_memory) = (strips.shape.values, strips.shape.bytes, packed.is_none());
        // A strip stays in the L1 cache for all columns.
        let step = if in_memory { self.plan.k } else { self.strip_step(strips) };
        for some in self.cols.clone().step_by(MAX_FEW) {
            let n = MAX_FEW.min(self.cols.end - some);
            let at: Addresses<MAX_FEW> = self.addresses(dest, some..some + n);
            // A strip takes a microsecond: what is the same for all of them is computed once.
            let mut covered = cover(strips.columns, n);
            let parts: [_; MAX_FEW] = std::array::from_fn(|_| covered.next());
            let mut here = at;
            let mut multiply = || {
                for first in self.rows.clone().step_by(lanes) {
                    let rows = lanes.min(self.rows.end - first);
                    let row = self.row(first);
                    // Each step loads a part of the next strip's rows, in the order of their addresses.
                    let next = row.wrapping_add(lanes * stride);
                    for k0 in (0..self.plan.k).step_by(step) {
                        let step = step.min(self.plan.k - k0);
                        let from = row.wrapping_add(k0 / values * bytes);
                        let strip = match &mut packed {
                            Some(packed) => {
                                // What other columns have read is in the cache.
                                let is_first = some == self.cols.start;
                                let ahead = match is_first {
                                    true => next.wrapping_add(lanes * (k0 / values * bytes)),
                                    false => null(),
                                };
                                // SAFETY: the rows are inside the matrix by the assertions in `new`, `k0 + step` is at
                                // most `k`, and both are multiples of the block.
                                unsafe { packed.strip(strips, step, rows, ahead, |r| from.wrapping_add(r * stride)) }
                            }
                            None => from,
                        };
                        if step < self.plan.k {
                            let bytes = k0 / 32 * strips.form.act_bytes();
                            here.acts[..n]
                                .iter_mut()
                                .zip(at.acts)
                                .for_each(|(to, from)| *to = from.wrapping_add(bytes));
                        }
                        for (c, _, kernel) in parts.iter().map_while(|part| *part) {
                            // Once is enough, and what is packed is in the cache.
                            let ahead = c == 0 && some == self.cols.start && in_memory;
                            // SAFETY: the contract of `Columns`: the strip has `step` values of each row, by the
                            // assertions in `new` if it is in the matrix. The columns have `step` values from `k0`, and
                            // the results have these rows (`addresses`).
                            unsafe {
                                kernel(
                                    step,
                                    strip,
                                    ahead,
                                    here.acts[c..].as_ptr(),
                                    here.dsts[c..].as_ptr(),
                                    rows,
                                    k0 > 0,
                                )
                            };
                        }
                    }
                    here.dsts[..n].iter_mut().for_each(|to| *to = to.wrapping_add(lanes));
                }
            };
            match n {
                1 => stack::call_below(at.acts[0].addr(), &mut multiply),
                _ => multiply(),
            }
        }
    }

    /// Values of a row for a strip of at most 16 KiB: a multiple of every block.
    fn strip_step(&self, strips: &Interleaved) -> usize {
        let row = (16 << 10) / strips.lanes;
        (row / strips.shape.bytes * strips.shape.values / 256 * 256).clamp(256, self.plan.panels.step.max(256))
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

    fn byte_tiles(&self, dest: &mut Dest<'_>, mut packed: Panels<'_>, unpacker: tile::Unpacker) {
        let (tiles, stride) = (&self.kernels.byte_tiles, self.stride());
        let form = self.plan.panels.form.unwrap_or(unpacker.form);
        let (values, bytes) = (self.plan.weights.blck_size() as usize, self.plan.weights.type_size());
        for (k0, step) in self.steps() {
            for (p, first, rows) in self.panels() {
                let row = |r: usize| self.row(first).wrapping_add(r * stride + k0 / values * bytes);
                // SAFETY: the rows are inside the matrix by the assertions in `new`, in whole strips if they are
                // interleaved; `k0 + step` is at most `k`, and both are multiples of the block.
                unsafe {
                    match &self.plan.strips {
                        Some(f) if self.plan.interleaved => {
                            let at = k0 / values * bytes * f.lanes;
                            packed.unpack_strips(f, p, step, rows, |r| self.row(first + r).wrapping_add(at));
                        }
                        Some(f) => packed.pack_strips(f, p, step, rows, row),
                        None => packed.pack_blocks(tiles.transpose, unpacker, p, step, rows, row),
                    }
                }
            }
            for (c, width, kernel) in cover(tiles.kernels[form.index()], self.cols.len()) {
                let first_col = self.cols.start + c;
                let at: Addresses<{ tile::MAX_COLS }> = self.addresses(dest, first_col..first_col + width);
                let mut at = at.moved(k0 / 32 * form.act_bytes(), 0);
                if let Some(spread) = tiles.spread.filter(|_| form.bits == 16) {
                    // SAFETY: the columns have `step / 32` blocks from `k0`, in this form.
                    at.acts = unsafe { packed.spread(spread, step, width, at.acts) };
                }
                for (p, first, rows) in self.panels() {
                    let at = at.moved(0, first - self.rows.start);
                    // SAFETY: the contract of `ByteTile`: the panel has `step` values of each row. The columns have
                    // `step / 32` blocks from `k0`, widened if the weights are, and the results have the rows of this
                    // panel (`addresses`).
                    unsafe { kernel(step, packed.bytes(p, step), at.acts.as_ptr(), at.dsts.as_ptr(), rows, k0 > 0) };
                }
            }
        }
    }
}
