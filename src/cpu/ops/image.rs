//! Images: columns for convolution, pooling, resizing.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Layout, Reader, Source, Writer, rows};
use super::super::check::{CheckedNode, ensure, src};
use super::check_type;
use super::conv::{Axis, axes};
use crate::abi::ggml::ggml_scale_mode::{self, *};
use crate::abi::ggml::ggml_type::*;
use crate::abi::ggml::{ggml_op_pool, ggml_scale_flag};
use crate::cpu::Worker;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::pool::Planes;

/// Index of an element of the image; `None`: outside.
fn inside(out: usize, stride: i32, k: usize, dilation: i32, pad: i32, n: usize) -> Option<usize> {
    Axis { stride: stride.into(), pad: pad.into(), dilation: dilation.into() }.image(out, k, n)
}

/// The elements of a kernel of `size` that lie over the image.
fn over(out: usize, stride: i32, size: i32, pad: i32, n: usize) -> std::ops::Range<usize> {
    let first = i64::from(pad) - out as i64 * i64::from(stride);
    let end = first.saturating_add_unsigned(n as u64).clamp(0, i64::from(size));
    first.clamp(0, end) as usize..end as usize
}

/// Sizes of an `im2col`: kernel, image and channels; a line counts as an image one element high.
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

/// The part of the image under the kernel, as a row for each place of the kernel. Parameters: strides, padding, dilations
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

/// An image and a result of single or half precision; as many columns as kernel elements.
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

struct Pool {
    largest: bool,
    kernel: [i32; 2],
    stride: [i32; 2],
    pad: [i32; 2],
    /// What a mean divides by: the whole kernel, or the elements under it.
    whole: bool,
}

fn pool(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>, p: &Pool) {
    let mut x = Reader::new(node.source(0), &d);
    let ne = x.ne;
    let mut out = Writer::new(d);
    for row in rows(w, &out) {
        let lines = if p.whole { over(row[0], p.stride[1], p.kernel[1], p.pad[1], ne[1]) } else { 0..1 };
        out.row(row, |y| {
            let mut counts = vec![0usize; y.len()];
            y.fill(if p.largest { -f32::MAX } else { 0.0 });
            for ky in lines {
                let i1 = if p.whole { inside(row[0], p.stride[1], ky, 1, p.pad[1], ne[1]) } else { Some(row[0]) };
                let Some(i1) = i1 else { continue };
                let x = x.row([i1, row[1], row[2]]);
                for (ox, (y, count)) in y.iter_mut().zip(&mut counts).enumerate() {
                    for kx in over(ox, p.stride[0], p.kernel[0], p.pad[0], x.len()) {
                        let Some(ix) = inside(ox, p.stride[0], kx, 1, p.pad[0], x.len()) else { continue };
                        *count += 1;
                        *y = if p.largest { y.max(x[ix]) } else { *y + x[ix] };
                    }
                }
            }
            if !p.largest {
                for (y, count) in y.iter_mut().zip(counts) {
                    let n = if p.whole { (p.kernel[0] * p.kernel[1]) as usize } else { count };
                    *y = if n > 0 { *y / n as f32 } else { 0.0 };
                }
            }
        });
    }
}

fn largest(node: TensorRef) -> bool {
    node.op_param_i32(0) == ggml_op_pool::GGML_OP_POOL_MAX as i32
}

/// Largest or mean element under a kernel that slides along rows. Parameters: kind, size, stride, padding.
pub fn pool_1d(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let p = |i| node.op_param_i32(i);
    let largest = largest(*node);
    pool(w, node, d, &Pool { largest, kernel: [p(1), 1], stride: [p(2), 1], pad: [p(3), 0], whole: false });
}

/// The same for planes.
pub fn pool_2d(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let Planes { kernel, stride, pad } = Planes::of_node(*node);
    pool(w, node, d, &Pool { largest: largest(*node), kernel, stride, pad: pad.map(|p| p as i32), whole: true });
}

/// Single or half precision; a kind that exists; sizes that make sense.
pub fn check_pool(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(node, GGML_TYPE_F32)?;
    ensure!(matches!(s.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "pooling of {:?}", s.dtype());
    ensure!(ggml_op_pool::from_raw(node.op_param_i32(0)).is_some(), "kind {}", node.op_param_i32(0));
    let two = node.op() == crate::abi::ggml::ggml_op::GGML_OP_POOL_2D;
    let sizes = if two { 1..5 } else { 1..3 };
    ensure!(sizes.clone().all(|i| (1..1 << 15).contains(&node.op_param_i32(i))), "sizes or strides");
    let same = if two { 2 } else { 1 };
    ensure!(s.ne()[same..] == node.ne()[same..], "{:?} into {:?}", s.ne(), node.ne());
    Ok(())
}

/// Resizing by interpolation. Parameter 0: mode and flags.
pub fn upscale(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let flags = node.op_param_i32(0);
    let Some(mode) = ggml_scale_mode::from_raw(flags & 0xff) else { return };
    let s = node.source(0);
    let mut ratio: [f32; 4] = std::array::from_fn(|i| d.ne[i] as f32 / s.ne[i] as f32);
    let mut centre = 0.5;
    if flags & ggml_scale_flag::GGML_SCALE_FLAG_ALIGN_CORNERS as i32 != 0 {
        centre = 0.0;
        for ((ratio, &to), &from) in ratio.iter_mut().zip(&d.ne).zip(&s.ne).take(2) {
            if to > 1 && from > 1 {
                *ratio = (to - 1) as f32 / (from - 1) as f32;
            }
        }
    }
    let smooth = flags & ggml_scale_flag::GGML_SCALE_FLAG_ANTIALIAS as i32 != 0;
    let clip = |i: i64, n: usize| i.clamp(0, n as i64 - 1) as usize;
    let near = |i: usize, dim: usize| clip((i as f32 / ratio[dim]) as i64, s.ne[dim]);
    for row in rows(w, &d) {
        let (i2, i3) = (near(row[1], 2), near(row[2], 3));
        let at = |x: i64, y: i64| s.get::<f32>(clip(x, s.ne[0]), [clip(y, s.ne[1]), i2, i3]);
        for i0 in 0..d.ne[0] {
            let value = match mode {
                GGML_SCALE_MODE_NEAREST => s.get::<f32>(near(i0, 0), [near(row[0], 1), i2, i3]),
                GGML_SCALE_MODE_BILINEAR if smooth => {
                    let place = |i: usize, dim: usize| (i as f32 + centre) / ratio[dim];
                    area(&s, [place(i0, 0), place(row[0], 1)], [ratio[0], ratio[1]], centre, &at)
                }
                _ => {
                    let place = |i: usize, dim: usize| (i as f32 + centre) / ratio[dim] - centre;
                    let (x, y) = (place(i0, 0), place(row[0], 1));
                    if mode == GGML_SCALE_MODE_BICUBIC { cubic(x, y, &at) } else { linear(&s, x, y, &at) }
                }
            };
            d.set(i0, row, value);
        }
    }
}

fn linear(s: &Source<'_>, x: f32, y: f32, at: &impl Fn(i64, i64) -> f32) -> f32 {
    let split = |v: f32, n: usize| {
        let low = (v.floor() as i64).clamp(0, n as i64 - 1);
        (low, v.floor() as i64 + 1, (v - low as f32).clamp(0.0, 1.0))
    };
    let ((x0, x1, dx), (y0, y1, dy)) = (split(x, s.ne[0]), split(y, s.ne[1]));
    at(x0, y0) * (1.0 - dx) * (1.0 - dy)
        + at(x1, y0) * dx * (1.0 - dy)
        + at(x0, y1) * (1.0 - dx) * dy
        + at(x1, y1) * dx * dy
}

/// Cubic convolution (Keys 1981) with a = -0.75.
fn cubic(x: f32, y: f32, at: &impl Fn(i64, i64) -> f32) -> f32 {
    const A: f32 = -0.75;
    let inner = |x: f32| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let outer = |x: f32| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    let weights = |d: f32| [outer(d + 1.0), inner(d), inner(1.0 - d), outer(2.0 - d)];
    let (x0, y0) = (x.floor(), y.floor());
    let (wx, wy) = (weights(x - x0), weights(y - y0));
    let line = |j: i64| -> f32 { (0..4).map(|i| at(x0 as i64 + i - 1, y0 as i64 + j) * wx[i as usize]).sum() };
    (0..4).map(|j| line(j - 1) * wy[j as usize]).sum()
}

/// Mean over the area that an element of a smaller result covers, weighted with a triangle.
fn area(s: &Source<'_>, place: [f32; 2], ratio: [f32; 2], centre: f32, at: &impl Fn(i64, i64) -> f32) -> f32 {
    let support = ratio.map(|r| (1.0 / r).max(1.0));
    let span = |dim: usize| {
        let low = (place[dim] - support[dim] + centre) as i64;
        let high = (place[dim] + support[dim] + centre) as i64;
        low.max(0)..high.min(s.ne[dim] as i64)
    };
    let weight = |i: i64, dim: usize| (1.0 - ((i as f32 - place[dim] + centre) / support[dim]).abs()).max(0.0);
    let (mut sum, mut total) = (0.0, 0.0);
    for y in span(1) {
        for x in span(0) {
            let w = weight(x, 0) * weight(y, 1);
            if w > 0.0 {
                sum += at(x, y) * w;
                total += w;
            }
        }
    }
    if total > 0.0 { sum / total } else { sum }
}

/// Single precision; a mode that exists; nothing empty.
pub fn check_upscale(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    let mode = ggml_scale_mode::from_raw(node.op_param_i32(0) & 0xff);
    ensure!(mode.is_some_and(|m| m != GGML_SCALE_MODE_COUNT), "mode {}", node.op_param_i32(0));
    ensure!(!s.is_empty() || node.is_empty(), "an empty image");
    Ok(())
}

/// Gradient of `pool_2d`. Sources: gradient of the result, the pooled tensor.
pub fn pool_2d_back(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let largest = largest(*node);
    let Planes { kernel, stride, pad } = Planes::of_node(*node);
    let pad = pad.map(|p| p as i32);
    let (grad, x) = (node.source(0), node.source(1));
    let [width, height, ..] = d.ne;
    let mut plane = vec![0f32; width * height];
    let mut value = [0f32];
    for i in w.share(d.ne[2] * d.ne[3]) {
        let (i2, i3) = (i % d.ne[2], i / d.ne[2]);
        plane.fill(0.0);
        for (oy, ox) in (0..grad.ne[1]).flat_map(|oy| (0..grad.ne[0]).map(move |ox| (oy, ox))) {
            let share = grad.get::<f32>(ox, [oy, i2, i3]);
            let mut best: Option<(f32, usize)> = None;
            for ky in over(oy, stride[1], kernel[1], pad[1], height) {
                let Some(iy) = inside(oy, stride[1], ky, 1, pad[1], height) else { continue };
                for kx in over(ox, stride[0], kernel[0], pad[0], width) {
                    let Some(ix) = inside(ox, stride[0], kx, 1, pad[0], width) else { continue };
                    let at = iy * width + ix;
                    if !largest {
                        plane[at] += share / (kernel[0] * kernel[1]) as f32;
                        continue;
                    }
                    x.load([iy, i2, i3], ix, &mut value);
                    if best.is_none_or(|(top, _)| value[0] > top) {
                        best = Some((value[0], at));
                    }
                }
            }
            if let Some((_, at)) = best {
                plane[at] += share;
            }
        }
        for (iy, row) in plane.chunks_exact(width).enumerate() {
            d.store([iy, i2, i3], 0, row);
        }
    }
}

/// Single or half precision; shapes fit.
pub fn check_pool_2d_back(node: TensorRef) -> Result<()> {
    let (grad, x) = (src(node, 0)?, src(node, 1)?);
    check_type(grad, GGML_TYPE_F32)?;
    ensure!(matches!(node.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "gradient of {:?}", node.dtype());
    check_type(x, node.dtype())?;
    ensure!(ggml_op_pool::from_raw(node.op_param_i32(0)).is_some(), "kind {}", node.op_param_i32(0));
    ensure!((1..5).all(|i| (1..1 << 15).contains(&node.op_param_i32(i))), "sizes or strides");
    ensure!(x.same_shape(node) && grad.ne()[2..] == node.ne()[2..], "{:?} into {:?}", grad.ne(), node.ne());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::tests::*;
    use crate::tensor::ops::pool::{self, Planes};

    #[test]
    fn gradients_of_pooling_go_to_where_the_result_came_from() {
        for planes in [
            Planes { kernel: [2, 2], stride: [2, 2], pad: [0.0, 0.0] },
            Planes { kernel: [3, 2], stride: [1, 2], pad: [1.0, 1.0] },
            Planes { kernel: [1, 4], stride: [3, 1], pad: [0.0, 2.0] },
        ] {
            for kind in [ggml_op_pool::GGML_OP_POOL_MAX, ggml_op_pool::GGML_OP_POOL_AVG] {
                let mut c = ctx();
                let nx = [11, 7, 3, 2];
                let x = floats(&mut c, &nx, 1);
                let y = pool::pool_2d(&mut c, x, kind, &planes).unwrap();
                let grad = floats(&mut c, &y.ne(), 2);
                let t = pool::pool_2d_back(&mut c, grad, x, kind, &planes).unwrap();
                let (xv, gv) = (read(x), read(grad));
                let mut want = vec![0f64; xv.len()];
                for (i, [ox, oy, i2, i3]) in indices(grad.ne()).enumerate() {
                    let corner = |o: i64, d: usize| o * i64::from(planes.stride[d]) - planes.pad[d] as i64;
                    let under: Vec<usize> = indices([planes.kernel[0].into(), planes.kernel[1].into(), 1, 1])
                        .map(|[kx, ky, ..]| (corner(ox, 0) + kx, corner(oy, 1) + ky))
                        .filter(|(ix, iy)| (0..nx[0]).contains(ix) && (0..nx[1]).contains(iy))
                        .map(|(ix, iy)| (((i3 * nx[2] + i2) * nx[1] + iy) * nx[0] + ix) as usize)
                        .collect();
                    let share = f64::from(gv[i]);
                    if kind == ggml_op_pool::GGML_OP_POOL_AVG {
                        let n = f64::from(planes.kernel[0] * planes.kernel[1]);
                        under.into_iter().for_each(|i| want[i] += share / n);
                    } else if let Some(i) = under.into_iter().max_by(|&a, &b| xv[a].total_cmp(&xv[b])) {
                        want[i] += share;
                    }
                }
                near(&compute(t), want.into_iter(), 1e-6);
            }
        }
    }
}
