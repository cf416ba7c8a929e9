//! Checks of matrix products, whose kernels are in `cpu::matmul`, and sums of outer products.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Writer};
use super::super::checked::CheckedNode;
use super::super::convert;
use super::super::ensure::{ensure, src};
use super::check_type;
use crate::abi::ggml::ggml_type::{self, *};
use crate::cpu::batch::{MAX_ROWS, Matrix, Results, add_weighted};
use crate::cpu::matmul::can;
use crate::cpu::{Worker, repack};
use crate::error::Result;
use crate::tensor::TensorRef;

pub use super::super::matmul::{SHARED, SHARED_BY_EXPERTS};
pub use super::super::matmul::{mul_mat, mul_mat_id, scratch_mul_mat, scratch_mul_mat_id};

fn check_formats(weights: TensorRef, act: ggml_type) -> Result<()> {
    let w = weights.dtype();
    ensure!(!repack::is_interleaved(weights) || act.blck_size() == 1, "interleaved {w:?} and {act:?}");
    ensure!(can(w, act), "product of {w:?} and {act:?}");
    ensure!(weights.nb()[0] == w.type_size(), "transposed weights");
    Ok(())
}

/// Requires weights of any format, activations in a format that can be multiplied with them, and matrices in whole
/// groups.
pub fn check_mul_mat(node: TensorRef) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    check_type(node, GGML_TYPE_F32)?;
    check_formats(a, b.dtype())?;
    let (x, y, n) = (a.ne(), b.ne(), node.ne());
    ensure!(x[0] == y[0] && n == [x[1], y[1], y[2], y[3]], "{x:?} by {y:?} into {n:?}");
    ensure!(x[2] > 0 && x[3] > 0 && y[2] % x[2] == 0 && y[3] % x[3] == 0, "{x:?} by {y:?}");
    ensure!(b.dtype() == GGML_TYPE_F32 || b.nb()[0] == b.dtype().type_size(), "transposed activations");
    ensure!(node.nb()[0] == 4, "a transposed result");
    Ok(())
}

/// Requires what [`check_mul_mat`] does for formats, and a matrix of indices of matrices.
pub fn check_mul_mat_id(node: TensorRef) -> Result<()> {
    let (a, b, ids) = (src(node, 0)?, src(node, 1)?, src(node, 2)?);
    check_type(node, GGML_TYPE_F32)?;
    check_type(ids, GGML_TYPE_I32)?;
    check_formats(a, b.dtype())?;
    let (x, y, i, n) = (a.ne(), b.ne(), ids.ne(), node.ne());
    ensure!(x[0] == y[0] && n == [x[1], i[0], y[2], 1], "{x:?} by {y:?} with {i:?} into {n:?}");
    ensure!(x[3] == 1 && y[3] == 1 && i[2] == 1 && i[3] == 1 && i[1] == y[2], "{x:?} by {y:?} with {i:?}");
    ensure!(y[1] > 0 && i[0] % y[1] == 0, "{} indices for {} columns", i[0], y[1]);
    ensure!(b.dtype() == GGML_TYPE_F32 || b.nb()[0] == b.dtype().type_size(), "transposed activations");
    ensure!(node.nb()[0] == 4, "a transposed result");
    Ok(())
}

/// Whether a product is large enough for several threads.
pub fn is_large(node: TensorRef) -> bool {
    node.src(0).is_some_and(|a| node.nelements().saturating_mul(a.ne()[0]) >= 1 << 15)
}

/// Sum over rows of outer products: `dst[i, j] = sum over k of src0[i, k] * src1[j, k]`.
pub fn out_prod(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    // Rows of the result that are computed together, so that a row of source 0 is read once for all of them.
    const TOGETHER: usize = 12;
    let (a, b) = (node.source(0), node.source(1));
    let direct = a.float_rows(&d);
    let mut out = Writer::new(d);
    let [n, n1, ..] = out.ne;
    let (per2, per3) = (out.ne[2] / a.ne[2], out.ne[3] / a.ne[3]);
    let mut sums = vec![0.0; TOGETHER * n];
    let mut converted = vec![0.0; if direct.is_none() { MAX_ROWS.min(a.ne[1]) * n } else { 0 }];
    let (mut factors, mut weights) = ([0.0; TOGETHER], [0.0; TOGETHER * MAX_ROWS]);
    let which: [usize; TOGETHER] = std::array::from_fn(|i| i);
    let mut left = w.share(out.nrows());
    // Up to `TOGETHER` rows of one matrix.
    let blocks = std::iter::from_fn(move || {
        let first = left.start;
        let rows = TOGETHER.min(left.len()).min(n1 - first % n1.max(1));
        left.start += rows;
        (rows > 0).then_some((first, rows))
    });
    for (first, rows) in w.until_stopped(blocks) {
        let [i1, i2, i3] = out.row_index(first);
        let sums = &mut sums[..rows * n];
        sums.fill(0.0);
        for start in (0..a.ne[1]).step_by(MAX_ROWS) {
            let ks = start..(start + MAX_ROWS).min(a.ne[1]);
            for (j, k) in ks.clone().enumerate() {
                b.load([k, i2, i3], i1, &mut factors[..rows]);
                factors[..rows].iter().enumerate().for_each(|(i, &factor)| weights[i * MAX_ROWS + j] = factor);
            }
            let from = |k: usize| [k, i2 / per2, i3 / per3];
            let mut values: [&[f32]; MAX_ROWS] = [&[]; MAX_ROWS];
            match &direct {
                Some(direct) => values.iter_mut().zip(ks.clone()).for_each(|(row, k)| *row = direct.row(from(k))),
                None => {
                    converted.chunks_exact_mut(n).zip(ks.clone()).for_each(|(row, k)| a.load(from(k), 0, row));
                    values.iter_mut().zip(converted.chunks_exact(n)).for_each(|(value, row)| *value = row);
                }
            }
            let weights = Matrix { data: &weights, stride: MAX_ROWS };
            add_weighted(&values[..ks.len()], weights, &which[..rows], Results { data: sums, stride: n });
        }
        for (r, sums) in sums.chunks_exact(n).enumerate() {
            out.row([i1 + r, i2, i3], |y| y.copy_from_slice(sums));
        }
    }
}

/// Requires floats or blocks for source 0, and single precision for source 1.
pub fn check_out_prod(node: TensorRef) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    check_type(node, GGML_TYPE_F32)?;
    check_type(b, GGML_TYPE_F32)?;
    ensure!(convert::readable(a.dtype()) && a.dtype() != GGML_TYPE_I32, "products of {:?}", a.dtype());
    let (x, y, n) = (a.ne(), b.ne(), node.ne());
    ensure!(n == [x[0], y[0], y[2], y[3]] && x[1] == y[1], "{x:?} by {y:?} into {n:?}");
    ensure!(x[2] > 0 && x[3] > 0 && y[2] % x[2] == 0 && y[3] % x[3] == 0, "{x:?} by {y:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::tests::*;
    use crate::tensor::ops::{matmul, view};

    #[test]
    fn sums_of_outer_products() {
        for (dtype, m, n, k, repeat) in [
            (GGML_TYPE_F32, 7, 33, 5, [2, 3]),
            (GGML_TYPE_F32, 1, 1, 1, [1, 1]),
            (GGML_TYPE_F16, 19, 40, 9, [1, 1]),
            (GGML_TYPE_Q8_0, 64, 5, 11, [1, 1]),
            (GGML_TYPE_Q4_K, 256, 18, 3, [1, 1]),
        ] {
            let mut c = ctx();
            let a = tensor(&mut c, dtype, &[m, k, 2, 2], 1);
            let b = floats(&mut c, &[n, k, 2 * repeat[0], 2 * repeat[1]], 2);
            let t = matmul::out_prod(&mut c, a, b).unwrap();
            let (x, y, got) = (read(a), read(b), compute(t));
            let want = indices(t.ne()).map(|[i, j, i2, i3]| {
                (0..k)
                    .map(|l| at(&x, a.ne(), [i, l, i2 / repeat[0], i3 / repeat[1]]) * at(&y, b.ne(), [j, l, i2, i3]))
                    .sum()
            });
            near(&got, want, 1e-5);
        }
    }

    #[test]
    fn a_transposed_factor_and_an_empty_sum() {
        let mut c = ctx();
        let (a, b) = (floats(&mut c, &[9, 4], 3), floats(&mut c, &[4, 6], 4));
        let bt = view::transpose(&mut c, b).unwrap();
        let t = matmul::out_prod(&mut c, a, bt).unwrap();
        let (x, y, got) = (read(a), read(b), compute(t));
        let want = indices(t.ne())
            .map(|[i, j, ..]| (0..4).map(|k| at(&x, a.ne(), [i, k, 0, 0]) * at(&y, b.ne(), [k, j, 0, 0])).sum());
        near(&got, want, 1e-6);

        let (a, b) = (c.new_tensor(GGML_TYPE_F32, &[5, 0]).unwrap(), c.new_tensor(GGML_TYPE_F32, &[3, 0]).unwrap());
        let t = matmul::out_prod(&mut c, a, b).unwrap();
        near(&compute(t), [0.0; 15].into_iter(), 0.0);
    }
}
