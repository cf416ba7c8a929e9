//! Normalisation of rows.

#![forbid(unsafe_code)]

use super::{ensure, src};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::plan::{Grid, Plan, Push, View};
use crate::vulkan::{Info, tune};

/// Single precision of one shape, into rows without gaps.
pub fn check(node: TensorRef, _: &Info) -> Result<()> {
    let a = src(node, 0)?;
    for t in [a, node] {
        ensure!(t.dtype() == GGML_TYPE_F32, "{:?} of {:?}", node.op(), t.dtype());
        View::shape(t)?;
    }
    ensure!(node.is_contiguous_rows(), "rows with gaps");
    ensure!(a.same_shape(node), "shapes {:?} and {:?}", a.ne(), node.ne());
    Ok(())
}

/// NORM, RMS_NORM, L2_NORM.
pub fn plan(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    fused(node, None, None, node, plan)
}

/// A norm with what is fused to it: `add`, whose sum is normalised and kept, and a factor `w` that repeats over rows; the result
/// goes to `result`.
pub fn fused(
    node: TensorRef,
    add: Option<TensorRef>,
    w: Option<TensorRef>,
    result: TensorRef,
    plan: &mut Plan<'_>,
) -> Result<()> {
    let a = View::of(match add {
        Some(add) => src(add, 0)?,
        None => src(node, 0)?,
    })?;
    let d = View::of(result)?;
    let (mut reads, mut writes) = (vec![a.range], vec![d.range]);
    let (mut b_at, mut sum_at, mut b_nb, mut sum_nb) = (0, 0, [0; 3], [0; 3]);
    if let Some(add) = add {
        let (b, sum) = (View::of(src(add, 1)?)?, View::of(add)?);
        (b_at, sum_at) = (b.at, sum.at);
        b_nb.copy_from_slice(&b.nb[1..]);
        sum_nb.copy_from_slice(&sum.nb[1..]);
        reads.push(b.range);
        writes.push(sum.range);
    }
    let (mut w_at, mut w_words) = (0, [1, 1, 0]);
    if let Some(w) = w {
        let w = View::of(w)?;
        w_at = w.at;
        w_words = [w.ne[0], w.ne[1], w.nb[1]];
        reads.push(w.range);
    }
    let op = match node.op() {
        GGML_OP_NORM => 0,
        GGML_OP_RMS_NORM => 1,
        _ => 2,
    };
    let constants = [op, u32::from(w.is_some()), u32::from(add.is_some())];
    let (kernel, threads) = tune::reduction("norm", d.ne[0], &constants, plan.info)?;
    let g = Grid::list(d.n_rows().into(), threads, plan.info)?;
    let push = Push::new().at(a.at).at(d.at).at(w_at).at(b_at).at(sum_at);
    let push = push.words(&[d.ne[0], d.n_rows(), d.ne[1], d.ne[2]]).words(&a.nb[1..]).words(&d.nb[1..]);
    let step = if add.is_some() { 1 } else { a.nb[0] };
    let push = push.words(&b_nb).words(&sum_nb).words(&w_words).f32(node.op_param_f32(0)).u32(step);
    plan.dispatch(kernel, push, g.groups, &reads, &writes);
    Ok(())
}
