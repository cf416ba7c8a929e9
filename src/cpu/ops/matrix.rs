//! Square matrices: diagonals, triangles, triangular systems.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Layout, Reader, Writer, rows};
use super::super::checked::CheckedNode;
use super::super::ensure::{ensure, src};
use super::{check_map_f32, check_type};
use crate::abi::ggml::ggml_tri_type::{self, *};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::Worker;
use crate::cpu::batch::{MAX_CHAIN, Matrix, Results, add_product};
use crate::error::Result;
use crate::tensor::TensorRef;

/// Sets one side of the diagonal to zero.
pub fn tri(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let Some(kind) = ggml_tri_type::from_raw(node.op_param_i32(0)) else { return };
    let s = node.source(0);
    let mut out = Writer::new(d);
    for row in rows(w, &out) {
        let at = row[0];
        let stays = |i: usize| match kind {
            GGML_TRI_TYPE_LOWER => i < at,
            GGML_TRI_TYPE_LOWER_DIAG => i <= at,
            GGML_TRI_TYPE_UPPER => i > at,
            GGML_TRI_TYPE_UPPER_DIAG => i >= at,
        };
        out.row(row, |y| {
            s.load(row, 0, y);
            y.iter_mut().enumerate().filter(|(i, _)| !stays(*i)).for_each(|(_, y)| *y = 0.0);
        });
    }
}

/// Requires single precision and a valid kind.
pub fn check_tri(node: TensorRef) -> Result<()> {
    check_map_f32(node)?;
    ensure!(ggml_tri_type::from_raw(node.op_param_i32(0)).is_some(), "triangle {}", node.op_param_i32(0));
    Ok(())
}

/// Diagonal matrices from rows.
pub fn diag(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let mut x = Reader::new(node.source(0), &d);
    let mut out = Writer::new(d);
    for row in rows(w, &out) {
        let value = x.part([0, row[1], row[2]], row[0]..row[0] + 1)[0];
        out.row(row, |y| {
            y.fill(0.0);
            y[row[0]] = value;
        });
    }
}

/// Requires single precision, and rows as long as those of the matrices.
pub fn check_diag(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    let (a, n) = (s.ne(), node.ne());
    ensure!(n == [a[0], a[0], a[2], a[3]] && a[1] == 1, "{a:?} into {n:?}");
    Ok(())
}

fn diag_mask(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>, value: f32) {
    let s = node.source(0);
    let past = node.op_param_i32(0) as usize;
    let mut out = Writer::new(d);
    for row in rows(w, &out) {
        out.row(row, |y| {
            s.load(row, 0, y);
            y.iter_mut().skip(past + row[0] + 1).for_each(|y| *y = value);
        });
    }
}

/// Sets elements right of the diagonal to negative infinity. Parameter 0 shifts the diagonal to the right.
pub fn diag_mask_inf(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    diag_mask(w, node, d, f32::NEG_INFINITY);
}

/// Sets elements right of the diagonal to zero. Parameter 0 shifts the diagonal to the right.
pub fn diag_mask_zero(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    diag_mask(w, node, d, 0.0);
}

/// Requires single precision, and a parameter 0 that is not negative.
pub fn check_diag_mask(node: TensorRef) -> Result<()> {
    check_map_f32(node)?;
    ensure!(node.op_param_i32(0) >= 0, "{} columns in the past", node.op_param_i32(0));
    Ok(())
}

/// Solves lower triangular systems. Source 0 is `[n, n, ..]`; source 1 and the node are `[columns, n, ..]`.
pub fn solve_tri(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    // Columns that are solved together.
    const TOGETHER: usize = 64;
    let (a, b) = (node.source(0).apart(&d), node.source(1));
    let mut out = Writer::new(d);
    let [columns, n, n2, n3] = out.ne;
    let parts = columns.div_ceil(TOGETHER);
    let (mut solved, mut sums) = (vec![0.0; n * TOGETHER], [0.0; TOGETHER]);
    for i in w.until_stopped(w.share(parts * n2 * n3)) {
        let (start, i2, i3) = (i % parts * TOGETHER, i / parts % n2, i / parts / n2);
        let part = start..(start + TOGETHER).min(columns);
        let width = part.len();
        for row in w.until_stopped(0..n) {
            let a = a.row::<f32>([row, i2, i3]);
            let (known, rest) = solved.split_at_mut(row * width);
            let sums = &mut sums[..width];
            sums.fill(0.0);
            let (known, weights) = (Matrix { data: known, stride: width }, Matrix { data: a, stride: n });
            add_product(known, [row, width], weights, &[0], Results { data: sums, stride: width }, MAX_CHAIN);
            let x = &mut rest[..width];
            b.load([row, i2, i3], part.start, x);
            x.iter_mut().zip(&*sums).for_each(|(x, sum)| *x = (*x - sum) / a[row]);
            out.part([row, i2, i3], part.clone(), |y| y.copy_from_slice(x));
        }
    }
}

/// Requires square matrices, and right-hand sides with the shape of the node.
pub fn check_solve_tri(node: TensorRef) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    for t in [a, b, node] {
        check_type(t, GGML_TYPE_F32)?;
    }
    let (x, y) = (a.ne(), b.ne());
    ensure!(b.same_shape(node) && x[0] == x[1] && x[1] == y[1] && x[2..] == y[2..], "{x:?} and {y:?}");
    ensure!(Layout::of(a).has_dense_rows(), "rows with gaps");
    Ok(())
}

#[cfg(test)]
mod tests {

    use crate::cpu::tests::*;
    use crate::tensor::ops::matrix;

    #[test]
    fn solutions_of_triangular_systems() {
        for (n, columns) in [(1, 1), (5, 3), (33, 70), (64, 1)] {
            let mut c = ctx();
            let (a, b) = (floats(&mut c, &[n, n, 2, 3], 1), floats(&mut c, &[columns, n, 2, 3], 2));
            // Well-conditioned matrices. Elements above the diagonal are ignored.
            let mut x = read(a);
            for (x, [i0, i1, ..]) in x.iter_mut().zip(indices(a.ne())) {
                *x = if i0 == i1 { 2.0 + x.abs() } else { *x / n as f32 };
            }
            write(a, &x);
            let t = matrix::solve_tri(&mut c, a, b, true, true, false).unwrap();
            let got = compute(t);
            let back = indices(b.ne()).map(|[j, i, i2, i3]| {
                (0..=i).map(|k| at(&x, a.ne(), [k, i, i2, i3]) * at(&got, b.ne(), [j, k, i2, i3])).sum::<f64>()
            });
            near(&read(b), back, 1e-5);
        }
    }
}
