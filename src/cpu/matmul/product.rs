//! Computing a piece of a product: some rows of a matrix of weights by some columns of activations.

use super::plan::{ActForm, Plan, Way, line_up, spaced};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::access::Dest;
use crate::cpu::simd::{Kernels, tile};
use std::ops::Range;

/// Rows that meet one column after the other.
const COLUMN_ROWS: usize = 16;

/// Where columns are.
pub trait Columns {
    /// Activations (in the plan's form) and results of column `j`; both for all rows.
    fn get(&self, j: usize) -> (*const u8, *mut f32);
}

/// A piece of work.
pub struct Job<'a> {
    /// Kernels.
    pub k: &'a Kernels,
    /// The way.
    pub plan: &'a Plan,
    /// First row of the matrix.
    pub weights: *const u8,
    /// Bytes from row to row.
    pub stride: usize,
    /// Rows of the piece.
    pub rows: Range<usize>,
    /// Columns of the piece.
    pub cols: Range<usize>,
    /// This thread's own scratch memory.
    pub own: *mut u8,
}

impl Job<'_> {
    /// Takes the piece's results: no other thread writes them.
    pub fn claim(&self, columns: &impl Columns, dest: &mut Dest<'_>) {
        for j in self.cols.clone().filter(|_| cfg!(debug_assertions)) {
            dest.claim_floats(columns.get(j).1.wrapping_add(self.rows.start), self.rows.len());
        }
    }

    /// Computes the piece.
    ///
    /// # Safety
    /// The rows are readable; each column is readable in the plan's form, and its results are writable for the piece's rows, by
    /// this thread alone; `own` is writable for the plan's `own_bytes`, by this thread alone.
    pub unsafe fn run(&self, way: Way, columns: &impl Columns) {
        // SAFETY: the caller's promise.
        unsafe {
            match (way, self.k.byte_tiles.unpack[self.plan.weights as usize]) {
                (Way::Dots, _) => self.dots(columns),
                (Way::Tiles, None) => self.float_tiles(columns),
                (Way::Tiles, Some(unpacker)) => self.byte_tiles(columns, unpacker),
            }
        }
    }

    fn row(&self, i: usize) -> *const u8 {
        self.weights.wrapping_add(i * self.stride)
    }

    unsafe fn dots(&self, columns: &impl Columns) {
        let (k, n) = (self.k, self.plan.k);
        let vec_dot = k.vec_dot[self.plan.weights as usize];
        // A few rows at a time: they are in the cache for the next column, and to find a column (some divisions) is not for every result.
        for first in self.rows.clone().step_by(COLUMN_ROWS) {
            let rows = COLUMN_ROWS.min(self.rows.end - first);
            for j in self.cols.clone() {
                let (act, dst) = columns.get(j);
                if let ActForm::Wide(gemv) = self.plan.act {
                    // SAFETY: rows and the column hold `n` values, the results can take all rows: the caller's promise.
                    unsafe { (gemv.rows)(n, self.row(first), self.stride, rows, act, dst.wrapping_add(first)) };
                    continue;
                }
                for i in first..first + rows {
                    let row = self.row(i);
                    // SAFETY: the row and the column hold `n` values of the formats that each function takes: the caller's promise.
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

    /// Calls `tile(columns in the tile, kernel, pointers to activations, pointers to results)` for all columns, in tiles as wide as there are.
    fn for_tiles<T: Copy>(
        &self,
        columns: &impl Columns,
        kernels: &[(usize, T)],
        mut tile: impl FnMut(T, &[*const u8; tile::MAX_COLS], &[*mut f32; tile::MAX_COLS]),
    ) {
        let mut j = self.cols.start;
        for &(width, kernel) in kernels {
            while self.cols.end - j >= width {
                let (mut acts, mut dsts) = ([std::ptr::null(); tile::MAX_COLS], [std::ptr::null_mut(); tile::MAX_COLS]);
                for c in 0..width {
                    (acts[c], dsts[c]) = columns.get(j + c);
                }
                tile(kernel, &acts, &dsts);
                j += width;
            }
        }
    }

    /// Panels of the piece: first row and number of rows.
    fn panels(&self) -> impl Iterator<Item = (usize, usize)> + Clone {
        let (end, height) = (self.rows.end, self.plan.height);
        self.rows.clone().step_by(height).map(move |i| (i, height.min(end - i)))
    }

    unsafe fn float_tiles(&self, columns: &impl Columns) {
        let (k, plan, tiles) = (self.k, self.plan, &self.k.float_tiles);
        let panel_bytes = line_up(4 * plan.step * plan.height);
        let panel = |p: usize| self.own.wrapping_add(p * panel_bytes).cast::<f32>();
        let rows_buffer = self.own.wrapping_add(self.own_panels() * panel_bytes).cast::<f32>();
        let mut k0 = 0;
        while k0 < plan.k {
            let step = plan.step.min(plan.k - k0);
            let space = spaced(step);
            for (p, (first, rows)) in self.panels().enumerate() {
                // SAFETY: rows of the piece are readable, `k0 + step` is at most `k`; the buffer has `height` rows of `space` floats.
                unsafe {
                    let whole = plan.weights == GGML_TYPE_F32 && rows == plan.height && self.stride.is_multiple_of(4);
                    if whole {
                        (tiles.turn)(step, self.row(first).cast::<f32>().add(k0), self.stride / 4, panel(p));
                        continue;
                    }
                    for r in 0..plan.height {
                        let to = rows_buffer.add(r * space);
                        let from = self.row(first + r);
                        match plan.weights {
                            _ if r >= rows => to.write_bytes(0, step),
                            GGML_TYPE_F16 => (k.f16_to_f32)(step, to, from.cast::<u16>().wrapping_add(k0)),
                            GGML_TYPE_BF16 => (k.bf16_to_f32)(step, to, from.cast::<u16>().wrapping_add(k0)),
                            GGML_TYPE_F8_E4M3 => (k.f8_to_f32)(step, to, from.wrapping_add(k0)),
                            _ => to.cast::<u8>().copy_from_nonoverlapping(from.wrapping_add(4 * k0), 4 * step),
                        }
                    }
                    (tiles.turn)(step, rows_buffer, space, panel(p));
                }
            }
            self.for_tiles(columns, tiles.kernels, |kernel, acts, dsts| {
                let acts = acts.map(|a| a.cast::<f32>().wrapping_add(k0));
                for (p, (first, rows)) in self.panels().enumerate() {
                    let dsts = dsts.map(|d| d.wrapping_add(first));
                    // SAFETY: the panel was made above; columns and results are the caller's promise.
                    unsafe { kernel(step, panel(p), acts.as_ptr(), dsts.as_ptr(), rows, k0 > 0) };
                }
            });
            k0 += step;
        }
    }

    /// Panels that the thread's own memory has room for.
    fn own_panels(&self) -> usize {
        super::plan::PANELS
    }

    unsafe fn byte_tiles(&self, columns: &impl Columns, unpacker: tile::Unpacker) {
        let (plan, tiles, form) = (self.plan, &self.k.byte_tiles, unpacker.form);
        let groups = plan.step / form.group;
        let (q_bytes, s_bytes) = (line_up(plan.step * plan.height), line_up(4 * groups * plan.height));
        let panel_bytes = q_bytes + s_bytes * if form.offsets { 2 } else { 1 };
        let panel = |p: usize| {
            let q = self.own.wrapping_add(p * panel_bytes);
            let scales = q.wrapping_add(q_bytes);
            (q, scales.cast::<f32>(), scales.wrapping_add(if form.offsets { s_bytes } else { 0 }).cast::<f32>())
        };
        let (space, s_space) = (spaced(plan.step / 4), spaced(groups));
        let q_rows = self.own.wrapping_add(self.own_panels() * panel_bytes).cast::<f32>();
        let s_rows = q_rows.wrapping_add(line_up(4 * plan.height * space) / 4);
        let o_rows = s_rows.wrapping_add(if form.offsets { line_up(4 * plan.height * s_space) / 4 } else { 0 });
        let (values, bytes) = (plan.weights.blck_size() as usize, plan.weights.type_size());
        let mut k0 = 0;
        while k0 < plan.k {
            let step = plan.step.min(plan.k - k0);
            for (p, (first, rows)) in self.panels().enumerate() {
                let (q, scales, offsets) = panel(p);
                // SAFETY: rows of the piece are readable, `k0 + step` is at most `k` and a multiple of the block; the buffers have `height` rows
                // of `space` and `s_space` words.
                unsafe {
                    for r in 0..plan.height {
                        let (q, s, o) = (q_rows.add(r * space), s_rows.add(r * s_space), o_rows.add(r * s_space));
                        if r < rows {
                            let from = self.row(first + r).wrapping_add(k0 / values * bytes);
                            (unpacker.row)(from, step, q.cast(), s, o);
                        } else {
                            q.cast::<u8>().write_bytes(0, step);
                            s.write_bytes(0, step / form.group);
                            if form.offsets {
                                o.write_bytes(0, step / form.group);
                            }
                        }
                    }
                    (tiles.turn)(step / 4, q_rows, space, q.cast());
                    (tiles.turn)(step / form.group, s_rows, s_space, scales);
                    if form.offsets {
                        (tiles.turn)(step / form.group, o_rows, s_space, offsets);
                    }
                }
            }
            self.for_tiles(columns, tiles.kernels[form.index()], |kernel, acts, dsts| {
                let acts = acts.map(|a| a.wrapping_add(k0 / 32 * form.act_bytes()));
                for (p, (first, rows)) in self.panels().enumerate() {
                    let dsts = dsts.map(|d| d.wrapping_add(first));
                    let (q, scales, offsets) = panel(p);
                    let panel = tile::BytePanel { q, scales, offsets };
                    // SAFETY: the panel was made above; columns and results are the caller's promise.
                    unsafe { kernel(step, panel, acts.as_ptr(), dsts.as_ptr(), rows, k0 > 0) };
                }
            });
            k0 += step;
        }
    }
}
