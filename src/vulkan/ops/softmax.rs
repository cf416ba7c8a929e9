//! Soft maximum of rows.

#![forbid(unsafe_code)]

use super::{ensure, src};
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::plan::{Grid, Plan, Push, View};
use crate::vulkan::{Info, tune};

/// The slopes of ALiBi (arXiv:2108.12409) as shaders take them: both bases, and the largest power of two of heads.
pub fn slopes(max_bias: f32, heads: u32) -> ([f32; 2], u32) {
    let whole = heads.checked_ilog2().map_or(1, |l| 1 << l);
    ([-max_bias / whole as f32, -max_bias / 2.0 / whole as f32].map(f32::exp2), whole)
}

/// Single precision; a mask of at least as many rows that repeats over heads and batches; a sink for each head.
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
pub fn plan(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let (mask, sinks) = (node.src(1).map(View::of).transpose()?, node.src(2).map(View::of).transpose()?);
    let (scale, max_bias) = (node.op_param_f32(0), node.op_param_f32(1));
    let (m, whole) = slopes(max_bias, a.ne[2]);
    let constants = [mask.map_or(u32::MAX, |m| m.ty()), u32::from(sinks.is_some())];
    let (kernel, threads) = tune::reduction("soft_max", d.ne[0], &constants, plan.info)?;
    let g = Grid::list(d.n_rows().into(), threads, plan.info)?;
    let at = |v: Option<View>| v.map_or(0, |v| v.at);
    let (mask_nb, mask_ne) = mask.map_or(([0; 4], [1; 4]), |m| (m.nb, m.ne));
    let push = Push::new().at(a.at).at(at(mask)).at(at(sinks)).at(d.at);
    let push = push.words(&[d.ne[0], d.n_rows(), d.ne[1], d.ne[2]]).words(&a.nb[1..]).words(&mask_nb[1..]);
    let push = push.words(&d.nb[1..]).words(&mask_ne[2..]).f32(scale).f32(max_bias).f32(m[0]).f32(m[1]).u32(whole);
    let reads: Vec<_> = [Some(a), mask, sinks].into_iter().flatten().map(|v| v.range).collect();
    plan.dispatch(kernel, push, g.groups, &reads, &[d.range]);
    Ok(())
}
