//! Images and lines: padding, rolling, resizing.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Reader, RowIndex, Writer, rows};
use super::super::checked::CheckedNode;
use super::super::ensure::{ensure, src};
use super::check_type;
use crate::abi::ggml::ggml_scale_flag;
use crate::abi::ggml::ggml_scale_mode::{self, *};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::Worker;
use crate::error::Result;
use crate::tensor::TensorRef;

/// Resizes by interpolation. Parameter 0: mode and flags.
pub fn upscale(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let flags = node.op_param_i32(0);
    let Some(mode) = ggml_scale_mode::from_raw(flags & 0xff) else { return };
    let from = node.source(0).ne;
    let mut ratio: [f32; 4] = std::array::from_fn(|i| d.ne[i] as f32 / from[i] as f32);
    let mut centre = 0.5;
    if flags & ggml_scale_flag::GGML_SCALE_FLAG_ALIGN_CORNERS as i32 != 0 {
        centre = 0.0;
        for ((ratio, &to), &from) in ratio.iter_mut().zip(&d.ne).zip(&from).take(2) {
            if to > 1 && from > 1 {
                *ratio = (to - 1) as f32 / (from - 1) as f32;
            }
        }
    }
    let smooth = flags & ggml_scale_flag::GGML_SCALE_FLAG_ANTIALIAS as i32 != 0;
    let mut out = Writer::new(d);
    let (share, x) = (rows(w, &out), Reader::new(node.source(0), &out));
    let grid = Grid { from, ratio, centre };
    match mode {
        GGML_SCALE_MODE_NEAREST => grid.nearest(share, x, &mut out),
        GGML_SCALE_MODE_BILINEAR if smooth => grid.means(share, x, &mut out),
        GGML_SCALE_MODE_BICUBIC => grid.separate(share, x, &mut out, Grid::cubic),
        _ => grid.separate(share, x, &mut out, Grid::linear),
    }
}

/// Places of the elements of a result in an image.
struct Grid {
    /// Sizes of the image.
    from: [usize; 4],
    /// Elements of the result for each of the image.
    ratio: [f32; 4],
    /// The centre of an element.
    centre: f32,
}

/// Elements along a dimension, and their weights.
type Taps<const N: usize> = ([usize; N], [f32; N]);

/// Writes each element of `x` `N` times.
fn repeat<const N: usize>(y: &mut [f32], x: &[f32]) {
    y.as_chunks_mut::<N>().0.iter_mut().zip(x).for_each(|(y, &x)| *y = [x; N]);
}

impl Grid {
    fn clip(&self, i: i64, dim: usize) -> usize {
        i.clamp(0, self.from[dim] as i64 - 1) as usize
    }

    fn near(&self, i: usize, dim: usize) -> usize {
        self.clip((i as f32 / self.ratio[dim]) as i64, dim)
    }

    /// The place of element `i` of the result, between the centres of elements of the image.
    fn place(&self, i: usize, dim: usize) -> f32 {
        (i as f32 + self.centre) / self.ratio[dim] - self.centre
    }

    fn nearest(&self, rows: impl Iterator<Item = RowIndex>, mut x: Reader<'_>, out: &mut Writer<'_>) {
        let width = out.ne[0];
        let [columns, lines, planes, images]: [Vec<usize>; 4] =
            std::array::from_fn(|dim| (0..out.ne[dim]).map(|i| self.near(i, dim)).collect());
        let times = width / self.from[0].max(1);
        let whole = times * self.from[0] == width && columns.iter().enumerate().all(|(i, &at)| at == i / times);
        for row in rows {
            let x = x.row([lines[row[0]], planes[row[1]], images[row[2]]]);
            out.row(row, |y| match times {
                1 if whole => y.copy_from_slice(x),
                2 if whole => repeat::<2>(y, x),
                3 if whole => repeat::<3>(y, x),
                4 if whole => repeat::<4>(y, x),
                _ => y.iter_mut().zip(&columns).for_each(|(y, &i)| *y = x[i]),
            });
        }
    }

    fn linear(&self, i: usize, dim: usize) -> Taps<2> {
        let v = self.place(i, dim);
        let low = self.clip(v.floor() as i64, dim);
        let part = (v - low as f32).clamp(0.0, 1.0);
        ([low, self.clip(v.floor() as i64 + 1, dim)], [1.0 - part, part])
    }

    /// Cubic convolution (Keys 1981) with a = -0.75.
    fn cubic(&self, i: usize, dim: usize) -> Taps<4> {
        const A: f32 = -0.75;
        let inner = |x: f32| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
        let outer = |x: f32| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
        let v = self.place(i, dim);
        let (low, d) = (v.floor() as i64, v - v.floor());
        let at = std::array::from_fn(|i| self.clip(low + i as i64 - 1, dim));
        (at, [outer(d + 1.0), inner(d), inner(1.0 - d), outer(2.0 - d)])
    }

    /// Interpolates along rows, then between rows, with `N` elements each. Keeps the rows of the image that it has
    /// interpolated last.
    fn separate<const N: usize>(
        &self,
        rows: impl Iterator<Item = RowIndex>,
        mut x: Reader<'_>,
        out: &mut Writer<'_>,
        taps: impl Fn(&Self, usize, usize) -> Taps<N>,
    ) {
        let columns: Vec<Taps<N>> = (0..out.ne[0]).map(|i| taps(self, i, 0)).collect();
        let mut kept: [(Option<RowIndex>, Vec<f32>); N] = std::array::from_fn(|_| (None, vec![0.0; columns.len()]));
        for row in rows {
            let (lines, weights) = taps(self, row[0], 1);
            let lines = lines.map(|i1| [i1, self.near(row[1], 2), self.near(row[2], 3)]);
            let kept_at = lines.map(|line| {
                if let Some(at) = kept.iter().position(|(of, _)| *of == Some(line)) {
                    return at;
                }
                // There is one that this row does not need, because it needs this one, too.
                let free = kept.iter().position(|(of, _)| of.is_none_or(|of| !lines.contains(&of))).unwrap_or(0);
                let (of, y) = &mut kept[free];
                *of = Some(line);
                let x = x.row(line);
                for (y, (at, weights)) in y.iter_mut().zip(&columns) {
                    *y = x[at[0]] * weights[0];
                    for tap in 1..N {
                        *y += x[at[tap]] * weights[tap];
                    }
                }
                free
            });
            out.row(row, |y| {
                let lines: [&[f32]; N] = kept_at.map(|at| &kept[at].1[..y.len()]);
                for (i, y) in y.iter_mut().enumerate() {
                    let mut sum = lines[0][i] * weights[0];
                    for tap in 1..N {
                        sum += lines[tap][i] * weights[tap];
                    }
                    *y = sum;
                }
            });
        }
    }

    /// The elements that are near element `i` of a smaller result, and their triangular weights.
    fn area(&self, i: usize, dim: usize) -> (std::ops::Range<usize>, Vec<f32>) {
        let place = (i as f32 + self.centre) / self.ratio[dim];
        let support = (1.0 / self.ratio[dim]).max(1.0);
        let low = ((place - support + self.centre) as i64).clamp(0, self.from[dim] as i64);
        let high = ((place + support + self.centre) as i64).min(self.from[dim] as i64).max(low);
        let weight = |i: i64| (1.0 - ((i as f32 - place + self.centre) / support).abs()).max(0.0);
        (low as usize..high as usize, (low..high).map(weight).collect())
    }

    /// Means over the areas that the elements of a smaller result cover.
    fn means(&self, rows: impl Iterator<Item = RowIndex>, mut x: Reader<'_>, out: &mut Writer<'_>) {
        let columns: Vec<_> = (0..out.ne[0]).map(|i| self.area(i, 0)).collect();
        let mut totals = vec![0f32; columns.len()];
        for row in rows {
            let (lines, by_line) = self.area(row[0], 1);
            let (i2, i3) = (self.near(row[1], 2), self.near(row[2], 3));
            totals.fill(0.0);
            out.row(row, |y| {
                y.fill(0.0);
                for (line, by_line) in lines.zip(by_line) {
                    let x = x.row([line, i2, i3]);
                    for ((y, total), (span, weights)) in y.iter_mut().zip(&mut totals).zip(&columns) {
                        for (x, weight) in x[span.clone()].iter().zip(weights) {
                            let weight = weight * by_line;
                            if weight > 0.0 {
                                *y += x * weight;
                                *total += weight;
                            }
                        }
                    }
                }
                y.iter_mut().zip(&totals).filter(|(_, total)| **total > 0.0).for_each(|(y, total)| *y /= total);
            });
        }
    }
}

/// Requires single precision, a valid mode, and tensors that are not empty.
pub fn check_upscale(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    let mode = ggml_scale_mode::from_raw(node.op_param_i32(0) & 0xff);
    ensure!(mode.is_some_and(|m| m != GGML_SCALE_MODE_COUNT), "mode {}", node.op_param_i32(0));
    ensure!(!s.is_empty() || node.is_empty(), "an empty image");
    Ok(())
}

/// Index of the source for index `i` of the padded dimension, or `None` if the element is padding.
fn origin(i: usize, before: i64, n: usize, around: bool) -> Option<usize> {
    let at = i as i64 - before;
    match around {
        true => Some(at.rem_euclid(n as i64) as usize),
        false => usize::try_from(at).ok().filter(|&at| at < n),
    }
}

/// Writes `x`, with elements before and after it: zeros, or those of further copies of `x`.
fn pad_row(y: &mut [f32], before: usize, x: &[f32], around: bool) {
    if !around {
        let (head, rest) = y.split_at_mut(before);
        let (middle, tail) = rest.split_at_mut(x.len());
        head.fill(0.0);
        middle.copy_from_slice(x);
        tail.fill(0.0);
        return;
    }
    let mut from = origin(0, before as i64, x.len(), true).unwrap_or(0);
    let mut rest = y;
    while !rest.is_empty() {
        let n = rest.len().min(x.len() - from);
        let (part, later) = rest.split_at_mut(n);
        part.copy_from_slice(&x[from..][..n]);
        (rest, from) = (later, 0);
    }
}

/// Pads each dimension. Parameters 0 to 7: numbers of elements before and after, for each dimension. Parameter 8:
/// whether to wrap around instead of padding with zeros.
pub fn pad(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let before: [i64; 4] = std::array::from_fn(|i| i64::from(node.op_param_i32(2 * i)));
    let around = node.op_param_i32(8) != 0;
    let x = node.source(0);
    let ne = x.ne;
    let from = |i: usize, at: usize| origin(at, before[i], ne[i], around);
    let before = before[0] as usize;
    if x.is_empty() {
        let mut out = Writer::new(d);
        return rows(w, &out).for_each(|row| out.row(row, |y| y.fill(0.0)));
    }
    let dense = x.is_dense() && d.is_dense() && x.is_sliceable::<f32>() && d.is_sliceable::<f32>();
    if let Some(x) = x.try_apart(&d).filter(|_| dense) {
        // The rows of a plane together: for short rows, finding each one takes longer than copying it.
        let (width, share) = (d.ne[0], w.share(d.nrows()));
        let mut next = share.start;
        while next < share.end {
            let [first, i2, i3] = d.row_index(next);
            let n = (d.ne[1] - first).min(share.end - next);
            let plane = match (from(2, i2), from(3, i3)) {
                (Some(i2), Some(i3)) => x.span::<f32>((i3 * ne[2] + i2) * ne[0] * ne[1], ne[0] * ne[1]),
                _ => &[],
            };
            let y = d.span_mut::<f32>(next * width, n * width);
            for (i1, y) in y.chunks_exact_mut(width).enumerate() {
                match from(1, first + i1).filter(|_| !plane.is_empty()) {
                    Some(i1) => pad_row(y, before, &plane[i1 * ne[0]..][..ne[0]], around),
                    None => y.fill(0.0),
                }
            }
            next += n;
        }
        return;
    }
    let mut x = Reader::new(x, &d);
    let mut out = Writer::new(d);
    for row in rows(w, &out) {
        let (Some(i1), Some(i2), Some(i3)) = (from(1, row[0]), from(2, row[1]), from(3, row[2])) else {
            out.row(row, |y| y.fill(0.0));
            continue;
        };
        let x = x.row([i1, i2, i3]);
        out.row(row, |y| pad_row(y, before, x, around));
    }
}

/// Requires single precision, and the shape that results from the parameters.
pub fn check_pad(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    for i in 0..4 {
        let (before, after) = (i64::from(node.op_param_i32(2 * i)), i64::from(node.op_param_i32(2 * i + 1)));
        ensure!(before >= 0 && after >= 0, "{before} before and {after} after {}", s.ne()[i]);
        ensure!(node.ne()[i] == s.ne()[i] + before + after, "{:?} into {:?}", s.ne(), node.ne());
    }
    ensure!(!s.is_empty() || node.op_param_i32(8) == 0, "nothing goes around a torus");
    Ok(())
}

/// Pads rows with reflections of their ends. Parameters 0 and 1: numbers of elements before and after.
pub fn pad_reflect_1d(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let before = node.op_param_i32(0) as usize;
    let mut x = Reader::new(node.source(0), &d);
    let mut out = Writer::new(d);
    for row in rows(w, &out) {
        let x = x.row(row);
        out.row(row, |y| {
            let (head, rest) = y.split_at_mut(before);
            let (middle, tail) = rest.split_at_mut(x.len());
            head.iter_mut().rev().zip(&x[1..]).for_each(|(y, x)| *y = *x);
            middle.copy_from_slice(x);
            tail.iter_mut().zip(x.iter().rev().skip(1)).for_each(|(y, x)| *y = *x);
        });
    }
}

/// Requires single precision, and less padding than the length of the row.
pub fn check_pad_reflect_1d(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    let (before, after, n) = (i64::from(node.op_param_i32(0)), i64::from(node.op_param_i32(1)), s.ne()[0]);
    ensure!((0..n).contains(&before) && (0..n).contains(&after), "{before} and {after} elements of {n} mirrored");
    ensure!(node.ne()[0] == n + before + after && node.ne()[1..] == s.ne()[1..], "{:?} into {:?}", s.ne(), node.ne());
    Ok(())
}

/// Shifts the elements along each dimension by parameters 0 to 3, with wrap-around.
pub fn roll(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let by: Vec<i64> = (0..4).map(|i| i64::from(node.op_param_i32(i))).collect();
    let mut x = Reader::new(node.source(0), &d);
    let ne = x.ne;
    let mut out = Writer::new(d);
    let from = |i: usize, dim: usize| (i as i64 - by[dim]).rem_euclid(ne[dim] as i64) as usize;
    for row in rows(w, &out) {
        let x = x.row([from(row[0], 1), from(row[1], 2), from(row[2], 3)]);
        let start = from(0, 0);
        out.row(row, |y| {
            let (head, tail) = y.split_at_mut(x.len() - start);
            head.copy_from_slice(&x[start..]);
            tail.copy_from_slice(&x[..start]);
        });
    }
}

/// Requires single precision and one shape.
pub fn check_roll(node: TensorRef) -> Result<()> {
    super::check_map_f32(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::tests::*;
    use crate::tensor::ops::{image, view};

    #[test]
    fn images_in_other_sizes() {
        let mut c = ctx();
        let na = [9, 7, 3, 2];
        let a = floats(&mut c, &na, 1);
        let x = read(a);
        for to in [[9, 7, 3, 2], [18, 14, 3, 2], [27, 21, 6, 2], [36, 7, 3, 4], [13, 5, 3, 2], [1, 1, 3, 2]] {
            let scale = |i: usize| to[i] as f64 / na[i] as f64;
            let near_to = |i: i64, d: usize| ((i as f64 / scale(d)) as i64).min(na[d] - 1);
            let t = image::interpolate(&mut c, a, to, GGML_SCALE_MODE_NEAREST as u32).unwrap();
            let got = compute(t);
            near(&got, indices(to).map(|i| at(&x, na, std::array::from_fn(|d| near_to(i[d], d)))), 0.0);

            let place = |i: i64, d: usize| (i as f64 + 0.5) / scale(d) - 0.5;
            let clip = |i: f64, d: usize| (i as i64).clamp(0, na[d] - 1);
            for (mode, reach) in [(GGML_SCALE_MODE_BILINEAR, 1), (GGML_SCALE_MODE_BICUBIC, 2)] {
                let weight = |v: f64| match (reach, v.abs()) {
                    (1, v) => (1.0 - v).max(0.0),
                    (_, v) if v <= 1.0 => (1.25 * v - 2.25) * v * v + 1.0,
                    (_, v) if v < 2.0 => -0.75 * (((v - 5.0) * v + 8.0) * v - 4.0),
                    _ => 0.0,
                };
                let t = image::interpolate(&mut c, a, to, mode as u32).unwrap();
                let want = indices(to).map(|i| {
                    let (px, py) = (place(i[0], 0), place(i[1], 1));
                    let [i2, i3] = [near_to(i[2], 2), near_to(i[3], 3)];
                    let offsets = indices([2 * reach, 2 * reach, 1, 1]);
                    offsets
                        .map(|[dx, dy, ..]| {
                            let (ix, iy) = (px.floor() + (dx - reach + 1) as f64, py.floor() + (dy - reach + 1) as f64);
                            weight(px - ix) * weight(py - iy) * at(&x, na, [clip(ix, 0), clip(iy, 1), i2, i3])
                        })
                        .sum()
                });
                near(&compute(t), want, 1e-5);
            }
        }
    }

    #[test]
    fn smaller_images_are_means() {
        let mut c = ctx();
        let (na, to) = ([12, 9, 2, 1], [4, 3, 2, 1]);
        let a = floats(&mut c, &na, 1);
        let mode = GGML_SCALE_MODE_BILINEAR as u32 | ggml_scale_flag::GGML_SCALE_FLAG_ANTIALIAS as u32;
        let t = image::interpolate(&mut c, a, to, mode).unwrap();
        let x = read(a);
        let taps = |i: i64, n: i64| {
            let centre = 3.0 * i as f64 + 1.5;
            (0..n).map(move |j| (j, (1.0 - (j as f64 + 0.5 - centre).abs() / 3.0).max(0.0)))
        };
        let want = indices(to).map(|[ox, oy, i2, _]| {
            let (mut sum, mut total) = (0.0, 0.0);
            for (iy, wy) in taps(oy, na[1]) {
                for (ix, wx) in taps(ox, na[0]) {
                    sum += wx * wy * at(&x, na, [ix, iy, i2, 0]);
                    total += wx * wy;
                }
            }
            sum / total
        });
        near(&compute(t), want, 1e-5);
    }

    #[test]
    fn padding_of_every_dimension() {
        let ne = [7, 5, 3, 2];
        for by in [[1, 2, 0, 3, 1, 0, 2, 1], [0, 9, 6, 0, 0, 4, 0, 0], [8, 15, 11, 1, 0, 0, 3, 3], [0; 8]] {
            for around in [false, true] {
                for permuted in [false, true] {
                    let mut c = ctx();
                    let mut a = floats(&mut c, &ne, 3);
                    let mut na = ne;
                    if permuted {
                        a = view::permute(&mut c, a, [1, 0, 2, 3]).unwrap();
                        na = a.ne();
                    }
                    let t = image::pad(&mut c, a, by, around).unwrap();
                    let x = read(a);
                    let want = indices(t.ne()).map(|i| {
                        let from = std::array::from_fn(|d| i[d] - i64::from(by[2 * d]));
                        at(&x, na, if around { std::array::from_fn(|d| from[d].rem_euclid(na[d])) } else { from })
                    });
                    near(&compute(t), want, 0.0);
                }
            }
        }
    }

    #[test]
    fn rows_are_mirrored_at_their_ends() {
        for (before, after) in [(0, 0), (3, 8), (8, 0), (1, 5)] {
            let mut c = ctx();
            let ne = [9, 5, 2, 1];
            let a = floats(&mut c, &ne, 4);
            let t = image::pad_reflect_1d(&mut c, a, before, after).unwrap();
            let x = read(a);
            let mirrored = |i: i64| if i > 8 { 16 - i } else { i.abs() };
            let want = indices(t.ne()).map(|i| at(&x, ne, [mirrored(i[0] - i64::from(before)), i[1], i[2], i[3]]));
            near(&compute(t), want, 0.0);
        }
    }
}
