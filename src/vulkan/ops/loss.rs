//! Losses and their gradients.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::ops::reduce;
use crate::vulkan::plan::checks::{check_all_f32, ensure, src};
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::workgroups;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::submit::Range;

/// F32: logits and targets of one shape, and a node with one element.
pub fn check_cross_entropy(node: TensorRef, _: &Info) -> Result<()> {
    let [a, b] = check_all_f32(node)?;
    ensure!(a.same_shape(b) && node.is_scalar(), "{:?} and {:?} into {:?}", a.ne(), b.ne(), node.ne());
    Ok(())
}

/// F32: one gradient of the loss, and logits and targets with the shape of the node.
pub fn check_cross_entropy_back(node: TensorRef, _: &Info) -> Result<()> {
    let [grad, a, b] = check_all_f32(node)?;
    ensure!(grad.is_scalar() && a.same_shape(b) && a.same_shape(node), "{:?} and {:?}", a.ne(), b.ne());
    Ok(())
}

/// CROSS_ENTROPY_LOSS: the losses of the rows in scratch memory, then their sum.
pub fn cross_entropy(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, t, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let n = a.n_rows();
    let room = plan.scratch(u64::from(n) * 4)?;
    rows(a, t, None, room, [0; 4], -1.0 / n as f32, plan)?;
    let losses = View { at: room.address, ne: [n, 1, 1, 1], nb: [1, 0, 0, 0], dtype: GGML_TYPE_F32, range: room };
    reduce::sums(losses, d, false, plan)
}

/// CROSS_ENTROPY_LOSS_BACK. Sources: gradient of the loss, logits, targets.
pub fn cross_entropy_back(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, t, d) = (View::of(src(node, 1)?)?, View::of(src(node, 2)?)?, View::of(node)?);
    let grad = View::of(src(node, 0)?)?;
    rows(a, t, Some(grad.range), d.range, d.nb, 1.0 / a.n_rows() as f32, plan)
}

/// A group for each row. `to`: the losses, or the gradients if there is a gradient of the loss.
fn rows(
    a: View,
    t: View,
    grad: Option<Range>,
    to: Range,
    d_nb: [u32; 4],
    factor: f32,
    plan: &mut DispatchList<'_>,
) -> Result<()> {
    let constants = |one_subgroup| constants::CrossEntropy { one_subgroup, back: grad.is_some() };
    let (kernel, threads) = workgroups::reduction(a.ne[0], constants, plan.info)?;
    let g = Grid::list(a.n_rows().into(), threads, plan.info)?;
    let push = push::CrossEntropy {
        a: a.at,
        t: t.at,
        grad: grad.map_or(0, |g| g.address),
        d: to.address,
        columns: a.ne[0],
        n_rows: a.n_rows(),
        ne1: a.ne[1],
        ne2: a.ne[2],
        a_nb: a.nb,
        t_nb: t.nb,
        d_nb,
        factor,
    };
    let reads: Vec<_> = [Some(a.range), Some(t.range), grad].into_iter().flatten().collect();
    plan.dispatch(kernel, push, g.groups, &reads, &[to]);
    Ok(())
}
