//! IM2COL: patches of images as rows of a matrix.

#![forbid(unsafe_code)]

use super::{ensure, grid, src};
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::conv::Window;
use crate::vulkan::Info;
use crate::vulkan::interface::{constants, push};
use crate::vulkan::plan::{DispatchList, KernelFor, View};

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
