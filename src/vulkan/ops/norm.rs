//! Normalisation of rows, or of groups of channels.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::ops::matmul;
use crate::vulkan::ops::rope::{Turn, rotates_halves};
use crate::vulkan::plan::Target;
use crate::vulkan::plan::checks::{check_all_f32, check_f32, ensure, src};
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::workgroups;
use crate::vulkan::shaders::interface::{constants, push};

/// F32, the same shape, and contiguous rows of the result.
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
pub fn plan(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    fused(node, None, None, node, false, plan)
}

/// A norm, and what is fused with it: `add` is an addition whose sum is also written, and `w` a factor that repeats
/// over rows. The result goes to `result`. It also goes to blocks of integers, if `blocks` is set and the device can
/// make them.
pub fn fused(
    node: TensorRef,
    add: Option<TensorRef>,
    w: Option<TensorRef>,
    result: TensorRef,
    blocks: bool,
    plan: &mut DispatchList<'_>,
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
        (b_nb, sum_nb) = (b.nb123(), sum.nb123());
        reads.push(b.range);
        writes.push(sum.range);
    }
    let (mut mul, mut w_at, [mut w_ne1, mut w_nb1]) = (0, 0, [1, 0]);
    if let Some(w) = w {
        let w = View::of(w)?;
        mul = if w.ne[0] == 1 { 2 } else { 1 };
        w_at = w.at;
        [w_ne1, w_nb1] = [w.ne[1], w.nb[1]];
        reads.push(w.range);
    }
    let threads = workgroups::reduction_threads(d.ne[0], plan.info);
    let mut blocks_at = 0;
    let fits = blocks && d.is_dense() && d.ne[0].is_multiple_of(32) && threads.is_multiple_of(8);
    if let Some(bytes) = matmul::block_bytes(&d).filter(|_| fits) {
        let room = plan.scratch(bytes)?;
        blocks_at = room.address;
        writes.push(room);
        plan.converts(&d, Target::Blocks, room);
    }
    let op = match node.op() {
        GGML_OP_NORM => 0,
        GGML_OP_RMS_NORM => 1,
        _ => 2,
    };
    let (add, blocks) = (add.is_some(), blocks_at != 0);
    let constants = |one_subgroup| constants::Norm { one_subgroup, op, mul, add, blocks };
    let kernel = workgroups::reduction_of("", threads, constants, plan.info)?;
    let g = Grid::list(d.n_rows().into(), threads, plan.info)?;
    let push = push::Norm {
        a: a.at,
        d: d.at,
        w: w_at,
        b: b_at,
        sum: sum_at,
        blocks: blocks_at,
        columns: d.ne[0],
        n_rows: d.n_rows(),
        ne1: d.ne[1],
        ne2: d.ne[2],
        a_nb: a.nb123(),
        d_nb: d.nb123(),
        b_nb,
        sum_nb,
        w_ne1,
        w_nb1,
        eps: node.op_param_f32(0),
        a_step: if add { 1 } else { a.nb[0] },
    };
    plan.dispatch(kernel, push, g.groups, &reads, &writes);
    Ok(())
}

/// F32, contiguous, with images of less than 2^31 elements.
pub fn check_group_norm(node: TensorRef, _: &Info) -> Result<()> {
    let a = check_f32(node)?;
    ensure!(a.is_contiguous() && node.is_contiguous() && a.same_shape(node), "rows with gaps");
    let ne = a.ne();
    ensure!(node.op_param_i32(0) > 0, "{} groups", node.op_param_i32(0));
    ensure!(ne[..3].iter().try_fold(1i64, |n, &e| n.checked_mul(e)).is_some_and(|n| n < 1 << 31), "images of {ne:?}");
    Ok(())
}

/// GROUP_NORM. Parameter 0: number of groups. 1: epsilon.
pub fn group_norm(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let groups = (node.op_param_i32(0) as u32).min(d.ne[2].max(1));
    let plane = d.ne[0] * d.ne[1];
    let size = plane * d.ne[2].div_ceil(groups);
    let constants = |one_subgroup| constants::GroupNorm { one_subgroup };
    let (kernel, threads) = workgroups::reduction(size, constants, plan.info)?;
    let n_work = groups * d.ne[3];
    let g = Grid::list(n_work.into(), threads, plan.info)?;
    let (image, eps) = (plane * d.ne[2], node.op_param_f32(1));
    let push = push::GroupNorm { a: a.at, d: d.at, n_work, groups, size, image, eps };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// F32: a gradient and an argument with the shape of the node.
pub fn check_back(node: TensorRef, _: &Info) -> Result<()> {
    let all: [TensorRef; 2] = check_all_f32(node)?;
    ensure!(all.into_iter().all(|t| t.same_shape(node)), "{:?} and {:?}", all[0].ne(), all[1].ne());
    Ok(())
}

/// `OP` of `norm_back.comp`.
#[derive(Clone, Copy)]
pub enum Back {
    /// RMS_NORM, from its argument.
    Rms = 0,
    /// The softmax, from its result.
    SoftMax = 1,
}

/// RMS_NORM_BACK. Sources: gradient of the result, argument. Parameter 0: epsilon.
pub fn rms_norm_back(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    back(node, Back::Rms, plan)
}

/// The gradient of a function of rows. Parameter 0 is that of the shader.
pub fn back(node: TensorRef, of: Back, plan: &mut DispatchList<'_>) -> Result<()> {
    let (dy, x, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let constants = |one_subgroup| constants::NormBack { one_subgroup, op: of as u32 };
    let (kernel, threads) = workgroups::reduction(d.ne[0], constants, plan.info)?;
    let g = Grid::list(d.n_rows().into(), threads, plan.info)?;
    let push = push::NormBack {
        dy: dy.at,
        x: x.at,
        d: d.at,
        columns: d.ne[0],
        n_rows: d.n_rows(),
        ne1: d.ne[1],
        ne2: d.ne[2],
        dy_nb: dy.nb,
        x_nb: x.nb,
        d_nb: d.nb,
        param: node.op_param_f32(0),
    };
    plan.dispatch(kernel, push, g.groups, &[dy.range, x.range], &[d.range]);
    Ok(())
}

/// Heads that are normalised and rotated.
#[derive(Clone, Copy, Debug)]
pub struct HeadPart {
    /// RMS_NORM.
    pub norm: TensorRef,
    /// A weight for each value of a head.
    pub weight: TensorRef,
    /// The rotation.
    pub rope: TensorRef,
    /// The rotation, or SET_ROWS with `rows`.
    pub result: TensorRef,
    /// Whether the heads of a token go to a row by index.
    pub rows: bool,
}

/// One or two of them, queries and keys, in the order of the graph.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// The first.
    pub first: HeadPart,
    /// The other one.
    pub second: Option<HeadPart>,
}

/// Heads of queries and keys that are normalised and rotated (`chains::heads`).
pub fn heads(heads: &Heads, plan: &mut DispatchList<'_>) -> Result<()> {
    let HeadPart { rope, norm, .. } = heads.first;
    let (position, factors) = (View::of(src(rope, 1)?)?, rope.src(2).map(View::of).transpose()?);
    let (mut reads, mut writes) = (vec![position.range], Vec::new());
    reads.extend(factors.map(|f| f.range));
    let (mut a, mut w, mut d, mut n) = ([0; 2], [0; 2], [0; 2], [0; 2]);
    let (mut a_nb, mut d_nb) = ([[0; 2]; 2], [[0; 2]; 2]);
    let (mut to, mut rows_type, mut index, mut index_at, mut rows) = (2, 0, 0, 0, 0);
    for (i, part) in [heads.first].into_iter().chain(heads.second).enumerate() {
        let (from, weight, result) = (View::of(src(part.norm, 0)?)?, View::of(part.weight)?, View::of(part.result)?);
        (a[i], w[i], d[i], n[i]) = (from.at, weight.at, result.at, from.ne[1]);
        a_nb[i] = [from.nb[1], from.nb[2]];
        d_nb[i] = [result.nb[1], result.nb[2]];
        reads.extend([from.range, weight.range]);
        writes.push(result.range);
        if part.rows {
            let ids = View::of(src(part.result, 1)?)?;
            // A row has all heads of a token.
            d_nb[i] = [from.ne[0], result.nb[1]];
            (to, rows_type, index, index_at, rows) = (i as u32, result.ty(), ids.ty(), ids.at, result.ne[1]);
            reads.push(ids.range);
        }
    }
    let turn = Turn::of(rope);
    let constants = |one_subgroup| constants::NormRope {
        one_subgroup,
        rows: to,
        rows_type,
        index,
        halves: rotates_halves(rope),
        factors: factors.is_some(),
        dims: turn.n_dims,
        theta_scale: turn.theta_scale.to_bits(),
        freq_scale: turn.freq_scale.to_bits(),
        ext_factor: turn.ext_factor.to_bits(),
        attn_factor: turn.attn_factor.to_bits(),
        corr_low: turn.corr[0].to_bits(),
        corr_high: turn.corr[1].to_bits(),
    };
    let [columns, _, tokens, _] = View::of(rope)?.ne;
    let (kernel, threads) = workgroups::reduction(columns, constants, plan.info)?;
    let n_rows = u64::from(tokens) * (u64::from(n[0]) + u64::from(n[1]));
    let g = Grid::list(n_rows, threads, plan.info)?;
    let ([a0, a1], [w0, w1], [d0, d1]) = (a, w, d);
    let push = push::NormRope {
        a0,
        a1,
        w0,
        w1,
        d0,
        d1,
        index: index_at,
        position: position.at,
        factors: factors.map_or(0, |f| f.at),
        columns,
        heads0: n[0],
        heads1: n[1],
        tokens,
        a0_nb: a_nb[0],
        a1_nb: a_nb[1],
        d0_nb: d_nb[0],
        d1_nb: d_nb[1],
        rows,
        eps: norm.op_param_f32(0),
    };
    plan.dispatch(kernel, push, g.groups, &reads, &writes);
    Ok(())
}
