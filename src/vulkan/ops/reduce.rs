//! Rows to numbers, and rows in order: sums, means, the largest element, sorting.

#![forbid(unsafe_code)]

use super::{ensure, src};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::plan::{Grid, Kernel, Plan, Push, View};
use crate::vulkan::shaders::Shader;
use crate::vulkan::{Info, tune};

/// Single precision.
pub fn check_sum(node: TensorRef, _: &Info) -> Result<()> {
    let a = src(node, 0)?;
    ensure!(a.dtype() == GGML_TYPE_F32 && node.dtype() == GGML_TYPE_F32, "{:?} of {:?}", node.op(), a.dtype());
    ensure!(node.op() != GGML_OP_SUM || (a.is_contiguous() && a.nelements() < 1 << 31), "a sum of {:?}", a.ne());
    View::shape(a)?;
    View::shape(node)?;
    Ok(())
}

/// SUM_ROWS, MEAN, and SUM, which takes all as one row.
pub fn sum(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (mut a, mut d) = (View::of(src(node, 0)?)?, View::of(node)?);
    if node.op() == GGML_OP_SUM {
        (a.ne, a.nb) = ([a.n() as u32, 1, 1, 1], [1, 0, 0, 0]);
        d.nb = [1, 0, 0, 0];
    }
    let mean = u32::from(node.op() == GGML_OP_MEAN);
    let (kernel, threads) = tune::reduction("sum_rows", a.ne[0], &[mean], plan.info)?;
    let g = Grid::list(a.n_rows().into(), threads, plan.info)?;
    let push = Push::new().at(a.at).at(d.at).words(&[a.ne[0], a.n_rows(), a.ne[1], a.ne[2]]).words(&a.nb);
    plan.dispatch(kernel, push.words(&d.nb[1..]), g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// Single precision, rows without gaps, into dense 32-bit integers.
pub fn check_argmax(node: TensorRef, _: &Info) -> Result<()> {
    let a = src(node, 0)?;
    ensure!(a.dtype() == GGML_TYPE_F32 && a.is_contiguous_rows(), "the largest of {:?}", a.dtype());
    ensure!(node.dtype() == GGML_TYPE_I32 && node.is_contiguous(), "indices in {:?}", node.dtype());
    View::shape(a)?;
    Ok(())
}

/// ARGMAX.
pub fn argmax(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let (kernel, threads) = tune::reduction("argmax", a.ne[0], &[], plan.info)?;
    let g = Grid::list(a.n_rows().into(), threads, plan.info)?;
    let push = Push::new().at(a.at).at(d.at).words(&[a.ne[0], a.n_rows(), a.ne[1], a.ne[2]]).words(&a.nb[1..]);
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// Columns that are sorted here: the work grows with their square.
const MOST_SORTED: i64 = 1 << 14;

/// Single precision, rows without gaps and not too long, into 32-bit integers.
pub fn check_sort(node: TensorRef, _: &Info) -> Result<()> {
    let a = src(node, 0)?;
    ensure!(a.dtype() == GGML_TYPE_F32 && a.is_contiguous_rows(), "sorting of {:?}", a.dtype());
    ensure!(node.dtype() == GGML_TYPE_I32 && node.is_contiguous_rows(), "indices in {:?}", node.dtype());
    ensure!(a.ne()[0] <= MOST_SORTED, "sorting of {} columns", a.ne()[0]);
    ensure!(node.ne()[0] <= a.ne()[0] && node.ne()[1..] == a.ne()[1..], "{:?} of {:?}", node.ne(), a.ne());
    View::shape(a)?;
    View::shape(node)?;
    Ok(())
}

/// ARGSORT and TOP_K.
pub fn sort(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let descending = u32::from(node.op() == GGML_OP_TOP_K || node.op_param_i32(0) != 0);
    let threads = if tune::is_cpu(plan.info) { plan.info.limits.subgroup_size } else { 128 };
    let rows = Grid::list(a.n_rows().into(), threads, plan.info)?;
    let kernel = Kernel::new(Shader::named("argsort")?, [threads, 1, 1], &[descending]);
    let groups = [a.ne[0].div_ceil(threads), rows.groups[0], rows.groups[1]];
    let push = Push::new().at(a.at).at(d.at).words(&[a.ne[0], a.n_rows(), a.ne[1], a.ne[2]]);
    let push = push.words(&a.nb[1..]).words(&d.nb[1..]).u32(d.ne[0]);
    plan.dispatch(kernel, push, groups, &[a.range], &[d.range]);
    Ok(())
}
