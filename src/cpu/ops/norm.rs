//! Normalisation of rows and of groups of channels.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Layout, Reader, Writer, rows};
use super::super::checked::CheckedNode;
use super::super::ensure::{ensure, src};
use super::{check_map_f32, check_type};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;

fn each_row(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>, f: impl Fn(&mut [f32])) {
    let s = node.source(0);
    let mut out = Writer::new(d);
    for row in rows(w, &out) {
        out.row(row, |y| {
            s.load(row, 0, y);
            f(y);
        });
    }
}

/// The factor of a norm, rounded once.
fn reciprocal_root(mean_square: f64, eps: f32) -> f32 {
    (1.0 / (mean_square + f64::from(eps)).sqrt()) as f32
}

/// Normalises rows to mean 0 and variance 1. Parameter 0 is added to the variance.
pub fn norm(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let eps = node.op_param_f32(0);
    each_row(w, node, d, |y| {
        let n = y.len() as f64;
        let mean = vec::sum(y) / n;
        let mut variance = vec::center(y, mean as f32) / n;
        // If the mean is large compared with the deviation, rounding it to single precision leaves an error: centre
        // once more. In single precision, like the sums: squares of tiny numbers are zero there.
        if (mean as f32) * (mean as f32) > 64.0 * variance as f32 {
            let rest = vec::sum(y) / n;
            variance = vec::center(y, rest as f32) / n;
        }
        vec::scale(y, reciprocal_root(variance, eps));
    });
}

/// Normalises rows to mean square 1. Parameter 0 is added to the mean square.
pub fn rms_norm(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let eps = node.op_param_f32(0);
    each_row(w, node, d, |y| {
        vec::scale(y, reciprocal_root(vec::sum_squares(y) / y.len() as f64, eps));
    });
}

/// Normalises rows to length 1. Parameter 0 is the minimum of the divisor.
pub fn l2_norm(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let eps = node.op_param_f32(0);
    each_row(w, node, d, |y| {
        // Not `max`, which would hide NaN.
        let (length, least) = (vec::sum_squares(y).sqrt(), f64::from(eps));
        let length = if length < least { least } else { length };
        vec::scale(y, (1.0 / length) as f32);
    });
}

/// Requires single precision, the same shape, and a parameter 0 that is not negative.
pub fn check_norm(node: TensorRef) -> Result<()> {
    check_map_f32(node)?;
    ensure!(node.op_param_f32(0) >= 0.0, "epsilon {} is negative", node.op_param_f32(0));
    Ok(())
}

/// Normalises groups of channels (dimension 2) to mean 0 and variance 1. Parameter 0 is the number of groups, and
/// parameter 1 is added to the variance.
pub fn group_norm(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let s = node.source(0);
    let (groups, eps) = (node.op_param_i32(0) as usize, node.op_param_f32(1));
    // If there are more groups than channels, each channel is a group, and the other groups are empty.
    let groups = groups.min(d.ne[2]);
    let (height, per_group) = (d.ne[1], d.ne[2].div_ceil(groups));
    for i in w.share(groups * d.ne[3]) {
        let (i3, first) = (i / groups, i % groups * per_group);
        let channels = first.min(d.ne[2])..(first + per_group).min(d.ne[2]);
        let count = (channels.len() * d.ne[1] * d.ne[0]) as f64;
        let planes = || channels.clone().flat_map(|i2| (0..height).map(move |i1| [i1, i2, i3]));
        let mut sum = 0.0;
        for row in planes() {
            d.copy_row(row, &s, row);
            sum += vec::sum(d.row_mut::<f32>(row));
        }
        let mean = (sum / count) as f32;
        let mut squares = 0.0;
        for row in planes() {
            let y = d.row_mut::<f32>(row);
            squares += vec::center(y, mean);
        }
        let factor = reciprocal_root(squares / count, eps);
        planes().for_each(|row| vec::scale(d.row_mut::<f32>(row), factor));
    }
}

/// Requires single precision, the same shape, at least one group, and dense rows.
pub fn check_group_norm(node: TensorRef) -> Result<()> {
    check_map_f32(node)?;
    ensure!(node.op_param_i32(0) > 0, "{} groups", node.op_param_i32(0));
    ensure!(Layout::of(node).has_dense_rows(), "rows with gaps");
    Ok(())
}

/// Gradient of `rms_norm`: source 0 is the gradient of the result, source 1 the argument.
pub fn rms_norm_back(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let eps = node.op_param_f32(0);
    let (mut grad, mut x) = (Reader::new(node.source(0), &d), Reader::new(node.source(1), &d));
    let mut out = Writer::new(d);
    for row in rows(w, &out) {
        let (dy, x) = (grad.row(row), x.row(row));
        let n = x.len() as f64;
        let squares = vec::sum_squares(x);
        let factor = reciprocal_root(squares / n, eps);
        let along = (-vec::dot_wide(x, dy) / (squares + f64::from(eps) * n)) as f32;
        out.row(row, |y| {
            for ((y, x), dy) in y.iter_mut().zip(x).zip(dy) {
                *y = (x * along + dy) * factor;
            }
        });
    }
}

/// Requires a gradient and an argument in single precision with the shape of the node.
pub fn check_rms_norm_back(node: TensorRef) -> Result<()> {
    check_map_f32(node)?;
    let x = src(node, 1)?;
    check_type(x, GGML_TYPE_F32)?;
    ensure!(x.same_shape(node), "gradient and argument differ");
    Ok(())
}
