//! Pooling: the maximum or the mean of windows.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Reader, Writer, rows};
use super::super::checked::CheckedNode;
use super::super::ensure::{ensure, src};
use super::check_type;
use super::conv::{Axis, inside};
use crate::abi::ggml::ggml_op_pool;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::Worker;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::pool::Planes;

/// The elements of a kernel of size `size` that are over the image.
fn over(out: usize, stride: i32, size: i32, pad: i32, n: usize) -> std::ops::Range<usize> {
    let first = i64::from(pad) - out as i64 * i64::from(stride);
    let end = first.saturating_add_unsigned(n as u64).clamp(0, i64::from(size));
    first.clamp(0, end) as usize..end as usize
}

/// Whether `x` replaces the maximum `top`. The first NaN of a window is its maximum.
fn above(x: f32, top: f32) -> bool {
    x > top || (x.is_nan() && !top.is_nan())
}

struct Pool {
    largest: bool,
    kernel: [i32; 2],
    stride: [i32; 2],
    pad: [i32; 2],
    /// Whether a mean divides by the size of the whole kernel, not by the number of elements under it.
    whole: bool,
}

impl Pool {
    /// Combines the results with the elements of a row of the image, for each element of a row of the kernel.
    fn row(&self, y: &mut [f32], x: &[f32], f: impl Fn(f32, f32) -> f32 + Copy) {
        let stride = self.stride[0] as usize;
        let along = Axis { stride: stride as i64, pad: self.pad[0].into(), dilation: 1 };
        for kx in 0..self.kernel[0] as usize {
            let (range, from) = along.inside(0, y.len(), kx, x.len());
            if range.is_empty() {
                continue;
            }
            let (x, y) = (&x[from..], &mut y[range]);
            match stride {
                1 => y.iter_mut().zip(x).for_each(|(y, x)| *y = f(*y, *x)),
                2 => {
                    // The last element may have no neighbour.
                    let (pairs, rest) = x.as_chunks::<2>();
                    y.iter_mut().zip(pairs.iter().map(|[x, _]| x).chain(rest)).for_each(|(y, x)| *y = f(*y, *x));
                }
                _ => y.iter_mut().zip(x.iter().step_by(stride)).for_each(|(y, x)| *y = f(*y, *x)),
            }
        }
    }
}

fn pool(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>, p: &Pool) {
    let mut x = Reader::new(node.source(0), &d);
    let ne = x.ne;
    let mut out = Writer::new(d);
    for row in w.until_stopped(rows(w, &out)) {
        let lines = if p.whole { over(row[0], p.stride[1], p.kernel[1], p.pad[1], ne[1]) } else { 0..1 };
        out.row(row, |y| {
            y.fill(if p.largest { -f32::MAX } else { 0.0 });
            for ky in w.until_stopped(lines) {
                let i1 = if p.whole { inside(row[0], p.stride[1], ky, 1, p.pad[1], ne[1]) } else { Some(row[0]) };
                let Some(i1) = i1 else { continue };
                let x = x.row([i1, row[1], row[2]]);
                match p.largest {
                    true => p.row(y, x, |top, x| if above(x, top) { x } else { top }),
                    false => p.row(y, x, |y, x| y + x),
                }
            }
            if p.largest {
                return;
            }
            for (ox, y) in y.iter_mut().enumerate() {
                let n = match p.whole {
                    true => (p.kernel[0] * p.kernel[1]) as usize,
                    false => over(ox, p.stride[0], p.kernel[0], p.pad[0], ne[0]).len(),
                };
                *y = if n > 0 { *y / n as f32 } else { 0.0 };
            }
        });
    }
}

fn largest(node: TensorRef) -> bool {
    node.op_param_i32(0) == ggml_op_pool::GGML_OP_POOL_MAX as i32
}

/// Maximum or mean of the elements under a kernel that moves along rows. Parameters: kind, size, stride, padding.
pub fn pool_1d(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let p = |i| node.op_param_i32(i);
    let largest = largest(*node);
    pool(w, node, d, &Pool { largest, kernel: [p(1), 1], stride: [p(2), 1], pad: [p(3), 0], whole: false });
}

/// Maximum or mean of the elements under a kernel that moves over planes.
pub fn pool_2d(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let Planes { kernel, stride, pad } = Planes::of_node(*node);
    pool(w, node, d, &Pool { largest: largest(*node), kernel, stride, pad: pad.map(|p| p as i32), whole: true });
}

/// Requires single or half precision, a valid kind, and valid sizes.
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

/// Gradient of `pool_2d`. Sources: gradient of the result, argument of the pooling.
pub fn pool_2d_back(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let largest = largest(*node);
    let Planes { kernel, stride, pad } = Planes::of_node(*node);
    let pad = pad.map(|p| p as i32);
    let (mut grad, x) = (Reader::new(node.source(0), &d), node.source(1));
    let [width, height, ..] = d.ne;
    let mut plane = vec![0f32; width * height];
    let mut image = vec![0f32; if largest { width * height } else { 0 }];
    let [n0, n1, ..] = grad.ne;
    for i in w.until_stopped(w.share(d.ne[2] * d.ne[3])) {
        let (i2, i3) = (i % d.ne[2], i / d.ne[2]);
        plane.fill(0.0);
        image.chunks_exact_mut(width).enumerate().for_each(|(iy, line)| x.load([iy, i2, i3], 0, line));
        for (oy, ox) in w.until_stopped((0..n1).flat_map(|oy| (0..n0).map(move |ox| (oy, ox)))) {
            let share = grad.row([oy, i2, i3])[ox];
            let mut best: Option<(f32, usize)> = None;
            for ky in over(oy, stride[1], kernel[1], pad[1], height) {
                let Some(iy) = inside(oy, stride[1], ky, 1, pad[1], height) else { continue };
                for kx in over(ox, stride[0], kernel[0], pad[0], width) {
                    let Some(ix) = inside(ox, stride[0], kx, 1, pad[0], width) else { continue };
                    let at = iy * width + ix;
                    if !largest {
                        plane[at] += share / (kernel[0] * kernel[1]) as f32;
                    } else if best.is_none_or(|(top, _)| above(image[at], top)) {
                        best = Some((image[at], at));
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

/// Requires single or half precision, and fitting shapes.
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
    fn greatest_elements_and_means() {
        for (kernel, stride, pad) in
            [([2, 2], [2, 2], [0, 0]), ([3, 2], [1, 2], [1, 1]), ([5, 3], [3, 1], [2, 0]), ([2, 1], [2, 5], [1, 0])]
        {
            for kind in [ggml_op_pool::GGML_OP_POOL_MAX, ggml_op_pool::GGML_OP_POOL_AVG] {
                let mut c = ctx();
                let nx = [37, 7, 3, 2];
                let x = floats(&mut c, &nx, 1);
                let xv = read(x);
                let planes = Planes { kernel, stride, pad: pad.map(|p| p as f32) };
                let t = pool::pool_2d(&mut c, x, kind, &planes).unwrap();
                let under = |o: [i64; 4], kernel: [i32; 2], stride: [i32; 2], pad: [i32; 2]| -> Vec<f64> {
                    let [x0, y0] = [0, 1].map(|d| o[d] * i64::from(stride[d]) - i64::from(pad[d]));
                    indices([kernel[0].into(), kernel[1].into(), 1, 1])
                        .map(|[kx, ky, ..]| [x0 + kx, y0 + ky, o[2], o[3]])
                        .filter(|i| (0..nx[0]).contains(&i[0]) && (0..nx[1]).contains(&i[1]))
                        .map(|i| at(&xv, nx, i))
                        .collect()
                };
                let result = |under: Vec<f64>, n: usize| match kind {
                    ggml_op_pool::GGML_OP_POOL_MAX => under.into_iter().fold(f64::from(-f32::MAX), f64::max),
                    _ => under.into_iter().sum::<f64>() / n as f64,
                };
                let all = (kernel[0] * kernel[1]) as usize;
                near(&compute(t), indices(t.ne()).map(|o| result(under(o, kernel, stride, pad), all)), 1e-6);

                let t = pool::pool_1d(&mut c, x, kind, kernel[0], stride[0], pad[0]).unwrap();
                let want = indices(t.ne()).map(|o| {
                    let under = under(o, [kernel[0], 1], [stride[0], 1], [pad[0], 0]);
                    let n = under.len();
                    result(under, n)
                });
                near(&compute(t), want, 1e-6);
            }
        }
    }

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
