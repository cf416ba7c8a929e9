//! Softmax of rows.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::ops::norm;
use crate::vulkan::plan::checks::{ensure, src};
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::workgroups;
use crate::vulkan::shaders::interface::{constants, push};

/// Parameters of the slopes of ALiBi (arXiv:2108.12409) for shaders: both bases, and the largest power of two that is
/// at most `heads`.
pub fn slopes(max_bias: f32, heads: u32) -> ([f32; 2], u32) {
    let whole = heads.checked_ilog2().map_or(1, |l| 1 << l);
    ([-max_bias / whole as f32, -max_bias / 2.0 / whole as f32].map(f32::exp2), whole)
}

/// F32. A mask with at least as many rows, which repeats over heads and batches. A sink for each head.
pub fn check(node: TensorRef, _: &Info) -> Result<()> {
    let a = src(node, 0)?;
    for t in [a, node] {
        ensure!(t.dtype() == GGML_TYPE_F32 && t.is_contiguous_rows(), "{:?} of {:?}", node.op(), t.dtype());
        View::shape(t)?;
    }
    let ne = a.ne();
    ensure!(a.same_shape(node), "shapes {:?} and {:?}", ne, node.ne());
    if let Some(mask) = node.src(1) {
        let m = mask.ne();
        ensure!(matches!(mask.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "mask of {:?}", mask.dtype());
        ensure!(m[0] == ne[0] && m[1] >= ne[1] && ne[2] % m[2] == 0 && ne[3] % m[3] == 0, "mask of {m:?} for {ne:?}");
        ensure!(mask.is_contiguous_rows(), "mask with gaps");
        View::shape(mask)?;
    }
    if let Some(sinks) = node.src(2) {
        ensure!(sinks.dtype() == GGML_TYPE_F32 && sinks.ne()[0] == ne[2] && sinks.is_contiguous(), "sinks");
    }
    Ok(())
}

/// SOFT_MAX.
pub fn plan(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let (mask, sinks) = (node.src(1).map(View::of).transpose()?, node.src(2).map(View::of).transpose()?);
    let (scale, max_bias) = (node.op_param_f32(0), node.op_param_f32(1));
    let ([m0, m1], n_head_log2) = slopes(max_bias, a.ne[2]);
    let mask_type = mask.map_or(u32::MAX, |m| m.ty());
    let constants = |one_subgroup| constants::SoftMax { one_subgroup, mask: mask_type, sinks: sinks.is_some() };
    let (kernel, threads) = workgroups::reduction(d.ne[0], constants, plan.info)?;
    let g = Grid::list(d.n_rows().into(), threads, plan.info)?;
    let at = |v: Option<View>| v.map_or(0, |v| v.at);
    let push = push::SoftMax {
        a: a.at,
        mask: at(mask),
        sinks: at(sinks),
        d: d.at,
        columns: d.ne[0],
        n_rows: d.n_rows(),
        ne1: d.ne[1],
        ne2: d.ne[2],
        a_nb: a.nb123(),
        mask_nb: mask.map_or([0; 3], |m| m.nb123()),
        d_nb: d.nb123(),
        mask_ne: mask.map_or([1; 2], |m| [m.ne[2], m.ne[3]]),
        scale,
        max_bias,
        m0,
        m1,
        n_head_log2,
    };
    let reads: Vec<_> = [Some(a), mask, sinks].into_iter().flatten().map(|v| v.range).collect();
    plan.dispatch(kernel, push, g.groups, &reads, &[d.range]);
    Ok(())
}

/// F32 of one shape, without position biases.
pub fn check_back(node: TensorRef, info: &Info) -> Result<()> {
    ensure!(node.op_param_f32(1) == 0.0, "a gradient with position biases");
    norm::check_back(node, info)
}

/// SOFT_MAX_BACK. Sources: gradient of the result, result. Parameter 0: scale.
pub fn back(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    norm::back(node, norm::Back::SoftMax, plan)
}
