//! Patches of images as rows of a matrix, and sums of such rows.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::conv::Window;
use crate::vulkan::device::Info;
use crate::vulkan::ops::conv::check_window;
use crate::vulkan::plan::checks::{check_f32, ensure, is_float, src};
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;

fn is_2d(node: TensorRef) -> bool {
    node.op_param_i32(6) == 1
}

/// Floats into floats. Only the size of the kernel matters.
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

/// IM2COL. In one dimension, the image has one row, its channels are in dimension 1, and the batch in dimension 2.
pub fn im2col(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
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

/// An image in F32 into F32 or F16. Parameter 9: channels.
pub fn check_im2col_3d(node: TensorRef, _: &Info) -> Result<()> {
    let (kernel, a) = (src(node, 0)?, src(node, 1)?);
    ensure!(a.dtype() == GGML_TYPE_F32, "patches of {:?}", a.dtype());
    ensure!(matches!(node.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "patches as {:?}", node.dtype());
    ensure!(node.is_contiguous_rows(), "rows with gaps");
    let (k, x, n) = (kernel.ne(), a.ne(), node.ne());
    let channels = i64::from(node.op_param_i32(9));
    ensure!(channels > 0 && x[3] > 0 && x[3] % channels == 0, "{channels} channels in {x:?}");
    ensure!(n[0] == channels * k[0] * k[1] * k[2] && n[3] % (x[3] / channels) == 0, "{k:?} over {x:?} into {n:?}");
    check_window(&Window::<3>::of_node(node), &[n[1], n[2], n[3]], &k)?;
    [kernel, a, node].into_iter().try_for_each(|t| View::shape(t).map(drop))
}

/// IM2COL_3D.
pub fn im2col_3d(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (k, a, d) = (View::shape(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let w = Window::<3>::of_node(node);
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::Im2col3d { d: d.ty() })?;
    let push = push::Im2col3d {
        a: a.at,
        d: d.at,
        ne: [d.ne[0], d.ne[1], d.ne[2]],
        n_rows: d.n_rows(),
        depth: d.ne[3] / (a.ne[3] / node.op_param_i32(9) as u32),
        kernel: [k.ne[0], k.ne[1], k.ne[2]],
        size: [a.ne[0], a.ne[1], a.ne[2]],
        a_nb: a.nb,
        d_nb: d.nb123(),
        stride: w.stride,
        pad: w.pad,
        dilation: w.dilation,
    };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// The window of an image. The second dimension of a line has no step, padding or dilation of its own.
fn image_window(node: TensorRef) -> Window<2> {
    let mut w = Window::<2>::of_node(node);
    if !is_2d(node) {
        (w.stride[1], w.pad[1], w.dilation[1]) = (1, 0, 1);
    }
    w
}

/// F32: the gradient of the patches, of an image or a line with the shape of the node. Only the shape of the kernel
/// matters.
pub fn check_im2col_back(node: TensorRef, _: &Info) -> Result<()> {
    let (grad, kernel) = (check_f32(node)?, src(node, 1)?);
    let (g, k, n) = (grad.ne(), kernel.ne(), node.ne());
    let fits = if is_2d(node) {
        g[0] == n[2] * k[0] * k[1] && g[3] == n[3]
    } else {
        g[0] == n[1] * k[0] && g[2] == n[2] && g[3] == 1 && n[3] == 1
    };
    ensure!(fits, "{g:?} by {k:?} into {n:?}");
    check_window(&image_window(node), &g[1..], &k)?;
    ensure!(n[0] < 1 << 29 && n[1] < 1 << 29, "an image of {n:?}");
    View::shape(kernel).map(drop)
}

/// IM2COL_BACK.
pub fn im2col_back(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (mut a, k, mut d) = (View::of(src(node, 0)?)?, View::shape(src(node, 1)?)?, View::of(node)?);
    let w = image_window(node);
    let mut kernel_size = [k.ne[0], k.ne[1]];
    if !is_2d(node) {
        (d.ne, d.nb) = ([d.ne[0], 1, d.ne[1], d.ne[2]], [d.nb[0], 0, d.nb[1], d.nb[2]]);
        (a.ne, a.nb) = ([a.ne[0], a.ne[1], 1, a.ne[2]], [a.nb[0], a.nb[1], 0, a.nb[2]]);
        kernel_size[1] = 1;
    }
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::Im2colBack {})?;
    let push = push::Im2colBack {
        a: a.at,
        d: d.at,
        ne: d.ne,
        n_rows: d.n_rows(),
        kernel: kernel_size,
        size: [a.ne[1], a.ne[2]],
        a_nb: a.nb,
        d_nb: d.nb,
        stride: w.stride,
        pad: w.pad,
        dilation: w.dilation,
    };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// Matrices of floats of one format. Parameters: stride, channels, elements to omit at the start.
pub fn check_col2im(node: TensorRef, _: &Info) -> Result<()> {
    let a = src(node, 0)?;
    ensure!(a.dtype() == node.dtype() && is_float(a.dtype()), "columns of {:?} into {:?}", a.dtype(), node.dtype());
    let p = |i| i64::from(node.op_param_i32(i));
    ensure!(p(0) > 0 && p(1) > 0 && p(2) >= 0 && a.ne()[0] % p(1) == 0, "stride {}, channels {}", p(0), p(1));
    ensure!(node.ne()[1] == p(1) && node.is_matrix() && a.is_matrix(), "{:?} into {:?}", a.ne(), node.ne());
    let end = a.ne()[1].saturating_mul(p(0)).max(node.ne()[0].saturating_add(p(2)));
    ensure!(end < 1 << 30, "{} columns {} apart", a.ne()[1], p(0));
    [a, node].into_iter().try_for_each(|t| View::shape(t).map(drop))
}

/// COL2IM_1D.
pub fn col2im(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let [stride, channels, cut] = [0, 1, 2].map(|i| node.op_param_i32(i) as u32);
    let g = grid(d.ne[0], d.ne[1], plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::Col2im { a: a.ty() })?;
    let push = push::Col2im {
        a: a.at,
        d: d.at,
        ne: [d.ne[0], d.ne[1]],
        a_nb: [a.nb[0], a.nb[1]],
        d_nb: [d.nb[0], d.nb[1]],
        width: a.ne[0] / channels,
        columns: a.ne[1],
        stride,
        cut,
    };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}
