//! Direct convolutions, as products of matrices. The elements of the image that are under one element of the kernel,
//! for many places of the kernel, are a row of a matrix of patches. Each channel of the result is a sum of such rows
//! with weights.
//!
//! A result is added up in the order of the kernel's elements, in chains that begin at the same elements
//! ([`batch::add_product`]), so its bits do not depend on the partition of the work.
#![forbid(unsafe_code)]

use super::super::super::access::{Dest, Reader, RowIndex, Source, Writer, rows};
use super::super::super::checked::CheckedNode;
use super::super::super::ensure::{ensure, src};
use super::{Axis, axes, check_kernel, load_rows, sensible};
use crate::cpu::Worker;
use crate::cpu::batch::{self, MAX_CHAIN, MAX_ROWS, Matrix, Results};
use crate::error::Result;
use crate::tensor::TensorRef;
use std::ops::Range;

/// Places of the kernel in a piece of work: as many rows of patches as are added at once fit into the L1 cache.
const PLACES: usize = 128;
/// Maximum number of channels of the result in a piece of work.
const CHANNELS: usize = 512;

/// A part of a row of the result, and where its places begin in the piece.
struct Segment {
    row: usize,
    columns: Range<usize>,
    at: usize,
}

/// The places of a piece as parts of rows of `width` results.
fn segments(places: Range<usize>, width: usize) -> Vec<Segment> {
    let rows = places.start / width..places.end.div_ceil(width);
    let part = |row: usize| {
        let first = places.start.max(row * width);
        let end = places.end.min((row + 1) * width);
        Segment { row, columns: first - row * width..end - row * width, at: first - places.start }
    };
    rows.map(part).collect()
}

/// Shapes of a convolution of planes or volumes.
struct Convolution {
    /// The dimension along rows.
    along: Axis,
    /// Rows of the kernel for one channel of the result.
    lines: usize,
    /// Channels of the result.
    channels: usize,
    /// Rows of one channel of the result.
    rows: usize,
}

/// The weights of some channels of the result for some rows of the kernel: a row of `taps` weights for each channel.
fn load_weights(k: &Source<'_>, lines_of_all: usize, channels: Range<usize>, lines: Range<usize>, out: &mut [f32]) {
    for (channel, to) in channels.zip(out.chunks_exact_mut(lines.len() * k.ne[0])) {
        load_rows(k, channel * lines_of_all + lines.start, to);
    }
}

impl Convolution {
    /// Computes the node. `under(line, row, batch)` is the row of the image under row `line` of the kernel for a row of
    /// the result, or `None` if it is outside.
    fn compute(
        &self,
        w: &Worker<'_>,
        k: Source<'_>,
        x: &mut Reader<'_>,
        d: Dest<'_>,
        under: impl Fn(usize, usize, usize) -> Option<RowIndex>,
    ) {
        let mut out = Writer::new(d);
        let (width, kw) = (out.ne[0], k.ne[0]);
        if kw * self.lines == 0 {
            return rows(w, &out).for_each(|row| out.row(row, |y| y.fill(0.0)));
        }
        let batches = out.nrows() / (self.rows * self.channels);
        let blocks = (self.rows * width).div_ceil(PLACES);
        // Several pieces for each thread.
        let parts = (4 * w.nth()).div_ceil(batches * blocks);
        let step = self.channels.div_ceil(parts).next_multiple_of(12).min(CHANNELS).min(self.channels);
        let group = (MAX_ROWS / kw).clamp(1, self.lines);
        let taps = group * kw;
        let mut patches = vec![0f32; taps * PLACES];
        let mut weights = vec![0f32; step * taps];
        let mut sums = vec![0f32; step * PLACES];
        let which: Vec<usize> = (0..step).collect();

        let pieces = self.channels.div_ceil(step);
        let mut next = w.next_chunk();
        while next < batches * blocks * pieces {
            let (piece, block, batch) = (next % pieces, next / pieces % blocks, next / pieces / blocks);
            let channels = piece * step..self.channels.min((piece + 1) * step);
            let places = block * PLACES..(self.rows * width).min((block + 1) * PLACES);
            let n = places.len();
            let segments = segments(places, width);
            sums.fill(0.0);
            for first in (0..self.lines).step_by(group) {
                let lines = first..self.lines.min(first + group);
                let taps = lines.len() * kw;
                for (line, patches) in lines.clone().zip(patches.chunks_exact_mut(kw * PLACES)) {
                    for s in &segments {
                        let row = under(line, s.row, batch).map(|row| x.row(row));
                        for (kx, patch) in patches.chunks_exact_mut(PLACES).enumerate() {
                            let patch = &mut patch[s.at..][..s.columns.len()];
                            match row {
                                Some(row) => self.along.image_row(s.columns.start, kx, row, patch),
                                None => patch.fill(0.0),
                            }
                        }
                    }
                }
                load_weights(&k, self.lines, channels.clone(), lines, &mut weights);
                let (patches, weights) =
                    (Matrix { data: &patches, stride: PLACES }, Matrix { data: &weights, stride: taps });
                let out = Results { data: &mut sums, stride: PLACES };
                batch::add_product(patches, [taps, n], weights, &which[..channels.len()], out, MAX_CHAIN);
            }
            for (channel, sums) in channels.zip(sums.chunks_exact(PLACES)) {
                for s in &segments {
                    let row = out.row_index((batch * self.channels + channel) * self.rows + s.row);
                    let n = s.columns.len();
                    out.part(row, s.columns.clone(), |y| y.copy_from_slice(&sums[s.at..][..n]));
                }
            }
            next = w.next_chunk();
        }
    }
}

/// 2D convolution. Sources: kernel `[w, h, channels, results]`, image `[w, h, channels, batch]`.
pub fn conv_2d(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let k = node.source(0);
    let mut x = Reader::new(node.source(1), &d);
    let [ax, ay] = axes(*node);
    let [nx, kh] = [x.ne[1], k.ne[1]];
    let conv = Convolution { along: ax, lines: kh * k.ne[2], channels: d.ne[2], rows: d.ne[1] };
    conv.compute(w, k, &mut x, d, |line, oy, batch| Some([ay.image(oy, line % kh, nx)?, line / kh, batch]));
}

/// Requires fitting types and shapes.
pub fn check_conv_2d(node: TensorRef) -> Result<()> {
    check_kernel(node)?;
    sensible(&axes::<2>(node))?;
    let (k, x, n) = (src(node, 0)?.ne(), src(node, 1)?.ne(), node.ne());
    ensure!(k[2] == x[2] && n[2] == k[3] && n[3] == x[3], "{k:?} over {x:?} into {n:?}");
    Ok(())
}

/// 3D convolution. Sources: kernel `[w, h, d, channels * results]`, image `[w, h, d, channels * batch]`. Parameters 9
/// to 11: channels, batch, results.
pub fn conv_3d(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let k = node.source(0);
    let mut x = Reader::new(node.source(1), &d);
    let [ax, ay, az] = axes(*node);
    let (channels, results) = (node.op_param_i32(9) as usize, node.op_param_i32(11) as usize);
    let ([ny, nz], [kh, kd], height) = ([x.ne[1], x.ne[2]], [k.ne[1], k.ne[2]], d.ne[1]);
    let conv = Convolution { along: ax, lines: kh * kd * channels, channels: results, rows: height * d.ne[2] };
    conv.compute(w, k, &mut x, d, |line, row, batch| {
        let (iy, iz) = (ay.image(row % height, line % kh, ny)?, az.image(row / height, line / kh % kd, nz)?);
        Some([iy, iz, batch * channels + line / (kh * kd)])
    });
}

/// Requires fitting types and shapes.
pub fn check_conv_3d(node: TensorRef) -> Result<()> {
    check_kernel(node)?;
    sensible(&axes::<3>(node))?;
    let p = |i| i64::from(node.op_param_i32(i));
    let (k, x, n) = (src(node, 0)?.ne(), src(node, 1)?.ne(), node.ne());
    ensure!(p(9) > 0 && p(10) > 0 && p(11) > 0, "channels {}, batch {}, results {}", p(9), p(10), p(11));
    ensure!(k[3] == p(9) * p(11) && x[3] == p(9) * p(10) && n[3] == p(10) * p(11), "{k:?} over {x:?} into {n:?}");
    Ok(())
}
