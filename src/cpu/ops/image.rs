//! Images and lines: padding, rolling, resizing.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Reader, Source, Writer, rows};
use super::super::check::{CheckedNode, ensure, src};
use super::check_type;
use crate::abi::ggml::ggml_scale_flag;
use crate::abi::ggml::ggml_scale_mode::{self, *};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::Worker;
use crate::error::Result;
use crate::tensor::TensorRef;

/// Resizes by interpolation. Parameter 0: mode and flags.
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

/// Mean over the area that an element of a smaller result covers, with triangular weights.
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

/// Pads each dimension. Parameters 0 to 7: numbers of elements before and after, for each dimension. Parameter 8: whether to wrap
/// around instead of padding with zeros.
pub fn pad(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let before: Vec<i64> = (0..4).map(|i| i64::from(node.op_param_i32(2 * i))).collect();
    let around = node.op_param_i32(8) != 0;
    let mut x = Reader::new(node.source(0), &d);
    let ne = x.ne;
    let mut out = Writer::new(d);
    for row in rows(w, &out) {
        if x.is_empty() {
            out.row(row, |y| y.fill(0.0));
            continue;
        }
        let from = |i: usize| origin(row[i - 1], before[i], ne[i], around);
        let (Some(i1), Some(i2), Some(i3)) = (from(1), from(2), from(3)) else {
            out.row(row, |y| y.fill(0.0));
            continue;
        };
        let x = x.row([i1, i2, i3]);
        out.row(row, |y| {
            for (i, y) in y.iter_mut().enumerate() {
                *y = origin(i, before[0], x.len(), around).map_or(0.0, |i| x[i]);
            }
        });
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
    let before = node.op_param_i32(0) as isize;
    let mut x = Reader::new(node.source(0), &d);
    let mut out = Writer::new(d);
    for row in rows(w, &out) {
        let x = x.row(row);
        let last = x.len() as isize - 1;
        out.row(row, |y| {
            for (i, y) in y.iter_mut().enumerate() {
                let at = (i as isize - before).abs();
                *y = x[(if at > last { 2 * last - at } else { at }) as usize];
            }
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
