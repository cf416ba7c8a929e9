//! Pooling: the maximum or the mean of windows.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::GGML_OP_POOL_2D;
use crate::abi::ggml::ggml_op_pool;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::pool::Planes;
use crate::vulkan::device::Info;
use crate::vulkan::plan::checks::{ensure, src};
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;

/// F32 or F16 into F32, with a known kind of pooling, and valid sizes and strides.
pub fn check_pool(node: TensorRef, _: &Info) -> Result<()> {
    let a = src(node, 0)?;
    ensure!(node.dtype() == GGML_TYPE_F32 && node.is_contiguous_rows(), "pooling into {:?}", node.dtype());
    ensure!(matches!(a.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "pooling of {:?}", a.dtype());
    ensure!(ggml_op_pool::from_raw(node.op_param_i32(0)).is_some(), "kind {}", node.op_param_i32(0));
    let sizes = if node.op() == GGML_OP_POOL_2D { 1..5 } else { 1..3 };
    ensure!(sizes.clone().all(|i| (1..1 << 15).contains(&node.op_param_i32(i))), "sizes or strides");
    let same = if node.op() == GGML_OP_POOL_2D { 2 } else { 1 };
    ensure!(a.ne()[same..] == node.ne()[same..], "{:?} into {:?}", a.ne(), node.ne());
    [a, node].into_iter().try_for_each(|t| View::shape(t).map(drop))
}

/// POOL_1D, POOL_2D.
pub fn pool(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let pool_2d = node.op() == GGML_OP_POOL_2D;
    let p = |i| node.op_param_i32(i);
    let [kernel, stride, pad] = if pool_2d {
        let Planes { kernel, stride, pad } = Planes::of_node(node);
        [kernel, stride, pad.map(|p| p as i32)]
    } else {
        [[p(1), 1], [p(2), 1], [p(3), 0]]
    };
    let max_pool = p(0) == ggml_op_pool::GGML_OP_POOL_MAX as i32;
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let push = push::Pool {
        a: a.at,
        d: d.at,
        ne: d.ne,
        n_rows: d.n_rows(),
        size: [a.ne[0], a.ne[1]],
        a_nb: a.nb,
        d_nb: d.nb123(),
        kernel,
        stride,
        pad,
    };
    let kernel = KernelFor::new("", g.size, &constants::Pool { a: a.ty(), max_pool, pool_2d })?;
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// F32 gradients; an argument and a node in F32 or F16, of one shape.
pub fn check_pool_back(node: TensorRef, _: &Info) -> Result<()> {
    let (grad, a) = (src(node, 0)?, src(node, 1)?);
    ensure!(grad.dtype() == GGML_TYPE_F32, "gradients of {:?}", grad.dtype());
    ensure!(matches!(node.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "gradients as {:?}", node.dtype());
    ensure!(a.dtype() == node.dtype() && a.same_shape(node), "{:?} of {:?}", a.dtype(), a.ne());
    ensure!(ggml_op_pool::from_raw(node.op_param_i32(0)).is_some(), "kind {}", node.op_param_i32(0));
    ensure!((1..5).all(|i| (1..1 << 15).contains(&node.op_param_i32(i))), "sizes or strides");
    let Planes { pad, .. } = Planes::of_node(node);
    ensure!(pad.iter().all(|p| (0.0..32768.0).contains(p)), "padding {pad:?}");
    let (g, n) = (grad.ne(), node.ne());
    ensure!(g[2..] == n[2..], "{g:?} into {n:?}");
    ensure!(g[..2].iter().chain(&n[..2]).all(|&n| n < 1 << 15), "{g:?} into {n:?}");
    [grad, a, node].into_iter().try_for_each(|t| View::shape(t).map(drop))
}

/// POOL_2D_BACK. Sources: gradient of the result, argument of the pooling.
pub fn pool_back(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (grad, a, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let Planes { kernel, stride, pad } = Planes::of_node(node);
    let max_pool = node.op_param_i32(0) == ggml_op_pool::GGML_OP_POOL_MAX as i32;
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let push = push::PoolBack {
        grad: grad.at,
        a: a.at,
        d: d.at,
        ne: d.ne,
        n_rows: d.n_rows(),
        size: [grad.ne[0], grad.ne[1]],
        grad_nb: grad.nb,
        a_nb: a.nb,
        d_nb: d.nb,
        kernel,
        stride,
        pad: pad.map(|p| p as i32),
    };
    let kernel = KernelFor::new("", g.size, &constants::PoolBack { a: d.ty(), max_pool })?;
    plan.dispatch(kernel, push, g.groups, &[grad.range, a.range], &[d.range]);
    Ok(())
}
