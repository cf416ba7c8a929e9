//! Transposed convolutions, as products of matrices. What an element of the image adds to the result is a product with
//! the kernel, for all elements of the kernel at once; it is added to the result at the kernel's position.
//!
//! Each product is added up over the channels in chains, and they are added in the order of the image, so the bits of a
//! result do not depend on the partition of the work.
#![forbid(unsafe_code)]

use super::super::super::access::{Dest, Reader, RowIndex, Source, Writer};
use super::super::super::checked::CheckedNode;
use super::super::super::ensure::{ensure, src};
use super::super::{check_type, is_float};
use super::{check_kernel, load_rows};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::Worker;
use crate::cpu::batch::{self, Matrix, Results};
use crate::error::Result;
use crate::tensor::TensorRef;
use std::ops::Range;

/// Elements of the kernel, of several channels of the result, that are computed at once.
const TAPS: usize = 256;
/// Elements of the image that are computed at once.
const PLACES: usize = 48;
/// Maximum number of results that a thread holds.
const HELD: usize = 1 << 20;

/// Shapes of a transposed convolution.
struct Transposed {
    /// Width and height of the kernel.
    kernel: [usize; 2],
    /// Channels of the image.
    channels: usize,
    /// Width and height of the image.
    image: [usize; 2],
    /// Width and height of the result.
    result: [usize; 2],
    /// Channels of the result.
    results: usize,
    /// Images.
    batches: usize,
    /// Elements from one place of the kernel to the next, in both dimensions.
    stride: usize,
    /// Whether the image and the result are lines, without a dimension for the height.
    flat: bool,
}

/// The kernel for some channels of the result: a row for each channel of the image. Rows of the kernel have the order
/// width, height, results, channels.
fn load_kernel(k: &Source<'_>, t: &Transposed, results: Range<usize>, out: &mut [f32]) {
    let [kw, kh] = t.kernel;
    let taps = results.len() * kw * kh;
    for (channel, to) in out.chunks_exact_mut(taps).enumerate().take(t.channels) {
        load_rows(k, (channel * t.results + results.start) * kh, to);
    }
}

impl Transposed {
    /// Row `y` of a channel of the image or of the result.
    fn row(&self, y: usize, channel: usize, batch: usize) -> RowIndex {
        if self.flat { [channel, 0, 0] } else { [y, channel, batch] }
    }

    /// Computes the node.
    fn compute(&self, w: &Worker<'_>, k: Source<'_>, x: &mut Reader<'_>, d: Dest<'_>) {
        let mut out = Writer::new(d);
        let ([kw, kh], [width, height], channels) = (self.kernel, self.result, self.channels);
        let (plane, area) = (width * height, kw * kh);
        // At least a piece for each thread, if possible.
        let most = (self.results * self.batches).div_ceil(w.nth()).min(HELD / plane.max(1));
        let step = (TAPS / area.max(1)).min(most).clamp(1, self.results);
        let mut kernel = vec![0f32; channels * step * area];
        // Those of each element of a row of the image.
        let mut elements = vec![0f32; channels * self.image[0]];
        let mut products = vec![0f32; PLACES * step * area];
        let mut planes = vec![0f32; step * plane];
        // The row of the image and the image whose elements these are.
        let mut of = None;
        let pieces = self.results.div_ceil(step);
        let mut next = w.next_chunk();
        while next < pieces * self.batches {
            let (piece, batch) = (next % pieces, next / pieces);
            let results = piece * step..self.results.min((piece + 1) * step);
            let taps = results.len() * area;
            let planes = &mut planes[..results.len() * plane];
            planes.fill(0.0);
            if channels * taps > 0 {
                load_kernel(&k, self, results.clone(), &mut kernel);
                for iy in 0..self.image[1] {
                    if of != Some((iy, batch)) {
                        of = Some((iy, batch));
                        for channel in 0..channels {
                            let x = x.row(self.row(iy, channel, batch));
                            elements.chunks_exact_mut(channels).zip(x).for_each(|(to, x)| to[channel] = *x);
                        }
                    }
                    for first in (0..self.image[0]).step_by(PLACES) {
                        let n = PLACES.min(self.image[0] - first);
                        let products = &mut products[..n * taps];
                        multiply(&kernel, &elements[first * channels..], channels, taps, products);
                        for (i, products) in products.chunks_exact(taps).enumerate() {
                            self.add(planes, products, [first + i, iy]);
                        }
                    }
                }
            }
            for (result, plane) in results.zip(planes.chunks_exact(plane)) {
                for (oy, line) in plane.chunks_exact(width).enumerate() {
                    out.row(self.row(oy, result, batch), |y| y.copy_from_slice(line));
                }
            }
            next = w.next_chunk();
        }
    }

    /// Adds what the element `[ix, iy]` of the image contributes to some channels of the result.
    fn add(&self, planes: &mut [f32], products: &[f32], [ix, iy]: [usize; 2]) {
        let ([kw, kh], [width, height]) = (self.kernel, self.result);
        let (ox, oy) = (ix * self.stride, iy * self.stride);
        let (columns, rows) = (kw.min(width.saturating_sub(ox)), kh.min(height.saturating_sub(oy)));
        if columns == 0 {
            return;
        }
        for (plane, products) in planes.chunks_exact_mut(width * height).zip(products.chunks_exact(kw * kh)) {
            for (ky, products) in products.chunks_exact(kw).enumerate().take(rows) {
                let y = &mut plane[(oy + ky) * width + ox..][..columns];
                y.iter_mut().zip(products).for_each(|(y, p)| *y += p);
            }
        }
    }
}

/// Channels in a chain of additions: there are few, and their products are added to others.
const CHAIN: usize = 16;

/// `products[i] = sum over c of elements[i][c] * kernel[c]`, for rows of `taps` results.
fn multiply(kernel: &[f32], elements: &[f32], channels: usize, taps: usize, products: &mut [f32]) {
    let which: [usize; PLACES] = std::array::from_fn(|i| i);
    let which = &which[..products.len() / taps];
    products.fill(0.0);
    let (kernel, elements) = (Matrix { data: kernel, stride: taps }, Matrix { data: elements, stride: channels });
    batch::add_product(kernel, [channels, taps], elements, which, Results { data: products, stride: taps }, CHAIN);
}

/// 1D transposed convolution. Sources: kernel `[w, results, channels]`, lines `[n, channels]`. Parameter 0: stride.
pub fn conv_transpose_1d(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let k = node.source(0);
    let mut x = Reader::new(node.source(1), &d);
    let t = Transposed {
        kernel: [k.ne[0], 1],
        channels: x.ne[1],
        image: [x.ne[0], 1],
        result: [d.ne[0], 1],
        results: d.ne[1],
        batches: 1,
        stride: node.op_param_i32(0) as usize,
        flat: true,
    };
    t.compute(w, k, &mut x, d);
}

/// Requires fitting types and shapes.
pub fn check_conv_transpose_1d(node: TensorRef) -> Result<()> {
    let (k, x) = (src(node, 0)?, src(node, 1)?);
    ensure!(is_float(k.dtype()), "a kernel of {:?}", k.dtype());
    check_type(x, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    let (k, x, n) = (k.ne(), x.ne(), node.ne());
    ensure!(node.op_param_i32(0) > 0, "stride {}", node.op_param_i32(0));
    ensure!(k[3] == 1 && x[2] == 1 && x[3] == 1 && k[2] == x[1] && n[1] == k[1], "{k:?} over {x:?} into {n:?}");
    ensure!(n[2] == 1 && n[3] == 1, "{n:?}");
    Ok(())
}

/// 2D transposed convolution. Sources: kernel `[w, h, results, channels]`, image `[w, h, channels, batch]`. Parameter
/// 0: stride.
pub fn conv_transpose_2d(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let k = node.source(0);
    let mut x = Reader::new(node.source(1), &d);
    let t = Transposed {
        kernel: [k.ne[0], k.ne[1]],
        channels: x.ne[2],
        image: [x.ne[0], x.ne[1]],
        result: [d.ne[0], d.ne[1]],
        results: d.ne[2],
        batches: d.ne[3],
        stride: node.op_param_i32(0) as usize,
        flat: false,
    };
    t.compute(w, k, &mut x, d);
}

/// Requires fitting types and shapes.
pub fn check_conv_transpose_2d(node: TensorRef) -> Result<()> {
    check_kernel(node)?;
    let (k, x, n) = (src(node, 0)?.ne(), src(node, 1)?.ne(), node.ne());
    ensure!(node.op_param_i32(0) > 0, "stride {}", node.op_param_i32(0));
    ensure!(k[3] == x[2] && n[2] == k[2] && n[3] == x[3], "{k:?} over {x:?} into {n:?}");
    Ok(())
}
