//! Patches of images as columns of a matrix (im2col), and the reverse.
#![forbid(unsafe_code)]

use super::{Axis, axes, sensible};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::access::{Dest, Layout, Plain, Reader, RowIndex, Writer, rows};
use crate::cpu::checked::CheckedNode;
use crate::cpu::ensure::{ensure, product, src};
use crate::cpu::ops::check_type;
use crate::cpu::{Worker, vec};
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

/// Results in a row of the result that are computed from the same part of the image.
const PLACES: usize = 64;
/// Elements of the image, of several rows, that are held at once: they fit into the L1 cache.
const HELD: usize = 12 << 10;
/// Elements after those of a row that may be copied with them.
const SLACK: usize = 16;

/// Numbers of a result.
trait Number: Plain + Default {
    /// Converts floats.
    fn from_floats(y: &mut [Self], x: &[f32]);
}

impl Number for f32 {
    fn from_floats(y: &mut [f32], x: &[f32]) {
        y.copy_from_slice(x);
    }
}

impl Number for u16 {
    fn from_floats(y: &mut [u16], x: &[f32]) {
        vec::to_halves(y, x);
    }
}

/// Copies `k` elements, at most `N`, from each row of `x` (`stride` apart) to `y`. It copies `N` each time, which takes
/// an instruction or two: those that are too many are overwritten by the next ones.
fn join_short<T: Copy, const N: usize>(y: &mut [T], k: usize, x: &[T], stride: usize) {
    let mut rest = y;
    for x in x.chunks(stride) {
        match (rest.first_chunk_mut::<N>(), x.first_chunk::<N>()) {
            (Some(y), Some(x)) => *y = *x,
            _ => {
                rest[..k].copy_from_slice(&x[..k]);
            }
        }
        rest = &mut rest[k..];
        if rest.is_empty() {
            break;
        }
    }
}

/// Copies `k` elements, `step` apart, from each row of `x` (`stride` apart) to `y`.
fn join<T: Copy>(y: &mut [T], k: usize, x: &[T], stride: usize, step: usize) {
    match (step, k) {
        (1, ..=4) => join_short::<T, 4>(y, k, x, stride),
        (1, ..=8) => join_short::<T, 8>(y, k, x, stride),
        (1, ..=SLACK) => join_short::<T, SLACK>(y, k, x, stride),
        (1, _) => y.chunks_exact_mut(k).zip(x.chunks(stride)).for_each(|(y, x)| y.copy_from_slice(&x[..k])),
        _ => {
            for (y, x) in y.chunks_exact_mut(k).zip(x.chunks(stride)) {
                y.iter_mut().zip(x.iter().step_by(step)).for_each(|(y, x)| *y = *x);
            }
        }
    }
}

/// Patches of images as rows of the result, whose first index is the place in a row.
struct Patches {
    /// The dimension along rows.
    along: Axis,
    /// Width of the kernel.
    width: usize,
    /// Rows of the kernel.
    lines: usize,
}

/// The part of a row of the image that is held for some places of the kernel.
struct Held {
    stride: usize,
    step: usize,
    /// Elements under the kernel, with those between them.
    reach: usize,
    /// Elements that are held.
    span: usize,
}

impl Patches {
    /// Computes the node. `under(line, row)` is the row of the image under row `line` of the kernel for the other two
    /// indices of a row of the result, or `None` if it is outside.
    fn compute<T: Number>(
        &self,
        w: &Worker<'_>,
        x: &mut Reader<'_>,
        mut d: Dest<'_>,
        under: impl Fn(usize, [usize; 2]) -> Option<RowIndex>,
    ) {
        let (kw, per_row, pad) = (self.width, d.ne[1], self.along.pad);
        if kw * self.lines == 0 {
            return;
        }
        let places = PLACES.min(per_row);
        let Some(Held { stride, step, reach, span }) = self.held(places) else {
            return self.one_by_one(w, x, d, under);
        };
        let direct = d.is_sliceable::<T>();
        let group = (HELD / span).clamp(1, self.lines);
        let mut held = vec![T::default(); group * span];
        let mut row_of = vec![T::default(); if direct { 0 } else { group * kw }];
        let share = w.share(d.nrows());
        let mut next = share.start;
        while next < share.end {
            let [first, i2, i3] = d.row_index(next);
            let n = places.min(per_row - first).min(share.end - next);
            for line in (0..self.lines).step_by(group) {
                let lines = line..self.lines.min(line + group);
                for (line, held) in lines.clone().zip(held.chunks_exact_mut(span)) {
                    let Some(row) = under(line, [i2, i3]) else {
                        held.fill(T::default());
                        continue;
                    };
                    let x = x.row(row);
                    // The part of the image under the kernel, and where it begins.
                    let start = first as i64 * stride as i64 - pad;
                    let from = start.clamp(0, x.len() as i64);
                    let end = (start + ((n - 1) * stride + reach) as i64).clamp(from, x.len() as i64);
                    let at = (from - start).clamp(0, span as i64) as usize;
                    let count = ((end - from) as usize).min(span - at);
                    held[..at].fill(T::default());
                    held[at + count..].fill(T::default());
                    T::from_floats(&mut held[at..at + count], &x[from as usize..][..count]);
                }
                let part = lines.start * kw..lines.end * kw;
                for i in 0..n {
                    let (row, x) = ([first + i, i2, i3], &held[i * stride..lines.len() * span]);
                    if direct {
                        join(&mut d.row_mut::<T>(row)[part.clone()], kw, x, span, step);
                        continue;
                    }
                    let y = &mut row_of[..part.len()];
                    join(y, kw, x, span, step);
                    y.iter().zip(part.clone()).for_each(|(y, i0)| d.set(i0, row, *y));
                }
            }
            next += n;
        }
    }

    /// The parts of rows for some places, or `None` if they would be too long, or the kernel moves backwards.
    fn held(&self, places: usize) -> Option<Held> {
        let axis = |n: i64| usize::try_from(n).ok().filter(|n| (1..=HELD).contains(n));
        let (stride, step) = (axis(self.along.stride)?, axis(self.along.dilation)?);
        let reach = (self.width - 1).checked_mul(step)? + 1;
        let span = (places - 1) * stride + reach + SLACK;
        (span <= 8 * HELD).then_some(Held { stride, step, reach, span })
    }

    /// [`Self::compute`] for all strides and dilations.
    fn one_by_one(
        &self,
        w: &Worker<'_>,
        x: &mut Reader<'_>,
        d: Dest<'_>,
        under: impl Fn(usize, [usize; 2]) -> Option<RowIndex>,
    ) {
        let mut out = Writer::new(d);
        for row @ [ox, i2, i3] in rows(w, &out) {
            out.row(row, |y| {
                for (line, y) in y.chunks_exact_mut(self.width).enumerate().take(self.lines) {
                    let x = under(line, [i2, i3]).map_or(&[][..], |row| x.row(row));
                    for (kx, y) in y.iter_mut().enumerate() {
                        *y = self.along.image(ox, kx, x.len()).map_or(0.0, |ix| x[ix]);
                    }
                }
            });
        }
    }

    /// [`Self::compute`] for a result of single or half precision.
    fn write(
        &self,
        w: &Worker<'_>,
        x: &mut Reader<'_>,
        d: Dest<'_>,
        under: impl Fn(usize, [usize; 2]) -> Option<RowIndex>,
    ) {
        match d.dtype {
            GGML_TYPE_F16 => self.compute::<u16>(w, x, d, under),
            _ => self.compute::<f32>(w, x, d, under),
        }
    }
}

/// The part of the image under the kernel, as a row for each position of the kernel. Parameters: strides, padding,
/// dilations (each for both dimensions), whether there are two dimensions.
pub fn im2col(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let Ok(c) = columns(*node) else { return };
    let [ax, ay] = axes(*node);
    let mut image = Reader::new(node.source(1), &d);
    let [kw, kh] = c.kernel;
    let patches = Patches { along: ax, width: kw, lines: c.channels * kh };
    patches.write(w, &mut image, d, |line, [i2, i3]| match c.flat {
        true => Some([line, i2, 0]),
        false => Some([ay.image(i2, line % kh, c.image[1])?, line / kh, i3]),
    });
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
    let per_row = product(&[c.channels, c.kernel[0], c.kernel[1]].map(|n| n as i64));
    let rest = if c.flat { n[2] == batches && n[3] == 1 } else { n[3] == batches };
    ensure!(node.ne()[0] == per_row && rest, "{:?} into {n:?}", x.ne());
    Ok(())
}

/// Sums of the columns of a transposed convolution. Source: `[width * channels, n]`. Parameters: stride, channels,
/// elements to omit at the start.
pub fn col2im_1d(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let mut columns = Reader::new(node.source(0), &d);
    let (stride, cut) = (node.op_param_i32(0) as usize, node.op_param_i32(2) as usize);
    let width = columns.ne[0] / node.op_param_i32(1) as usize;
    let n = columns.ne[1];
    let mut out = Writer::new(d);
    for channel in w.share(out.ne[1]) {
        out.row([channel, 0, 0], |y| {
            y.fill(0.0);
            let first = (cut + 1).saturating_sub(width).div_ceil(stride);
            for i in first..n.min((cut + y.len()).div_ceil(stride)) {
                let column = columns.part([i, 0, 0], channel * width..(channel + 1) * width);
                let skip = cut.saturating_sub(i * stride);
                let at = i * stride + skip - cut;
                y[at..].iter_mut().zip(&column[skip..]).for_each(|(y, x)| *y += x);
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
pub fn im2col_back(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let flat = node.op_param_i32(6) != 1;
    let [ax, second] = axes(*node);
    let ay = if flat { Axis { stride: 1, pad: 0, dilation: 1 } } else { second };
    let k = node.source(1);
    let mut grad = Reader::new(node.source(0), &d);
    let (kw, kh) = (k.ne[0], if flat { 1 } else { k.ne[1] });
    let (ow, oh) = (grad.ne[1], if flat { 1 } else { grad.ne[2] });
    let mut out = Writer::new(d);
    for row in w.until_stopped(rows(w, &out)) {
        let (iy, channel, batch) = if flat { (0, row[0], row[1]) } else { (row[0], row[1], row[2]) };
        out.row(row, |y| {
            y.fill(0.0);
            for ky in w.until_stopped(0..kh) {
                let Some(oy) = ay.result(iy, ky, oh) else { continue };
                let line = (channel * kh + ky) * kw;
                for ox in 0..ow {
                    let at = if flat { [ox, batch, 0] } else { [ox, oy, batch] };
                    let grad = grad.part(at, line..line + kw);
                    for (kx, grad) in grad.iter().enumerate() {
                        if let Some(ix) = ax.image(ox, kx, y.len()) {
                            y[ix] += grad;
                        }
                    }
                }
            }
        });
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
    let fits = if p(6) == 1 {
        g[0] == product(&[n[2], k[0], k[1]]) && g[3] == n[3]
    } else {
        g[0] == product(&[n[1], k[0]]) && g[2] == n[2]
    };
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
    let depth = d.ne[3] / batches;
    let ([kw, kh, kd, _], [_, ny, nz, _]) = (k, x.ne);
    let patches = Patches { along: ax, width: kw, lines: channels * kd * kh };
    patches.write(w, &mut x, d, |line, [oy, at]| {
        let (iz, iy) = (az.image(at % depth, line / kh % kd, nz)?, ay.image(oy, line % kh, ny)?);
        Some([iy, iz, at / depth * channels + line / (kh * kd)])
    });
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
    ensure!(
        n[0] == product(&[channels, k[0], k[1], k[2]]) && n[3] % (x[3] / channels) == 0,
        "{k:?} over {x:?} into {n:?}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{WINDOWS, from};
    use super::*;

    use crate::cpu::tests::*;
    use crate::tensor::ops::conv::{self, Window};

    /// Kernels of all widths for which there is a special way, and windows for which there is none.
    #[test]
    fn patches_as_rows() {
        let far = Window { stride: [1, 1], pad: [19961, 0], dilation: [20000, 1] };
        let back = Window { stride: [1, 1], pad: [0, 0], dilation: [-1, 1] };
        for (dtype, tolerance) in [(GGML_TYPE_F32, 0.0), (GGML_TYPE_F16, 5e-4)] {
            let usual = WINDOWS.iter().flat_map(|window| [1, 3, 4, 5, 11, 16, 19].map(|width| (window, width)));
            for (window, width) in usual.chain([(&far, 3), (&back, 3)]) {
                let mut c = ctx();
                let (nk, nx) = ([width, 2, 3, 1], [83, 5, 3, 2]);
                let (k, x) = (floats(&mut c, &nk, 1), floats(&mut c, &nx, 2));
                let t = conv::im2col(&mut c, k, x, window, true, dtype).unwrap();
                let (xv, got) = (read(x), compute(t));
                let want = indices(t.ne()).map(|[i, ox, oy, n]| {
                    let place = [from(window, 0, ox, i % width), from(window, 1, oy, i / width % 2)];
                    at(&xv, nx, [place[0], place[1], i / width / 2, n])
                });
                near(&got, want, tolerance);
            }
            let window = Window::line(3, 2, 2);
            let mut c = ctx();
            let (nk, nx) = ([6, 70, 1, 1], [300, 70, 2, 1]);
            let (k, x) = (floats(&mut c, &nk, 1), floats(&mut c, &nx, 2));
            let t = conv::im2col(&mut c, k, x, &window, false, dtype).unwrap();
            let (xv, got) = (read(x), compute(t));
            let want = indices(t.ne()).map(|[i, ox, n, _]| at(&xv, nx, [from(&window, 0, ox, i % 6), i / 6, n, 0]));
            near(&got, want, tolerance);
        }
    }

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
