//! Direct convolutions, transposed convolutions, and im2col. A row of the result is a sum of rows of the image, each shifted by its
//! position in the kernel and multiplied by the weight there.
#![forbid(unsafe_code)]

mod columns;

pub(super) use columns::inside;
pub use columns::{
    check_col2im_1d, check_im2col, check_im2col_3d, check_im2col_back, col2im_1d, im2col, im2col_3d, im2col_back,
};

use super::super::access::{Dest, Reader, RowIndex, Source, Writer, rows};
use super::super::check::{CheckedNode, ensure, src};
use super::super::convert;
use super::check_type;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::conv::Window;

/// Stride, padding and dilation of a kernel along one dimension.
#[derive(Clone, Copy)]
pub(super) struct Axis {
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

    /// y += weight * x, where x is under element `k` of the kernel.
    fn add(&self, y: &mut [f32], x: &[f32], k: usize, weight: f32) {
        let shift = k as i64 * self.dilation - self.pad;
        if self.stride == 1 {
            let first = (-shift).max(0) as usize;
            let end = (x.len() as i64 - shift).clamp(0, y.len() as i64) as usize;
            if first < end {
                let from = (first as i64 + shift) as usize;
                vec::axpy(&mut y[first..end], weight, &x[from..from + end - first]);
            }
            return;
        }
        for (i, y) in y.iter_mut().enumerate() {
            if let Some(x) = self.image(i, k, x.len()).map(|at| x[at]) {
                *y += weight * x;
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
    if k.dtype == GGML_TYPE_F16 { convert::f16(k.get(i0, row)) } else { k.get(i0, row) }
}

fn check_kernel(node: TensorRef) -> Result<()> {
    let (k, x) = (src(node, 0)?, src(node, 1)?);
    ensure!(matches!(k.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "a kernel of {:?}", k.dtype());
    check_type(x, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)
}

/// 2D convolution. Sources: kernel `[w, h, channels, results]`, image `[w, h, channels, batch]`.
pub fn conv_2d(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let k = node.source(0);
    let mut x = Reader::new(node.source(1), &d);
    let [ax, ay] = axes(*node);
    let mut out = Writer::new(d);
    for row @ [oy, result, batch] in rows(w, &out) {
        out.row(row, |y| {
            y.fill(0.0);
            for channel in 0..k.ne[2] {
                for ky in 0..k.ne[1] {
                    let Some(iy) = ay.image(oy, ky, x.ne[1]) else { continue };
                    let x = x.row([iy, channel, batch]);
                    (0..k.ne[0]).for_each(|kx| ax.add(y, x, kx, weight(&k, kx, [ky, channel, result])));
                }
            }
        });
    }
}

/// Requires fitting types and shapes.
pub fn check_conv_2d(node: TensorRef) -> Result<()> {
    check_kernel(node)?;
    sensible(&axes::<2>(node))?;
    let (k, x, n) = (src(node, 0)?.ne(), src(node, 1)?.ne(), node.ne());
    ensure!(k[2] == x[2] && n[2] == k[3] && n[3] == x[3], "{k:?} over {x:?} into {n:?}");
    Ok(())
}

/// 3D convolution. Sources: kernel `[w, h, d, channels * results]`, image `[w, h, d, channels * batch]`. Parameters 9 to 11: channels,
/// batch, results.
pub fn conv_3d(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let k = node.source(0);
    let mut x = Reader::new(node.source(1), &d);
    let [ax, ay, az] = axes(*node);
    let (channels, results) = (node.op_param_i32(9) as usize, node.op_param_i32(11) as usize);
    let mut out = Writer::new(d);
    for row @ [oy, oz, at] in rows(w, &out) {
        let (batch, result) = (at / results, at % results);
        out.row(row, |y| {
            y.fill(0.0);
            for channel in 0..channels {
                for kz in 0..k.ne[2] {
                    let Some(iz) = az.image(oz, kz, x.ne[2]) else { continue };
                    for ky in 0..k.ne[1] {
                        let Some(iy) = ay.image(oy, ky, x.ne[1]) else { continue };
                        let x = x.row([iy, iz, batch * channels + channel]);
                        let at = [ky, kz, result * channels + channel];
                        (0..k.ne[0]).for_each(|kx| ax.add(y, x, kx, weight(&k, kx, at)));
                    }
                }
            }
        });
    }
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

/// Depthwise convolution: each channel has its own kernel. Sources: kernel `[w, h, 1, channels]`, image `[w, h, channels, batch]`. For
/// an image with the channels innermost, the strides of the kernel have the same order.
pub fn conv_2d_dw(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let k = node.source(0);
    let mut x = Reader::new(node.source(1), &d);
    let [ax, ay] = axes(*node);
    let mut out = Writer::new(d);
    for row @ [oy, channel, batch] in rows(w, &out) {
        out.row(row, |y| {
            y.fill(0.0);
            for ky in 0..k.ne[1] {
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

/// y[i * stride + k] += weight * x[i].
fn scatter(y: &mut [f32], x: &[f32], k: usize, stride: usize, weight: f32) {
    for (i, x) in x.iter().enumerate() {
        if let Some(y) = y.get_mut(i * stride + k) {
            *y += weight * x;
        }
    }
}

/// 1D transposed convolution. Sources: kernel `[w, results, channels]`, lines `[n, channels]`. Parameter 0: stride.
pub fn conv_transpose_1d(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let mut k = Reader::new(node.source(0), &d);
    let mut x = Reader::new(node.source(1), &d);
    let stride = node.op_param_i32(0) as usize;
    let mut out = Writer::new(d);
    for row @ [result, ..] in rows(w, &out) {
        out.row(row, |y| {
            y.fill(0.0);
            for channel in 0..x.ne[1] {
                let (k, x) = (k.row([result, channel, 0]), x.row([channel, 0, 0]));
                k.iter().enumerate().for_each(|(kx, &weight)| scatter(y, x, kx, stride, weight));
            }
        });
    }
}

/// Requires fitting types and shapes.
pub fn check_conv_transpose_1d(node: TensorRef) -> Result<()> {
    let (k, x) = (src(node, 0)?, src(node, 1)?);
    ensure!(super::is_float(k.dtype()), "a kernel of {:?}", k.dtype());
    check_type(x, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    let (k, x, n) = (k.ne(), x.ne(), node.ne());
    ensure!(node.op_param_i32(0) > 0, "stride {}", node.op_param_i32(0));
    ensure!(k[3] == 1 && x[2] == 1 && x[3] == 1 && k[2] == x[1] && n[1] == k[1], "{k:?} over {x:?} into {n:?}");
    ensure!(n[2] == 1 && n[3] == 1, "{n:?}");
    Ok(())
}

/// 2D transposed convolution. Sources: kernel `[w, h, results, channels]`, image `[w, h, channels, batch]`. Parameter 0: stride.
pub fn conv_transpose_2d(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let k = node.source(0);
    let mut x = Reader::new(node.source(1), &d);
    let stride = node.op_param_i32(0) as usize;
    let mut out = Writer::new(d);
    for row @ [oy, result, batch] in rows(w, &out) {
        out.row(row, |y| {
            y.fill(0.0);
            for ky in (0..k.ne[1]).filter(|&ky| ky <= oy && (oy - ky) % stride == 0) {
                let iy = (oy - ky) / stride;
                if iy >= x.ne[1] {
                    continue;
                }
                for channel in 0..x.ne[2] {
                    let x = x.row([iy, channel, batch]);
                    for kx in 0..k.ne[0] {
                        scatter(y, x, kx, stride, weight(&k, kx, [ky, result, channel]));
                    }
                }
            }
        });
    }
}

/// Requires fitting types and shapes.
pub fn check_conv_transpose_2d(node: TensorRef) -> Result<()> {
    check_kernel(node)?;
    let (k, x, n) = (src(node, 0)?.ne(), src(node, 1)?.ne(), node.ne());
    ensure!(node.op_param_i32(0) > 0, "stride {}", node.op_param_i32(0));
    ensure!(k[3] == x[2] && n[2] == k[2] && n[3] == x[3], "{k:?} over {x:?} into {n:?}");
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
                let (nk, nx) = ([3, 2, 5, 7], [13, 9, 5, 3]);
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

    #[test]
    fn transposed_convolutions_of_lines_and_planes() {
        for (dtype, tolerance) in [(GGML_TYPE_F32, 1e-5), (GGML_TYPE_F16, 4e-3)] {
            for stride in [1, 2, 3, 5] {
                let mut c = ctx();
                let (nk, nx) = ([4, 3, 6, 1], [11, 6, 1, 1]);
                let (k, x) = (tensor(&mut c, dtype, &nk, 1), floats(&mut c, &nx, 2));
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
                let (k, x) = (tensor(&mut c, dtype, &nk, 3), floats(&mut c, &nx, 4));
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
