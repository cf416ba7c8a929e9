//! Images and lines: padding, patches, pooling, normalised groups of channels.

#![forbid(unsafe_code)]

use super::elementwise::grid;
use super::{ensure, src};
use crate::abi::ggml::ggml_op::GGML_OP_POOL_2D;
use crate::abi::ggml::ggml_op_pool;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::conv::Window;
use crate::tensor::ops::pool::Planes;
use crate::vulkan::interface::{constants, push};
use crate::vulkan::plan::{Grid, KernelFor, Plan, View};
use crate::vulkan::{Info, tune};

fn check_f32(node: TensorRef) -> Result<TensorRef> {
    let a = src(node, 0)?;
    for t in [a, node] {
        ensure!(t.dtype() == GGML_TYPE_F32, "{:?} of {:?}", node.op(), t.dtype());
        View::shape(t)?;
    }
    Ok(a)
}

/// Single precision, sizes that 32-bit places can count.
pub fn check_pad(node: TensorRef, _: &Info) -> Result<()> {
    let a = check_f32(node)?;
    ensure!(a.ne().iter().all(|&n| n > 0), "nothing to pad");
    Ok(())
}

/// PAD. Parameters 0 to 7: elements before and behind each dimension, 8: circular.
pub fn pad(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::Pad { circular: node.op_param_i32(8) != 0 })?;
    let push = push::Pad {
        a: a.at,
        d: d.at,
        ne: d.ne,
        n_rows: d.n_rows(),
        a_ne: a.ne,
        a_nb: a.nb,
        d_nb: d.nb,
        before: [0, 2, 4, 6].map(|i| node.op_param_i32(i)),
    };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

fn is_2d(node: TensorRef) -> bool {
    node.op_param_i32(6) == 1
}

/// Floats into floats; the kernel gives its size only.
pub fn check_im2col(node: TensorRef, _: &Info) -> Result<()> {
    let (kernel, a) = (src(node, 0)?, src(node, 1)?);
    ensure!(matches!(a.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "patches of {:?}", a.dtype());
    ensure!(matches!(node.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "patches as {:?}", node.dtype());
    let w = Window::<2>::of_node(node);
    ensure!(w.stride[0] > 0 && w.dilation[0] > 0, "stride {:?}, dilation {:?}", w.stride, w.dilation);
    ensure!(node.is_contiguous_rows(), "rows with gaps");
    let (k, n) = (kernel.ne(), a.ne());
    let patch = if is_2d(node) { k[0] * k[1] * n[2] } else { k[0] * n[1] };
    ensure!(patch == node.ne()[0] && patch < 1 << 31, "patches of {patch} in rows of {}", node.ne()[0]);
    let images = if is_2d(node) { n[3] } else { n[2] };
    ensure!(node.ne()[if is_2d(node) { 3 } else { 2 }] == images, "{images} images");
    [kernel, a, node].into_iter().try_for_each(|t| View::shape(t).map(drop))
}

/// IM2COL. A line is an image of one row: its channels are dimension 1, its images dimension 2.
pub fn im2col(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (k, a, d) = (View::shape(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let w = Window::<2>::of_node(node);
    let plane = is_2d(node);
    let (kernel, size, a_nb, ne, d_nb) = if plane {
        ([k.ne[0], k.ne[1]], [a.ne[0], a.ne[1]], a.nb, d.ne, d.nb123())
    } else {
        let ne = [d.ne[0], d.ne[1], 1, d.ne[2]];
        ([k.ne[0], 1], [a.ne[0], 1], [a.nb[0], 0, a.nb[1], a.nb[2]], ne, [d.nb[1], 0, d.nb[2]])
    };
    let n_rows = ne[1] * ne[2] * ne[3];
    let g = grid(ne[0], n_rows, plan.info)?;
    let pair = |v: [i32; 2]| [v[0], if plane { v[1] } else { 0 }];
    let (stride, pad, dilation) = (pair(w.stride), pair(w.pad), pair(w.dilation));
    let push = push::Im2col { a: a.at, d: d.at, ne, n_rows, kernel, size, a_nb, d_nb, stride, pad, dilation };
    let kernel = KernelFor::new("", g.size, &constants::Im2col { a: a.ty(), d: d.ty() })?;
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// Single or half precision into single; a kind there is; sizes that make sense.
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
pub fn pool(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
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

/// Single precision without gaps, images of less than 2^31 elements.
pub fn check_group_norm(node: TensorRef, _: &Info) -> Result<()> {
    let a = check_f32(node)?;
    ensure!(a.is_contiguous() && node.is_contiguous() && a.same_shape(node), "rows with gaps");
    let ne = a.ne();
    ensure!(node.op_param_i32(0) > 0, "{} groups", node.op_param_i32(0));
    ensure!(ne[..3].iter().try_fold(1i64, |n, &e| n.checked_mul(e)).is_some_and(|n| n < 1 << 31), "images of {ne:?}");
    Ok(())
}

/// GROUP_NORM. Parameter 0: groups, 1: epsilon.
pub fn group_norm(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let groups = (node.op_param_i32(0) as u32).min(d.ne[2].max(1));
    let plane = d.ne[0] * d.ne[1];
    let size = plane * d.ne[2].div_ceil(groups);
    let constants = |one_subgroup| constants::GroupNorm { one_subgroup };
    let (kernel, threads) = tune::reduction(size, constants, plan.info)?;
    let n_work = groups * d.ne[3];
    let g = Grid::list(n_work.into(), threads, plan.info)?;
    let (image, eps) = (plane * d.ne[2], node.op_param_f32(1));
    let push = push::GroupNorm { a: a.at, d: d.at, n_work, groups, size, image, eps };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}
