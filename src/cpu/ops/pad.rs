//! Borders and rotation: padding with zeros, around a torus, by reflection; rolling.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Reader, Writer, rows};
use super::super::check::{CheckedNode, ensure, src};
use super::check_type;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::Worker;
use crate::error::Result;
use crate::tensor::TensorRef;

/// Where index `i` of the padded dimension comes from; `None`: from nowhere.
fn origin(i: usize, before: i64, n: usize, around: bool) -> Option<usize> {
    let at = i as i64 - before;
    match around {
        true => Some(at.rem_euclid(n as i64) as usize),
        false => usize::try_from(at).ok().filter(|&at| at < n),
    }
}

/// Parameters 0 to 7: elements before and after, for each dimension; 8: around a torus instead of zeros.
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

/// Single precision; the node is as much larger as the parameters say.
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

/// Rows mirrored at their ends: parameter 0 elements before, 1 after.
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

/// Single precision; the borders are shorter than the row.
pub fn check_pad_reflect_1d(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    let (before, after, n) = (i64::from(node.op_param_i32(0)), i64::from(node.op_param_i32(1)), s.ne()[0]);
    ensure!((0..n).contains(&before) && (0..n).contains(&after), "{before} and {after} elements of {n} mirrored");
    ensure!(node.ne()[0] == n + before + after && node.ne()[1..] == s.ne()[1..], "{:?} into {:?}", s.ne(), node.ne());
    Ok(())
}

/// Elements moved along each dimension by parameters 0 to 3, around the end.
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

/// Single precision of one shape.
pub fn check_roll(node: TensorRef) -> Result<()> {
    super::check_map_f32(node)
}
