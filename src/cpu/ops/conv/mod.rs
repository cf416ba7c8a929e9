//! Convolutions. Files: `direct` (convolutions of planes and volumes), `transposed` (transposed ones), `columns`
//! (im2col and the reverse). Here: depthwise convolutions, in which a row of the result is a sum of rows of the image,
//! each shifted by its position in the kernel and multiplied by the weight there.
#![forbid(unsafe_code)]

mod columns;
mod direct;
mod transposed;

pub(super) use columns::inside;
pub use columns::{
    check_col2im_1d, check_im2col, check_im2col_3d, check_im2col_back, col2im_1d, im2col, im2col_3d, im2col_back,
};
pub use direct::{check_conv_2d, check_conv_3d, conv_2d, conv_3d};
pub use transposed::{check_conv_transpose_1d, check_conv_transpose_2d, conv_transpose_1d, conv_transpose_2d};

use super::super::access::{Dest, Reader, RowIndex, Source, Writer, rows};
use super::super::checked::CheckedNode;
use super::super::ensure::{ensure, src};
use super::check_type;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::quant::convert::f16_to_f32;
use crate::tensor::TensorRef;
use crate::tensor::ops::conv::Window;
use std::ops::Range;

/// Stride, padding and dilation of a kernel along one dimension.
#[derive(Clone, Copy)]
pub(in crate::cpu::ops) struct Axis {
    pub stride: i64,
    pub pad: i64,
    pub dilation: i64,
}

impl Axis {
    /// Index of the image under element `k` of the kernel for element `out` of the result, or `None` if it is outside.
    pub(super) fn image(&self, out: usize, k: usize, n: usize) -> Option<usize> {
        let at = out as i64 * self.stride + k as i64 * self.dilation - self.pad;
        usize::try_from(at).ok().filter(|&at| at < n)
    }

    /// Index of the result for which element `k` of the kernel is over element `image`, or `None` if there is none.
    fn result(&self, image: usize, k: usize, n: usize) -> Option<usize> {
        let at = image as i64 + self.pad - k as i64 * self.dilation;
        (at >= 0 && at % self.stride == 0).then(|| (at / self.stride) as usize).filter(|&out| out < n)
    }

    /// Those of `n` results from number `first` on whose element of the image, a row of `len` elements, under element
    /// `k` of the kernel is not outside, and the index of the first of these elements.
    pub(in crate::cpu::ops) fn inside(&self, first: usize, n: usize, k: usize, len: usize) -> (Range<usize>, usize) {
        let shift = first as i64 * self.stride + k as i64 * self.dilation - self.pad;
        // The results before the one that is over element `at` or after it.
        let before = |at: i64| match self.stride {
            1 => (at - shift).clamp(0, n as i64),
            stride => ((at - shift + stride - 1).max(0) / stride).min(n as i64),
        };
        let (start, end) = (before(0), before(len as i64));
        (start as usize..end as usize, (start * self.stride + shift).max(0) as usize)
    }

    /// The elements of a row of the image under element `k` of the kernel, for results from number `first` on; zeros
    /// for those outside.
    fn image_row(&self, first: usize, k: usize, x: &[f32], y: &mut [f32]) {
        let (range, from) = self.inside(first, y.len(), k, x.len());
        y[..range.start].fill(0.0);
        y[range.end..].fill(0.0);
        let y = &mut y[range];
        match (y.len(), self.stride) {
            (0, _) => {}
            (n, 1) => y.copy_from_slice(&x[from..][..n]),
            (_, stride) => y.iter_mut().zip(x[from..].iter().step_by(stride as usize)).for_each(|(y, x)| *y = *x),
        }
    }

    /// y += weight * x, where x is under element `k` of the kernel.
    fn add(&self, y: &mut [f32], x: &[f32], k: usize, weight: f32) {
        let (range, from) = self.inside(0, y.len(), k, x.len());
        let y = &mut y[range];
        match (y.len(), self.stride) {
            (0, _) => {}
            (n, 1) => vec::axpy(y, weight, &x[from..][..n]),
            (_, stride) => {
                y.iter_mut().zip(x[from..].iter().step_by(stride as usize)).for_each(|(y, x)| *y += weight * x)
            }
        }
    }
}

fn sensible(axes: &[Axis]) -> Result<()> {
    let all = |f: &dyn Fn(&Axis) -> bool| axes.iter().all(f);
    ensure!(all(&|a| a.stride > 0 && a.dilation > 0), "a stride or dilation that is not positive");
    Ok(())
}

/// The axes of a node, see [`Window::of_node`].
pub(super) fn axes<const N: usize>(node: TensorRef) -> [Axis; N] {
    let w = Window::<N>::of_node(node);
    let axis = |i: usize| Axis { stride: i64::from(w.stride[i]), pad: w.pad[i].into(), dilation: w.dilation[i].into() };
    std::array::from_fn(axis)
}

/// A weight of a kernel in single or half precision.
fn weight(k: &Source<'_>, i0: usize, row: RowIndex) -> f32 {
    if k.dtype == GGML_TYPE_F16 { f16_to_f32(k.get(i0, row)) } else { k.get(i0, row) }
}

/// Loads rows of a kernel, from row number `first` on, as many as fit into `to`.
fn load_rows(k: &Source<'_>, first: usize, to: &mut [f32]) {
    let width = k.ne[0];
    if k.is_dense() {
        return k.flat().load([0; 3], first * width, to);
    }
    for (i, to) in to.chunks_exact_mut(width).enumerate() {
        k.load(k.row_index(first + i), 0, to);
    }
}

fn check_kernel(node: TensorRef) -> Result<()> {
    let (k, x) = (src(node, 0)?, src(node, 1)?);
    ensure!(matches!(k.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "a kernel of {:?}", k.dtype());
    check_type(x, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)
}

/// Depthwise convolution: each channel has its own kernel. Sources: kernel `[w, h, 1, channels]`, image
/// `[w, h, channels, batch]`. For an image with the channels innermost, the strides of the kernel have the same order.
pub fn conv_2d_dw(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let k = node.source(0);
    let mut x = Reader::new(node.source(1), &d);
    let [ax, ay] = axes(*node);
    let mut out = Writer::new(d);
    for row @ [oy, channel, batch] in w.until_stopped(rows(w, &out)) {
        out.row(row, |y| {
            y.fill(0.0);
            for ky in w.until_stopped(0..k.ne[1]) {
                let Some(iy) = ay.image(oy, ky, x.ne[1]) else { continue };
                let x = x.row([iy, channel, batch]);
                (0..k.ne[0]).for_each(|kx| ax.add(y, x, kx, weight(&k, kx, [ky, 0, channel])));
            }
        });
    }
}

/// Requires fitting types and shapes.
pub fn check_conv_2d_dw(node: TensorRef) -> Result<()> {
    check_kernel(node)?;
    sensible(&axes::<2>(node))?;
    let (k, x, n) = (src(node, 0)?.ne(), src(node, 1)?.ne(), node.ne());
    ensure!(k[2] == 1 && k[3] == x[2] && n[2..] == x[2..], "{k:?} over {x:?} into {n:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type;
    use crate::cpu::tests::*;
    use crate::tensor::ops::conv::{self, Window};
    use crate::tensor::ops::{copy, view};

    pub(super) const WINDOWS: [Window<2>; 3] = [
        Window { stride: [1, 1], pad: [1, 1], dilation: [1, 1] },
        Window { stride: [2, 3], pad: [0, 2], dilation: [1, 2] },
        Window { stride: [1, 2], pad: [5, 1], dilation: [3, 1] },
    ];

    /// Index of the image along dimension `i`.
    pub(super) fn from<const N: usize>(window: &Window<N>, i: usize, out: i64, k: i64) -> i64 {
        out * i64::from(window.stride[i]) + k * i64::from(window.dilation[i]) - i64::from(window.pad[i])
    }

    #[test]
    fn planes_of_odd_sizes() {
        for (dtype, tolerance) in [(GGML_TYPE_F32, 1e-5), (GGML_TYPE_F16, 4e-3)] {
            for window in &WINDOWS {
                let mut c = ctx();
                let (nk, nx) = ([3, 2, 25, 27], [23, 19, 25, 2]);
                let (k, x) = (tensor(&mut c, dtype, &nk, 1), floats(&mut c, &nx, 2));
                let t = conv::conv_2d_direct(&mut c, k, x, window).unwrap();
                let (kv, xv, got) = (read(k), read(x), compute(t));
                let want = indices(t.ne()).map(|[ox, oy, oc, n]| {
                    indices([nk[0], nk[1], nk[2], 1])
                        .map(|[kx, ky, ic, _]| {
                            let place = [from(window, 0, ox, kx), from(window, 1, oy, ky), ic, n];
                            at(&kv, nk, [kx, ky, ic, oc]) * at(&xv, nx, place)
                        })
                        .sum()
                });
                near(&got, want, tolerance);
            }
        }
    }

    #[test]
    fn volumes_and_their_columns() {
        let window = Window { stride: [2, 1, 1], pad: [1, 0, 1], dilation: [1, 2, 1] };
        for dtype in [GGML_TYPE_F32, GGML_TYPE_F16] {
            let mut c = ctx();
            let (channels, batches, outputs) = (2, 3, 5);
            let (nk, nx) = ([3, 2, 2, channels * outputs], [7, 6, 5, channels * batches]);
            let (k, x) = (tensor(&mut c, dtype, &nk, 1), floats(&mut c, &nx, 2));
            let t = conv::conv_3d_direct(&mut c, k, x, &window, [2, 3, 5]).unwrap();
            let (kv, xv, got) = (read(k), read(x), compute(t));
            let ne = t.ne();
            let image = |o: [i64; 3], k: [i64; 3], i3: i64| {
                let [x, y, z] = [0, 1, 2].map(|i| from(&window, i, o[i], k[i]));
                at(&xv, nx, [x, y, z, i3])
            };
            let want = indices(ne).map(|[ox, oy, oz, i3]| {
                let (n, oc) = (i3 / outputs, i3 % outputs);
                indices([nk[0], nk[1], nk[2], channels])
                    .map(|[kx, ky, kz, ic]| {
                        at(&kv, nk, [kx, ky, kz, oc * channels + ic])
                            * image([ox, oy, oz], [kx, ky, kz], n * channels + ic)
                    })
                    .sum()
            });
            near(&got, want, if dtype == GGML_TYPE_F32 { 1e-5 } else { 4e-3 });

            let t = conv::im2col_3d(&mut c, k, x, channels, &window, dtype).unwrap();
            let got = compute(t);
            let want = indices(t.ne()).map(|[i, ox, oy, i3]| {
                let place = [i % nk[0], i / nk[0] % nk[1], i / (nk[0] * nk[1]) % nk[2]];
                image([ox, oy, i3 % ne[2]], place, i3 / ne[2] * channels + i / 12)
            });
            near(&got, want, if dtype == GGML_TYPE_F32 { 0.0 } else { 5e-4 });
        }
    }

    fn depthwise(dtype: ggml_type, innermost: bool, window: &Window<2>) {
        let mut c = ctx();
        let (nk, nx) = ([3, 2, 1, 19], [13, 9, 19, 2]);
        let (mut k, mut x) = (tensor(&mut c, dtype, &nk, 1), floats(&mut c, &nx, 2));
        let (kv, xv) = (read(k), read(x));
        if innermost {
            let mut moved = |t, to, back| {
                let t = view::permute(&mut c, t, to).unwrap();
                let t = copy::cont(&mut c, t).unwrap();
                view::permute(&mut c, t, back).unwrap()
            };
            x = moved(x, [1, 2, 0, 3], [2, 0, 1, 3]);
            k = moved(k, [2, 3, 1, 0], [3, 2, 0, 1]);
            assert_eq!((x.ne(), k.ne()), (nx, nk));
        }
        let t = conv::conv_2d_dw_direct(&mut c, k, x, window).unwrap();
        assert_eq!(t.nb()[2] == 4, innermost);
        let got = compute(t);
        let want = indices(t.ne()).map(|[ox, oy, ch, n]| {
            indices([nk[0], nk[1], 1, 1])
                .map(|[kx, ky, _, _]| {
                    let place = [from(window, 0, ox, kx), from(window, 1, oy, ky), ch, n];
                    at(&kv, nk, [kx, ky, 0, ch]) * at(&xv, nx, place)
                })
                .sum()
        });
        near(&got, want, 1e-6);
    }

    #[test]
    fn each_channel_by_its_own_kernel() {
        for window in &WINDOWS {
            for dtype in [GGML_TYPE_F32, GGML_TYPE_F16] {
                depthwise(dtype, false, window);
                depthwise(dtype, true, window);
            }
        }
    }

    /// A kernel that is wider than the rows of patches that are added at once, and one that is not dense.
    #[test]
    fn wide_kernels_and_strided_ones() {
        let window = Window { stride: [2, 1], pad: [40, 0], dilation: [1, 1] };
        for (dtype, tolerance) in [(GGML_TYPE_F32, 1e-5), (GGML_TYPE_F16, 4e-3)] {
            for dense in [true, false] {
                let mut c = ctx();
                let (nk, nx) = ([75, 2, 3, 5], [150, 4, 3, 1]);
                let x = floats(&mut c, &nx, 2);
                let k = if dense {
                    tensor(&mut c, dtype, &nk, 1)
                } else {
                    let k = tensor(&mut c, dtype, &[2, 75, 3, 5], 1);
                    view::permute(&mut c, k, [1, 0, 2, 3]).unwrap()
                };
                let t = conv::conv_2d_direct(&mut c, k, x, &window).unwrap();
                let (kv, xv, got) = (read(k), read(x), compute(t));
                let want = indices(t.ne()).map(|[ox, oy, oc, n]| {
                    indices([nk[0], nk[1], nk[2], 1])
                        .map(|[kx, ky, ic, _]| {
                            let place = [from(&window, 0, ox, kx), from(&window, 1, oy, ky), ic, n];
                            at(&kv, nk, [kx, ky, ic, oc]) * at(&xv, nx, place)
                        })
                        .sum()
                });
                near(&got, want, tolerance);
            }
        }
    }

    /// Transposed convolutions with dense kernels, or with those whose first two dimensions are swapped in memory.
    fn transposed(dtype: ggml_type, tolerance: f64, stride: i32, dense: bool) {
        let mut c = ctx();
        let kernel = |c: &mut _, [n0, n1, n2, n3]: [i64; 4], seed| match dense {
            true => tensor(c, dtype, &[n0, n1, n2, n3], seed),
            false => {
                let k = tensor(c, dtype, &[n1, n0, n2, n3], seed);
                view::permute(c, k, [1, 0, 2, 3]).unwrap()
            }
        };
        let (nk, nx) = ([4, 9, 70, 1], [61, 70, 1, 1]);
        let (k, x) = (kernel(&mut c, nk, 1), floats(&mut c, &nx, 2));
        let t = conv::conv_transpose_1d(&mut c, k, x, stride, 0, 1).unwrap();
        let (kv, xv, got) = (read(k), read(x), compute(t));
        let want = indices(t.ne()).map(|[o, oc, ..]| {
            indices([nk[0], nx[0], nk[2], 1])
                .filter(|[k, i, ..]| i * i64::from(stride) + k == o)
                .map(|[k, i, ic, _]| at(&kv, nk, [k, oc, ic, 0]) * at(&xv, nx, [i, ic, 0, 0]))
                .sum()
        });
        near(&got, want, tolerance);

        let (nk, nx) = ([3, 2, 4, 5], [7, 6, 5, 2]);
        let (k, x) = (kernel(&mut c, nk, 3), floats(&mut c, &nx, 4));
        let t = conv::conv_transpose_2d_p0(&mut c, k, x, stride).unwrap();
        let (kv, xv, got) = (read(k), read(x), compute(t));
        let origin = |o: i64, k: i64| {
            let s = i64::from(stride);
            if o >= k && (o - k) % s == 0 { (o - k) / s } else { -1 }
        };
        let want = indices(t.ne()).map(|[ox, oy, oc, n]| {
            indices([nk[0], nk[1], nk[3], 1])
                .map(|[kx, ky, ic, _]| {
                    at(&kv, nk, [kx, ky, oc, ic]) * at(&xv, nx, [origin(ox, kx), origin(oy, ky), ic, n])
                })
                .sum()
        });
        near(&got, want, tolerance);
    }

    #[test]
    fn transposed_convolutions_of_lines_and_planes() {
        for (dtype, tolerance) in [(GGML_TYPE_F32, 1e-5), (GGML_TYPE_F16, 4e-3)] {
            for stride in [1, 2, 3, 5] {
                transposed(dtype, tolerance, stride, true);
                transposed(dtype, tolerance, stride, false);
            }
        }
    }

    #[test]
    fn words_that_make_no_sense_are_refused() {
        let mut c = ctx();
        let (k, x) = (floats(&mut c, &[3, 3, 2, 4], 1), floats(&mut c, &[8, 8, 2, 1], 2));
        let t = conv::conv_2d_direct(&mut c, k, x, &WINDOWS[0]).unwrap();
        assert!(check_conv_2d(t).is_ok());
        for (word, value) in [(0, 0), (1, -1), (4, 0), (5, -3)] {
            let t = conv::conv_2d_direct(&mut c, k, x, &WINDOWS[0]).unwrap();
            t.set_op_param_i32(word, value);
            assert!(check_conv_2d(t).is_err(), "word {word} = {value}");
        }
        t.set_ne([8, 8, 5, 1]);
        assert!(check_conv_2d(t).is_err());
    }
}
