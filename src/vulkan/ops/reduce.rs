//! Reductions of rows: sums, means, index of the maximum.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::ops::copy;
use crate::vulkan::plan::checks::{check_f32, ensure, src};
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::workgroups;
use crate::vulkan::shaders::interface::{constants, push};

/// F32.
pub fn check_sum(node: TensorRef, _: &Info) -> Result<()> {
    let a = src(node, 0)?;
    ensure!(a.dtype() == GGML_TYPE_F32 && node.dtype() == GGML_TYPE_F32, "{:?} of {:?}", node.op(), a.dtype());
    ensure!(node.op() != GGML_OP_SUM || a.nelements() < 1 << 31, "a sum of {:?}", a.ne());
    View::shape(a)?;
    View::shape(node)?;
    Ok(())
}

/// SUM_ROWS, MEAN, and SUM, which reads all elements as one row.
pub fn sum(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (mut a, mut d) = (View::of(src(node, 0)?)?, View::of(node)?);
    if node.op() == GGML_OP_SUM {
        if !a.is_dense() {
            a = copy::into_scratch(a, a.dtype, plan)?;
        }
        (a.ne, a.nb) = ([a.n() as u32, 1, 1, 1], [1, 0, 0, 0]);
        d.nb = [1, 0, 0, 0];
    }
    sums(a, d, node.op() == GGML_OP_MEAN, plan)
}

/// The sum or the mean of each row of F32.
pub fn sums(a: View, d: View, mean: bool, plan: &mut DispatchList<'_>) -> Result<()> {
    let constants = |one_subgroup| constants::SumRows { one_subgroup, mean };
    let (kernel, threads) = workgroups::reduction(a.ne[0], constants, plan.info)?;
    let g = Grid::list(a.n_rows().into(), threads, plan.info)?;
    let push = push::SumRows {
        a: a.at,
        d: d.at,
        columns: a.ne[0],
        n_rows: a.n_rows(),
        ne1: a.ne[1],
        ne2: a.ne[2],
        a_nb0: a.nb[0],
        a_nb: a.nb123(),
        d_nb: d.nb123(),
    };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// F32 in contiguous rows, into contiguous 32-bit integers.
pub fn check_argmax(node: TensorRef, _: &Info) -> Result<()> {
    let a = src(node, 0)?;
    ensure!(a.dtype() == GGML_TYPE_F32 && a.is_contiguous_rows(), "the largest of {:?}", a.dtype());
    ensure!(node.dtype() == GGML_TYPE_I32 && node.is_contiguous(), "indices in {:?}", node.dtype());
    View::shape(a)?;
    Ok(())
}

/// ARGMAX.
pub fn argmax(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let (kernel, threads) =
        workgroups::reduction(a.ne[0], |one_subgroup| constants::Argmax { one_subgroup }, plan.info)?;
    let g = Grid::list(a.n_rows().into(), threads, plan.info)?;
    let push = push::Argmax {
        a: a.at,
        d: d.at,
        columns: a.ne[0],
        n_rows: a.n_rows(),
        ne1: a.ne[1],
        ne2: a.ne[2],
        a_nb: a.nb123(),
    };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// F32 of one shape.
pub fn check_cumsum(node: TensorRef, _: &Info) -> Result<()> {
    let a = check_f32(node)?;
    ensure!(a.same_shape(node), "shapes {:?} and {:?}", a.ne(), node.ne());
    Ok(())
}

/// CUMSUM.
pub fn cumsum(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let (kernel, threads) =
        workgroups::reduction(a.ne[0], |one_subgroup| constants::Cumsum { one_subgroup }, plan.info)?;
    let g = Grid::list(a.n_rows().into(), threads, plan.info)?;
    let push = push::Cumsum {
        a: a.at,
        d: d.at,
        columns: a.ne[0],
        n_rows: a.n_rows(),
        ne1: a.ne[1],
        ne2: a.ne[2],
        a_nb: a.nb,
        d_nb: d.nb,
    };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// Two tensors of 32-bit integers of one shape, and a 64-bit number. The count has 32 bits.
pub fn check_count_equal(node: TensorRef, _: &Info) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    ensure!(a.dtype() == GGML_TYPE_I32 && b.dtype() == GGML_TYPE_I32, "{:?} and {:?}", a.dtype(), b.dtype());
    ensure!(node.dtype() == GGML_TYPE_I64 && node.is_scalar(), "a number of {:?}", node.dtype());
    ensure!(a.same_shape(b) && a.nelements() < 1 << 32, "{:?} and {:?}", a.ne(), b.ne());
    [a, b, node].into_iter().try_for_each(|t| View::shape(t).map(drop))
}

/// COUNT_EQUAL: the counts of the rows in scratch memory, then their sum.
pub fn count_equal(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (mut a, mut b, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    if a.is_dense() && b.is_dense() {
        (a, b) = (a.flat(), b.flat());
    }
    let n_rows = a.n_rows();
    let counts = plan.scratch(u64::from(n_rows) * 4)?;
    let kernel = |columns, last, info| {
        workgroups::reduction(columns, |one_subgroup| constants::CountEqual { one_subgroup, total: last }, info)
    };
    let (first, threads) = kernel(a.ne[0], false, plan.info)?;
    let g = Grid::list(n_rows.into(), threads, plan.info)?;
    let push = push::CountEqual {
        a: a.at,
        b: b.at,
        d: counts.address,
        columns: a.ne[0],
        n_rows,
        ne1: a.ne[1],
        ne2: a.ne[2],
        a_nb: a.nb,
        b_nb: b.nb,
    };
    plan.dispatch(first, push, g.groups, &[a.range, b.range], &[counts]);
    let (last, _) = kernel(n_rows, true, plan.info)?;
    plan.dispatch(last, push::CountEqual { a: counts.address, d: d.at, ..push }, [1; 3], &[counts], &[d.range]);
    Ok(())
}
