//! Reductions: sums, means, argmax, cumulative sums, counts.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Reader, Writer, rows};
use super::super::checked::CheckedNode;
use super::super::ensure::{ensure, src};
use super::{check_map_f32, check_type, is_float};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;

/// Sum of all elements.
pub fn sum(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    if w.ith() != 0 {
        return;
    }
    let mut x = Reader::new(node.source(0), &d);
    let total: f64 = (0..x.nrows()).map(|r| vec::sum(x.row(x.row_index(r)))).sum();
    d.store([0; 3], 0, &[total as f32]);
}

/// Requires floats, and a node with one element of their format.
pub fn check_sum(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    ensure!(is_float(s.dtype()) && s.dtype() == node.dtype() && node.is_scalar(), "sum of {:?}", s.dtype());
    Ok(())
}

fn row_sums(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>, f: impl Fn(f64, usize) -> f32) {
    let mut x = Reader::new(node.source(0), &d);
    let n = x.ne[0];
    for row in rows(w, &d) {
        d.set(0, row, f(vec::sum(x.row(row)), n));
    }
}

/// Sum of each row.
pub fn sum_rows(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    row_sums(w, node, d, |sum, _| sum as f32);
}

/// Mean of each row.
pub fn mean(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    row_sums(w, node, d, |sum, n| (sum / n as f64) as f32);
}

/// Requires single precision, and a node with one element for each row.
pub fn check_row_sums(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    ensure!(node.ne()[0] == 1 && node.ne()[1..] == s.ne()[1..], "{:?} into {:?}", s.ne(), node.ne());
    Ok(())
}

/// Index of the largest element of each row, the last of equal ones.
pub fn argmax(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let mut x = Reader::new(node.source(0), &d);
    for r in w.share(x.ne[1]) {
        d.set(r, [0; 3], last_greatest(x.row([r, 0, 0])) as i32);
    }
}

/// Index of the last of the greatest elements, ignoring NaN; 0 if all are NaN. Hosts that sample greedily in a graph
/// depend on the last one: it is the original's choice.
fn last_greatest(x: &[f32]) -> usize {
    // Finds the part first, in vectors, so that only one part is searched element by element.
    const PART: usize = 1024;
    let (mut start, mut top) = (0, f32::NEG_INFINITY);
    for (i, part) in x.chunks(PART).enumerate() {
        let here = vec::max(part);
        if here >= top {
            (start, top) = (i * PART, here);
        }
    }
    if top == f32::NEG_INFINITY {
        // The maximum of a part of NaN is minus infinity, too.
        return x.iter().rposition(|&x| x == top).unwrap_or(0);
    }
    let end = x.len().min(start + PART);
    start + x[start..end].iter().rposition(|&x| x == top).unwrap_or(0)
}

/// Requires a matrix in single precision, and a row of indices.
pub fn check_argmax(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_I32)?;
    ensure!(s.is_matrix() && node.is_vector() && node.ne()[0] == s.ne()[1], "{:?} into {:?}", s.ne(), node.ne());
    Ok(())
}

/// Cumulative sums of rows.
pub fn cumsum(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let s = node.source(0);
    let mut out = Writer::new(d);
    for row in rows(w, &out) {
        out.row(row, |y| {
            s.load(row, 0, y);
            let mut sum = 0.0;
            y.iter_mut().for_each(|y| {
                sum += *y;
                *y = sum;
            });
        });
    }
}

/// Requires single precision and one shape.
pub fn check_cumsum(node: TensorRef) -> Result<()> {
    check_map_f32(node)
}

/// Number of equal elements of two integer tensors.
pub fn count_equal(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    if w.ith() != 0 {
        return;
    }
    let (a, b) = (node.source(0), node.source(1));
    let equal = |row| (0..a.ne[0]).filter(|&i| a.get::<i32>(i, row) == b.get::<i32>(i, row)).count() as i64;
    let total: i64 = (0..a.nrows()).map(|r| equal(a.row_index(r))).sum();
    d.set(0, [0; 3], total);
}

/// Requires two integer tensors of one shape, and a 64-bit count.
pub fn check_count_equal(node: TensorRef) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    check_type(a, GGML_TYPE_I32)?;
    check_type(b, GGML_TYPE_I32)?;
    check_type(node, GGML_TYPE_I64)?;
    ensure!(a.same_shape(b) && node.is_scalar(), "{:?} and {:?}", a.ne(), b.ne());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::last_greatest;

    #[test]
    fn the_last_of_the_greatest_elements() {
        let (low, nan) = (f32::NEG_INFINITY, f32::NAN);
        for (x, want) in [
            (&[nan, low, low, nan][..], 2),
            (&[1.0, 1.0], 1),
            (&[nan, 1.0, 1.0, nan, 0.5], 2),
            (&[low, -0.0, 0.0, -0.0, low], 3),
            (&[nan, nan], 0),
            (&[low, f32::INFINITY, f32::INFINITY, nan], 2),
        ] {
            assert_eq!(last_greatest(x), want, "{x:?}");
        }
        // Minus infinity in a part before one of NaN.
        let mut x = vec![nan; 3000];
        x[5] = low;
        assert_eq!(last_greatest(&x), 5);
        for n in [1, 1023, 1024, 1025, 5000] {
            for at in [0, n / 2, n - 1] {
                let mut x: Vec<f32> = (0..n).map(|i| (i % 7) as f32).collect();
                x[at] = 9.0;
                x[0] = 9.0;
                assert_eq!(last_greatest(&x), at);
            }
        }
    }
}
