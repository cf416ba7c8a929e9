//! Rotary position embedding (RoPE).

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::abi::ggml::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::plan::checks::{ensure, src};
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;

/// Number of the mode in the shader.
fn mode(node: TensorRef) -> Option<u32> {
    match node.op_param_i32(2) {
        GGML_ROPE_TYPE_NORMAL => Some(0),
        GGML_ROPE_TYPE_NEOX => Some(1),
        GGML_ROPE_TYPE_MROPE => Some(2),
        GGML_ROPE_TYPE_IMROPE => Some(3),
        GGML_ROPE_TYPE_VISION => Some(4),
        _ => None,
    }
}

/// The four sections, packed into bytes.
fn sections(node: TensorRef) -> Option<u32> {
    (0..4).try_fold(0, |all, i| Some(all | u32::from(u8::try_from(node.op_param_i32(11 + i)).ok()?) << (8 * i)))
}

/// F32 or F16, a known mode, an even number of dimensions in the row, and one or four positions for each token.
pub fn check(node: TensorRef, _: &Info) -> Result<()> {
    let (a, pos) = (src(node, 0)?, src(node, 1)?);
    for t in [a, node] {
        ensure!(matches!(t.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "{:?} of {:?}", node.op(), t.dtype());
        View::shape(t)?;
    }
    ensure!(a.same_shape(node), "shapes {:?} and {:?}", a.ne(), node.ne());
    // The shader has no stride for the elements of a row that it writes.
    ensure!(node.nb()[0] == node.dtype().type_size(), "{:?} into elements {} bytes apart", node.op(), node.nb()[0]);
    let Some(mode) = mode(node) else {
        ensure!(false, "mode {}", node.op_param_i32(2));
        return Ok(());
    };
    let (ne, n_dims, offset) = (node.ne(), i64::from(node.op_param_i32(1)), i64::from(node.op_param_i32(15)));
    ensure!(ne[0] % 2 == 0, "rows of {}", ne[0]);
    ensure!(
        n_dims > 0 && n_dims % 2 == 0 && offset >= 0 && offset % 2 == 0 && n_dims + offset <= ne[0],
        "{n_dims} dimensions from {offset} on in rows of {}",
        ne[0]
    );
    ensure!(pos.dtype() == GGML_TYPE_I32 && pos.is_contiguous(), "positions of {:?}", pos.dtype());
    let per_token = if mode >= 2 { 4 } else { 1 };
    ensure!(pos.ne()[0] >= ne[2] * per_token, "{} positions for {} tokens", pos.ne()[0], ne[2]);
    if mode >= 2 {
        ensure!(sections(node).is_some_and(|s| s & 0xff_ffff != 0), "sections");
    }
    if mode == 4 {
        ensure!(n_dims == ne[0] / 2 && offset == 0, "{n_dims} dimensions of {}", ne[0]);
    }
    if let Some(f) = node.src(2) {
        let needed = if mode == 4 { n_dims } else { n_dims / 2 };
        ensure!(f.dtype() == GGML_TYPE_F32 && f.is_contiguous() && f.ne()[0] >= needed, "factors");
    }
    Ok(())
}

/// ROPE, ROPE_BACK.
pub fn plan(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let d = View::of(node)?;
    record(node, d, d.nb123(), None, plan)
}

/// ROPE, followed by SET_ROWS `set` (F32 or F16), which writes the row of each token to the row with its index.
pub fn into_rows(node: TensorRef, set: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (d, ids) = (View::of(set)?, View::of(src(set, 1)?)?);
    // A row of the target has all heads of a token.
    record(node, d, [node.ne()[0] as u32, d.nb[1], 0], Some(ids), plan)
}

/// The parameters of a rotation.
pub(in crate::vulkan) struct Turn {
    /// Rotated elements of a row.
    pub n_dims: u32,
    /// Factor from the angle of a pair to that of the next one.
    pub theta_scale: f32,
    /// Factor of angles.
    pub freq_scale: f32,
    /// YaRN: how much angles are extrapolated.
    pub ext_factor: f32,
    /// Factor of results.
    pub attn_factor: f32,
    /// YaRN goes from extrapolation to interpolation between these pairs.
    pub corr: [f32; 2],
}

impl Turn {
    /// Those of a node.
    pub fn of(node: TensorRef) -> Self {
        let f = |i| node.op_param_f32(i);
        let n_dims = node.op_param_i32(1) as u32;
        let (n_ctx_orig, base, beta_fast, beta_slow) = (node.op_param_i32(4), f(5), f(9), f(10));
        let bound = |rotations: f32| {
            n_dims as f32 * (n_ctx_orig as f32 / (rotations * std::f32::consts::TAU)).ln() / (2.0 * base.ln())
        };
        let corr = [bound(beta_fast).floor().max(0.0), bound(beta_slow).ceil().min(n_dims as f32 - 1.0)];
        let theta_scale = base.powf(-2.0 / n_dims as f32);
        Self { n_dims, theta_scale, freq_scale: f(6), ext_factor: f(7), attn_factor: f(8), corr }
    }
}

/// Whether a rotation can be joined with the product that it rotates: one token, rotated from the first element on, in
/// pairs of neighbours or halves.
pub(in crate::vulkan) fn joins_product(node: TensorRef, info: &Info) -> bool {
    node.ne()[2..] == [1, 1] && joins_norm(node, info)
}

/// Whether a rotation can be joined with the norm of the heads that it rotates: from the first element on, in pairs of
/// neighbours or halves.
pub(in crate::vulkan) fn joins_norm(node: TensorRef, info: &Info) -> bool {
    node.op() == GGML_OP_ROPE
        && node.dtype() == GGML_TYPE_F32
        && node.ne()[0] > 0
        && matches!(mode(node), Some(0 | 1))
        && node.op_param_i32(15) == 0
        && check(node, info).is_ok()
}

/// Whether the pairs of a node are halves of its rows, and not neighbours.
pub(in crate::vulkan) fn rotates_halves(node: TensorRef) -> bool {
    mode(node) == Some(1)
}

fn record(node: TensorRef, d: View, d_nb: [u32; 3], ids: Option<View>, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, pos) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?);
    let factors = node.src(2).map(View::of).transpose()?;
    let turn = Turn::of(node);
    let g = grid(a.ne[0] / 2, a.n_rows(), plan.info)?;
    let constants = constants::Rope {
        a: a.ty(),
        d: d.ty(),
        mode: mode(node).unwrap_or(0),
        back: node.op() == GGML_OP_ROPE_BACK,
        factors: factors.is_some(),
        index: ids.map_or(0, |i| i.ty()),
    };
    let kernel = KernelFor::new("", g.size, &constants)?;
    let at = |v: Option<View>| v.map_or(0, |v| v.at);
    let push = push::Rope {
        a: a.at,
        d: d.at,
        pos: pos.at,
        factors: at(factors),
        index: at(ids),
        ne: [a.ne[0], a.ne[1], a.ne[2]],
        n_rows: a.n_rows(),
        a_nb: a.nb,
        d_nb,
        d_rows: d.ne[1],
        n_dims: turn.n_dims,
        offset: node.op_param_i32(15) as u32,
        theta_scale: turn.theta_scale,
        freq_scale: turn.freq_scale,
        ext_factor: turn.ext_factor,
        attn_factor: turn.attn_factor,
        corr_low: turn.corr[0],
        corr_high: turn.corr[1],
        sections: sections(node).unwrap_or(0),
    };
    let reads: Vec<_> = [Some(a), Some(pos), factors, ids].into_iter().flatten().map(|v| v.range).collect();
    plan.dispatch(kernel, push, g.groups, &reads, &[d.range]);
    Ok(())
}
