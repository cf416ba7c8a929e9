//! Hyper-connections: mixing of residual streams.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::plan::checks::{check_all_f32, ensure, src};
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;

/// F32: mixes `[24, tokens]`, three scales, 24 bases, and a node `[4, 4, tokens]`. Parameters: epsilon, iterations.
pub fn check_comb(node: TensorRef, _: &Info) -> Result<()> {
    let [mixes, scale, base] = check_all_f32(node)?.map(TensorRef::ne);
    let n = node.ne();
    ensure!(mixes[0] == 24 && n == [4, 4, mixes[1], 1], "{mixes:?} into {n:?}");
    ensure!(scale[0] >= 3 && base[0] == 24 && node.op_param_i32(1) > 0, "{scale:?} and {base:?}");
    Ok(())
}

/// Invocations of a group of [`comb`], one for each token.
const THREADS: u32 = 64;

/// DSV4_HC_COMB.
pub fn comb(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (mixes, scale, base) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(src(node, 2)?)?);
    let d = View::of(node)?;
    let g = Grid::list(d.ne[2].div_ceil(THREADS).into(), THREADS, plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::HcComb {})?;
    let push = push::HcComb {
        mixes: mixes.at,
        scale: scale.at,
        base: base.at,
        d: d.at,
        tokens: d.ne[2],
        mixes_nb: [mixes.nb[0], mixes.nb[1]],
        scale_nb: scale.nb[0],
        base_nb: base.nb[0],
        d_nb: d.nb012(),
        eps: node.op_param_f32(0),
        iterations: node.op_param_i32(1) as u32,
    };
    plan.dispatch(kernel, push, g.groups, &[mixes.range, scale.range, base.range], &[d.range]);
    Ok(())
}

/// F32: streams `[n, streams, tokens]`, and a weight for each stream of each token, or (parameter 1) for each element.
pub fn check_pre(node: TensorRef, _: &Info) -> Result<()> {
    let [x, w] = check_all_f32(node)?.map(TensorRef::ne);
    let (n, gated) = (node.ne(), node.op_param_i32(1) != 0);
    let fits = if gated { w[..3] == x[..3] } else { w[0] == x[1] && w[1] == x[2] };
    ensure!(fits && x[3] == 1 && n == [x[0], x[2], 1, 1], "{x:?} by {w:?} into {n:?}");
    Ok(())
}

/// DSV4_HC_PRE. Parameter 0: scale.
pub fn pre(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (x, w, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let g = grid(d.ne[0], d.ne[1], plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::HcPre { gated: node.op_param_i32(1) != 0 })?;
    let push = push::HcPre {
        x: x.at,
        w: w.at,
        d: d.at,
        columns: d.ne[0],
        n_rows: d.ne[1],
        streams: x.ne[1],
        x_nb: x.nb012(),
        w_nb: w.nb012(),
        d_nb: [d.nb[0], d.nb[1]],
        scale: node.op_param_f32(0),
    };
    plan.dispatch(kernel, push, g.groups, &[x.range, w.range], &[d.range]);
    Ok(())
}

/// F32: the result of a layer `[n, tokens]`, streams `[n, streams, tokens]`, weights `[streams, tokens]`, and matrices
/// `[streams, streams, tokens]` or none.
pub fn check_post(node: TensorRef, _: &Info) -> Result<()> {
    let [x, s, w] = check_all_f32(node)?.map(TensorRef::ne);
    let n = node.ne();
    ensure!(s[0] == x[0] && s[2] == x[1] && n == [s[0], s[1], s[2], 1], "{x:?} and {s:?} into {n:?}");
    ensure!(w[0] == s[1] && w[1] == x[1], "weights {w:?}");
    if let Some(mix) = node.src(3) {
        let m = mix.ne();
        ensure!(mix.dtype() == GGML_TYPE_F32 && m[0] == s[1] && m[1] == s[1] && m[2] == x[1], "matrices {m:?}");
        View::shape(mix)?;
    }
    Ok(())
}

/// DSV4_HC_POST.
pub fn post(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (x, s, w) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(src(node, 2)?)?);
    let (mix, d) = (node.src(3).map(View::of).transpose()?, View::of(node)?);
    let n_rows = d.ne[1] * d.ne[2];
    let g = grid(d.ne[0], n_rows, plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::HcPost { mix: mix.is_some() })?;
    let push = push::HcPost {
        x: x.at,
        s: s.at,
        w: w.at,
        mix_: mix.map_or(0, |m| m.at),
        d: d.at,
        columns: d.ne[0],
        n_rows,
        streams: d.ne[1],
        x_nb: [x.nb[0], x.nb[1]],
        s_nb: s.nb012(),
        w_nb: [w.nb[0], w.nb[1]],
        mix_nb: mix.map_or([0; 3], |m| m.nb012()),
        d_nb: d.nb012(),
    };
    let reads: Vec<_> = [Some(x), Some(s), Some(w), mix].into_iter().flatten().map(|v| v.range).collect();
    plan.dispatch(kernel, push, g.groups, &reads, &[d.range]);
    Ok(())
}
