//! Patches of images as columns of a matrix (im2col), and the reverse.
#![forbid(unsafe_code)]

use super::{Axis, axes, sensible};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::Worker;
use crate::cpu::access::{Dest, Layout, Reader, Writer, rows};
use crate::cpu::check::{CheckedNode, ensure, src};
use crate::cpu::ops::check_type;
use crate::error::Result;
use crate::tensor::TensorRef;

/// Index of an element of the image, or `None` if it is outside.
pub fn inside(out: usize, stride: i32, k: usize, dilation: i32, pad: i32, n: usize) -> Option<usize> {
    Axis { stride: stride.into(), pad: pad.into(), dilation: dilation.into() }.image(out, k, n)
}

/// Sizes of an `im2col` node: kernel, image and channels. A line is an image of height one.
struct Columns {
    kernel: [usize; 2],
    image: [usize; 2],
    channels: usize,
    flat: bool,
}

fn columns(node: TensorRef) -> Result<Columns> {
    let (k, x) = (Layout::of(src(node, 0)?).ne, Layout::of(src(node, 1)?).ne);
    Ok(match node.op_param_i32(6) == 1 {
        true => Columns { kernel: [k[0], k[1]], image: [x[0], x[1]], channels: x[2], flat: false },
        false => Columns { kernel: [k[0], 1], image: [x[0], 1], channels: x[1], flat: true },
    })
}

/// The part of the image under the kernel, as a row for each position of the kernel. Parameters: strides, padding, dilations
/// (each for both dimensions), whether there are two dimensions.
pub fn im2col(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let Ok(c) = columns(*node) else { return };
    let [ax, ay] = axes(*node);
    let mut image = Reader::new(node.source(1), &d);
    let mut out = Writer::new(d);
    let [kw, kh] = c.kernel;
    for row in rows(w, &out) {
        let (ox, oy, batch) = if c.flat { (row[0], 0, row[1]) } else { (row[0], row[1], row[2]) };
        out.row(row, |y| {
            for channel in 0..c.channels {
                for ky in 0..kh {
                    let y = &mut y[(channel * kh + ky) * kw..][..kw];
                    let Some(iy) = ay.image(oy, ky, c.image[1]) else {
                        y.fill(0.0);
                        continue;
                    };
                    let line = image.row(if c.flat { [channel, batch, 0] } else { [iy, channel, batch] });
                    for (kx, y) in y.iter_mut().enumerate() {
                        *y = ax.image(ox, kx, line.len()).map_or(0.0, |ix| line[ix]);
                    }
                }
            }
        });
    }
}

/// Requires an image and a result of single or half precision, and rows of as many elements as the kernel has.
pub fn check_im2col(node: TensorRef) -> Result<()> {
    let x = src(node, 1)?;
    ensure!(matches!(node.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "columns of {:?}", node.dtype());
    let fits = x.dtype() == GGML_TYPE_F32 || (x.dtype() == GGML_TYPE_F16 && node.dtype() == GGML_TYPE_F16);
    ensure!(fits, "image of {:?}", x.dtype());
    let c = columns(node)?;
    let n = Layout::of(node).ne;
    let batches = Layout::of(x).ne[if c.flat { 2 } else { 3 }];
    let per_row = c.channels * c.kernel[0] * c.kernel[1];
    let rest = if c.flat { n[2] == batches && n[3] == 1 } else { n[3] == batches };
    ensure!(n[0] == per_row && rest, "{:?} into {n:?}", x.ne());
    Ok(())
}

/// Sums of the columns of a transposed convolution. Source: `[width * channels, n]`. Parameters: stride, channels, elements to omit at
/// the start.
pub fn col2im_1d(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let columns = node.source(0);
    let (stride, cut) = (node.op_param_i32(0) as usize, node.op_param_i32(2) as usize);
    let width = columns.ne[0] / node.op_param_i32(1) as usize;
    let mut out = Writer::new(d);
    let mut value = [0f32];
    for channel in w.share(out.ne[1]) {
        out.row([channel, 0, 0], |y| {
            for (t, y) in y.iter_mut().enumerate() {
                let t = t + cut;
                let first = (t + 1).saturating_sub(width).div_ceil(stride);
                *y = 0.0;
                for i in first..(t / stride + 1).min(columns.ne[1]) {
                    columns.load([i, 0, 0], channel * width + t - i * stride, &mut value);
                    *y += value[0];
                }
            }
        });
    }
}

/// Requires floats of one format, and fitting shapes.
pub fn check_col2im_1d(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, node.dtype())?;
    ensure!(crate::cpu::ops::is_float(node.dtype()), "columns of {:?}", node.dtype());
    let p = |i| i64::from(node.op_param_i32(i));
    ensure!(p(0) > 0 && p(1) > 0 && p(2) >= 0 && s.ne()[0] % p(1) == 0, "stride {}, channels {}", p(0), p(1));
    ensure!(node.ne()[1] == p(1) && node.is_matrix() && s.is_matrix(), "{:?} into {:?}", s.ne(), node.ne());
    Ok(())
}

/// Gradient of `im2col` with respect to the image. Sources: gradient of the columns, kernel.
pub fn im2col_back(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let flat = node.op_param_i32(6) != 1;
    let [ax, second] = axes(*node);
    let ay = if flat { Axis { stride: 1, pad: 0, dilation: 1 } } else { second };
    let (grad, k) = (node.source(0), node.source(1));
    let (kw, kh) = (k.ne[0], if flat { 1 } else { k.ne[1] });
    let (ow, oh) = (grad.ne[1], if flat { 1 } else { grad.ne[2] });
    for row in rows(w, &d) {
        let (iy, channel, batch) = if flat { (0, row[0], row[1]) } else { (row[0], row[1], row[2]) };
        for ix in 0..d.ne[0] {
            let mut sum = 0.0;
            for ky in 0..kh {
                let Some(oy) = ay.result(iy, ky, oh) else { continue };
                for kx in 0..kw {
                    let Some(ox) = ax.result(ix, kx, ow) else { continue };
                    let at = if flat { [ox, batch, 0] } else { [ox, oy, batch] };
                    sum += grad.get::<f32>((channel * kh + ky) * kw + kx, at);
                }
            }
            d.set(ix, row, sum);
        }
    }
}

/// Requires fitting types and shapes.
pub fn check_im2col_back(node: TensorRef) -> Result<()> {
    let (grad, k) = (src(node, 0)?, src(node, 1)?);
    check_type(grad, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    let (g, k, n) = (grad.ne(), k.ne(), node.ne());
    let p = |i| node.op_param_i32(i);
    ensure!(p(0) > 0 && p(4) > 0 && (p(6) != 1 || (p(1) > 0 && p(5) > 0)), "strides or dilations");
    let fits = if p(6) == 1 { g[0] == n[2] * k[0] * k[1] && g[3] == n[3] } else { g[0] == n[1] * k[0] && g[2] == n[2] };
    ensure!(fits && (p(6) == 1 || n[3] == 1), "{g:?} by {k:?} into {n:?}");
    Ok(())
}

/// The part of a volume under the kernel, as a row for each position of the kernel. Parameter 9: channels.
pub fn im2col_3d(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let k = node.source(0).ne;
    let mut x = Reader::new(node.source(1), &d);
    let [ax, ay, az] = axes(*node);
    let channels = node.op_param_i32(9) as usize;
    let batches = x.ne[3] / channels;
    let mut out = Writer::new(d);
    let depth = out.ne[3] / batches;
    let [kw, kh, kd, _] = k;
    for row @ [ox, oy, at] in rows(w, &out) {
        let (batch, oz) = (at / depth, at % depth);
        out.row(row, |y| {
            for channel in 0..channels {
                for (kz, ky) in (0..kd).flat_map(|kz| (0..kh).map(move |ky| (kz, ky))) {
                    let y = &mut y[((channel * kd + kz) * kh + ky) * kw..][..kw];
                    let (iz, iy) = (az.image(oz, kz, x.ne[2]), ay.image(oy, ky, x.ne[1]));
                    let (Some(iz), Some(iy)) = (iz, iy) else {
                        y.fill(0.0);
                        continue;
                    };
                    let x = x.row([iy, iz, batch * channels + channel]);
                    for (kx, y) in y.iter_mut().enumerate() {
                        *y = ax.image(ox, kx, x.len()).map_or(0.0, |ix| x[ix]);
                    }
                }
            }
        });
    }
}

/// Requires fitting types and shapes.
pub fn check_im2col_3d(node: TensorRef) -> Result<()> {
    let x = src(node, 1)?;
    ensure!(matches!(node.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "columns of {:?}", node.dtype());
    check_type(x, GGML_TYPE_F32)?;
    sensible(&axes::<3>(node))?;
    let (k, x, n) = (src(node, 0)?.ne(), x.ne(), node.ne());
    let channels = i64::from(node.op_param_i32(9));
    ensure!(channels > 0 && x[3] > 0 && x[3] % channels == 0, "{channels} channels in {x:?}");
    ensure!(n[0] == channels * k[0] * k[1] * k[2] && n[3] % (x[3] / channels) == 0, "{k:?} over {x:?} into {n:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{WINDOWS, from};
    use super::*;

    use crate::cpu::tests::*;
    use crate::tensor::ops::conv::{self, Window};

    #[test]
    fn columns_are_added_where_they_overlap() {
        for (dtype, tolerance) in [(GGML_TYPE_F32, 1e-6), (GGML_TYPE_F16, 2e-3), (GGML_TYPE_BF16, 2e-2)] {
            for (stride, channels, pad, width) in [(1, 3, 0, 4), (3, 2, 1, 5), (4, 1, 2, 3), (2, 1, 0, 1)] {
                let mut c = ctx();
                let na = [width * i64::from(channels), 7, 1, 1];
                let a = tensor(&mut c, dtype, &na, 5);
                let t = conv::col2im_1d(&mut c, a, stride, channels, pad).unwrap();
                let (av, got) = (read(a), compute(t));
                let want = indices(t.ne()).map(|[o, channel, ..]| {
                    (0..na[1])
                        .map(|i| (i, o + i64::from(pad) - i * i64::from(stride)))
                        .filter(|(_, k)| (0..width).contains(k))
                        .map(|(i, k)| at(&av, na, [channel * width + k, i, 0, 0]))
                        .sum()
                });
                near(&got, want, tolerance);
            }
        }
    }

    /// The gradient of `im2col` adds each column to its source.
    #[test]
    fn gradients_of_columns_go_back_to_the_image() {
        for window in &WINDOWS {
            let mut c = ctx();
            let (nk, nx) = ([3, 2, 5, 1], [13, 9, 5, 3]);
            let (k, x) = (floats(&mut c, &nk, 1), floats(&mut c, &nx, 2));
            let columns = conv::im2col(&mut c, k, x, window, true, GGML_TYPE_F32).unwrap();
            let ng = columns.ne();
            let grad = floats(&mut c, &ng, 3);
            let t = conv::im2col_back(&mut c, grad, k, nx, window, true).unwrap();
            let gv = read(grad);
            let mut want = vec![0f64; x.nelements() as usize];
            for (i, [column, ox, oy, n]) in indices(ng).enumerate() {
                let (kx, ky, ic) = (column % nk[0], column / nk[0] % nk[1], column / (nk[0] * nk[1]));
                let (ix, iy) = (from(window, 0, ox, kx), from(window, 1, oy, ky));
                if (0..nx[0]).contains(&ix) && (0..nx[1]).contains(&iy) {
                    want[(((n * nx[2] + ic) * nx[1] + iy) * nx[0] + ix) as usize] += f64::from(gv[i]);
                }
            }
            near(&compute(t), want.into_iter(), 1e-6);

            let line = Window::line(window.stride[0], window.pad[0], window.dilation[0]);
            let (nk, nx) = ([3, 5, 1, 1], [13, 5, 3, 1]);
            let (k, x) = (floats(&mut c, &nk, 4), floats(&mut c, &nx, 5));
            let columns = conv::im2col(&mut c, k, x, &line, false, GGML_TYPE_F32).unwrap();
            let ng = columns.ne();
            let grad = floats(&mut c, &ng, 6);
            let t = conv::im2col_back(&mut c, grad, k, nx, &line, false).unwrap();
            let gv = read(grad);
            let mut want = vec![0f64; x.nelements() as usize];
            for (i, [column, ox, n, _]) in indices(ng).enumerate() {
                let ix = from(&line, 0, ox, column % nk[0]);
                if (0..nx[0]).contains(&ix) {
                    want[((n * nx[1] + column / nk[0]) * nx[0] + ix) as usize] += f64::from(gv[i]);
                }
            }
            near(&compute(t), want.into_iter(), 1e-6);
        }
    }
}
