//! Convolutions. Files: `columns` (patches as rows of a matrix, and the reverse). Here: direct, depthwise and
//! transposed convolutions.

#![forbid(unsafe_code)]

mod columns;

pub use columns::{
    check_col2im, check_im2col, check_im2col_3d, check_im2col_back, col2im, im2col, im2col_3d, im2col_back,
};

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::error::{Error, Result};
use crate::tensor::TensorRef;
use crate::tensor::ops::conv::Window;
use crate::vulkan::device::Info;
use crate::vulkan::plan::checks::{check_tile, ensure, src};
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;

/// Results of a convolution that a workgroup computes, and places of each.
const TILE: u32 = 64;

/// A kernel in F32 or F16, an image and a result in F32.
fn check_types(node: TensorRef) -> Result<()> {
    let (k, x) = (src(node, 0)?, src(node, 1)?);
    ensure!(matches!(k.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "a kernel of {:?}", k.dtype());
    ensure!(x.dtype() == GGML_TYPE_F32 && node.dtype() == GGML_TYPE_F32, "{:?} into {:?}", x.dtype(), node.dtype());
    [k, x, node].into_iter().try_for_each(|t| View::shape(t).map(drop))
}

/// Positive strides and dilations, and positions that 32 bits represent. `out` and `kernel` are sizes.
fn check_window<const N: usize>(w: &Window<N>, out: &[i64], kernel: &[i64]) -> Result<()> {
    for i in 0..N {
        let [stride, pad, dilation] = [w.stride[i], w.pad[i], w.dilation[i]].map(i64::from);
        ensure!(stride > 0 && dilation > 0, "stride {stride}, dilation {dilation}");
        let far = |n: i64, step: i64| n.saturating_mul(step) < 1 << 29;
        ensure!(far(out[i], stride) && far(kernel[i], dilation) && pad.abs() < 1 << 29, "a window of {:?}", w);
    }
    Ok(())
}

/// Sizes and strides of a convolution of volumes. A plane is a volume of depth 1.
struct Convolution {
    window: Window<3>,
    kernel: [u32; 3],
    channels: u32,
    results: u32,
    images: u32,
    /// Strides of channels and results of the kernel, channels and images of the image, results and images of the
    /// result.
    a: [u32; 2],
    x: [u32; 2],
    d: [u32; 2],
}

/// The first three values, of which the last one is another for a plane.
fn three<T: Copy>(v: &[T], plane: bool, flat: T) -> [T; 3] {
    [v[0], v[1], if plane { flat } else { v[2] }]
}

impl Convolution {
    /// Of views of kernel, image and result.
    fn of(node: TensorRef, [a, x, d]: [&View; 3]) -> Result<Self> {
        if node.op() == GGML_OP_CONV_2D {
            let w = Window::<2>::of_node(node);
            let with = |v: [i32; 2], flat| [v[0], v[1], flat];
            return Ok(Self {
                window: Window { stride: with(w.stride, 1), pad: with(w.pad, 0), dilation: with(w.dilation, 1) },
                kernel: three(&a.ne, true, 1),
                channels: x.ne[2],
                results: d.ne[2],
                images: d.ne[3],
                a: [a.nb[2], a.nb[3]],
                x: [x.nb[2], x.nb[3]],
                d: [d.nb[2], d.nb[3]],
            });
        }
        let [channels, images, results] = [9, 10, 11].map(|i| node.op_param_i32(i) as u32);
        // In volumes, dimension 3 counts channels and images, or channels and results.
        let far = |step: u32, n: u32| {
            step.checked_mul(n).ok_or_else(|| Error::Unsupported(format!("a stride of {n} x {step} elements")))
        };
        Ok(Self {
            window: Window::of_node(node),
            kernel: three(&a.ne, false, 1),
            channels,
            results,
            images,
            a: [a.nb[3], far(a.nb[3], channels)?],
            x: [x.nb[3], far(x.nb[3], channels)?],
            d: [d.nb[3], far(d.nb[3], results)?],
        })
    }
}

fn check_convolution(node: TensorRef, info: &Info) -> Result<()> {
    check_types(node)?;
    check_tile(9 << 10, info)?;
    let (a, x, d) = (View::shape(src(node, 0)?)?, View::shape(src(node, 1)?)?, View::shape(node)?);
    let c = Convolution::of(node, [&a, &x, &d])?;
    check_window(&c.window, &node.ne()[..3], &c.kernel.map(i64::from))?;
    let taps = c.kernel.iter().try_fold(c.channels, |n, k| n.checked_mul(*k));
    ensure!(taps.is_some_and(|n| n < 1 << 31), "kernels of {:?}", a.ne);
    let size = three(&d.ne, node.op() == GGML_OP_CONV_2D, 1);
    let places = size.iter().try_fold(c.images, |n, k| n.checked_mul(*k));
    ensure!(places.is_some_and(|n| n < 1 << 31), "results of {:?}", d.ne);
    Grid::stack(c.results.div_ceil(TILE), 1, 256, info).map(drop)
}

/// Kernel `[w, h, channels, results]`, image `[w, h, channels, images]`.
pub fn check_conv_2d(node: TensorRef, info: &Info) -> Result<()> {
    let (k, x, n) = (src(node, 0)?.ne(), src(node, 1)?.ne(), node.ne());
    ensure!(k[2] == x[2] && n[2] == k[3] && n[3] == x[3], "{k:?} over {x:?} into {n:?}");
    check_convolution(node, info)
}

/// Kernel `[w, h, d, channels * results]`, image `[w, h, d, channels * images]`. Parameters 9 to 11: channels, images,
/// results.
pub fn check_conv_3d(node: TensorRef, info: &Info) -> Result<()> {
    let p = |i| i64::from(node.op_param_i32(i));
    let (k, x, n) = (src(node, 0)?.ne(), src(node, 1)?.ne(), node.ne());
    ensure!(p(9) > 0 && p(10) > 0 && p(11) > 0, "channels {}, images {}, results {}", p(9), p(10), p(11));
    ensure!(k[3] == p(9) * p(11) && x[3] == p(9) * p(10) && n[3] == p(10) * p(11), "{k:?} over {x:?} into {n:?}");
    check_convolution(node, info)
}

/// CONV_2D, CONV_3D. The window is part of the pipeline, so that drivers replace divisions by its sizes.
pub fn convolution(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, x, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let c = Convolution::of(node, [&a, &x, &d])?;
    let plane = node.op() == GGML_OP_CONV_2D;
    let [[kw, kh, kd], [sx, sy, sz], [px, py, pz], [dx, dy, dz]] = [
        c.kernel,
        c.window.stride.map(|s| s as u32),
        c.window.pad.map(|p| p as u32),
        c.window.dilation.map(|d| d as u32),
    ];
    let constants = constants::Conv { a: a.ty(), kw, kh, kd, sx, sy, sz, px, py, pz, dx, dy, dz };
    let out_size = three(&d.ne, plane, 1);
    let places = out_size.iter().product::<u32>() * c.images;
    let g = Grid::stack(c.results.div_ceil(TILE), places.div_ceil(TILE).into(), 256, plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants)?;
    let push = push::Conv {
        a: a.at,
        x: x.at,
        d: d.at,
        channels: c.channels,
        results: c.results,
        images: c.images,
        size: three(&x.ne, plane, 1),
        out_size,
        a_nb: three(&a.nb, plane, 0),
        a_channel: c.a[0],
        a_result: c.a[1],
        x_nb: three(&x.nb, plane, 0),
        x_channel: c.x[0],
        x_image: c.x[1],
        d_nb: three(&d.nb, plane, 0),
        d_channel: c.d[0],
        d_image: c.d[1],
    };
    plan.dispatch(kernel, push, g.groups, &[a.range, x.range], &[d.range]);
    Ok(())
}

/// Kernel `[w, h, 1, channels]`, image `[w, h, channels, images]`.
pub fn check_conv_2d_dw(node: TensorRef, _: &Info) -> Result<()> {
    check_types(node)?;
    let (k, x, n) = (src(node, 0)?.ne(), src(node, 1)?.ne(), node.ne());
    ensure!(k[2] == 1 && k[3] == x[2] && n[2..] == x[2..], "{k:?} over {x:?} into {n:?}");
    let rows = n[0].checked_mul(n[1]).and_then(|p| p.checked_mul(n[3]));
    ensure!(rows.is_some_and(|r| r < 1 << 31), "results of {n:?}");
    check_window(&Window::<2>::of_node(node), &n, &k)
}

/// CONV_2D_DW. If the channels are innermost in the result, they are its columns.
pub fn conv_2d_dw(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, x, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let w = Window::<2>::of_node(node);
    let channels_first = d.nb[2] == 1 && d.ne[2] > 1;
    let (columns, n_rows) = if channels_first { (d.ne[2], d.ne[0] * d.ne[1] * d.ne[3]) } else { (d.ne[0], d.n_rows()) };
    let g = grid(columns, n_rows, plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::ConvDw { a: a.ty(), channels_first })?;
    let push = push::ConvDw {
        a: a.at,
        x: x.at,
        d: d.at,
        ne: d.ne,
        n_rows,
        kernel: [a.ne[0], a.ne[1]],
        size: [x.ne[0], x.ne[1]],
        a_nb: [a.nb[0], a.nb[1], a.nb[3]],
        x_nb: x.nb,
        d_nb: d.nb,
        stride: w.stride,
        pad: w.pad,
        dilation: w.dilation,
    };
    plan.dispatch(kernel, push, g.groups, &[a.range, x.range], &[d.range]);
    Ok(())
}

/// Kernel `[w, results, channels]`, lines `[n, channels]`. Parameter 0: stride.
pub fn check_conv_transpose_1d(node: TensorRef, _: &Info) -> Result<()> {
    check_types(node)?;
    let (k, x, n) = (src(node, 0)?.ne(), src(node, 1)?.ne(), node.ne());
    ensure!(node.op_param_i32(0) > 0, "stride {}", node.op_param_i32(0));
    ensure!(k[3] == 1 && x[2] == 1 && x[3] == 1 && k[2] == x[1] && n[1] == k[1], "{k:?} over {x:?} into {n:?}");
    ensure!(n[2] == 1 && n[3] == 1, "{n:?}");
    Ok(())
}

/// Kernel `[w, h, results, channels]`, image `[w, h, channels, images]`. Parameter 0: stride.
pub fn check_conv_transpose_2d(node: TensorRef, _: &Info) -> Result<()> {
    check_types(node)?;
    let (k, x, n) = (src(node, 0)?.ne(), src(node, 1)?.ne(), node.ne());
    ensure!(node.op_param_i32(0) > 0, "stride {}", node.op_param_i32(0));
    ensure!(k[3] == x[2] && n[2] == k[2] && n[3] == x[3], "{k:?} over {x:?} into {n:?}");
    Ok(())
}

/// CONV_TRANSPOSE_1D, CONV_TRANSPOSE_2D. A line is a plane of height 1.
pub fn conv_transpose(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (mut a, mut x, mut d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    if node.op() == GGML_OP_CONV_TRANSPOSE_1D {
        for v in [&mut a, &mut x, &mut d] {
            v.ne = [v.ne[0], 1, v.ne[1], v.ne[2]];
            v.nb = [v.nb[0], 0, v.nb[1], v.nb[2]];
        }
    }
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::ConvTranspose { a: a.ty() })?;
    let push = push::ConvTranspose {
        a: a.at,
        x: x.at,
        d: d.at,
        ne: d.ne,
        n_rows: d.n_rows(),
        kernel: [a.ne[0], a.ne[1]],
        size: [x.ne[0], x.ne[1]],
        channels: x.ne[2],
        a_nb: a.nb,
        x_nb: x.nb,
        d_nb: d.nb,
        stride: node.op_param_i32(0) as u32,
    };
    plan.dispatch(kernel, push, g.groups, &[a.range, x.range], &[d.range]);
    Ok(())
}
