//! Convolutions. Kernels are [KW, KH, IC, OC], data [W, H, C, N]; parameters are strides (s), paddings (p) and
//! dilations (d), innermost dimension first.
#![allow(non_snake_case)] // The parameters are named as in C.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{dtype, need, numbers, out};
use crate::ggml_assert;
use crate::guard::guarded;
use crate::tensor::TensorRef;
use crate::tensor::ops::conv::{self, Window};
use std::ffi::c_int;

fn window2(stride: [c_int; 2], pad: [c_int; 2], dilation: [c_int; 2]) -> Window<2> {
    Window { stride, pad, dilation }
}

/// A dimension of a kernel as an integer.
fn size(a: TensorRef, i: usize) -> c_int {
    let n = a.ne()[i];
    ggml_assert!(c_int::try_from(n).is_ok(), "a kernel of {n} elements");
    n as c_int
}

/// Half a dimension of a kernel.
fn half(a: TensorRef, i: usize) -> c_int {
    size(a, i) / 2
}

/// Lays out the patches of `b` that a kernel with the shape of `a` covers, one per row, as `dst_type`. With `is_2D`,
/// `a` [KW, KH, IC, OC] and `b` [W, H, IC, N] give [IC * KH * KW, OW, OH, N]; otherwise `a` [K, IC, OC] and `b` [W,
/// IC, N] give [IC * K, OW, N]. The data of `a` is not used.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_im2col(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    s0: c_int,
    s1: c_int,
    p0: c_int,
    p1: c_int,
    d0: c_int,
    d1: c_int,
    is_2D: bool,
    dst_type: raw::ggml_type,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(conv::im2col(ctx, a, b, &window2([s0, s1], [p0, p1], [d0, d1]), is_2D, dtype(dst_type)))
}

/// Gradient of `ggml_im2col` for data with the four dimensions at `ne`, as F32. `a` is the gradient of its result,
/// `b` the kernel.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_im2col_back(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    ne: *mut i64,
    s0: c_int,
    s1: c_int,
    p0: c_int,
    p1: c_int,
    d0: c_int,
    d1: c_int,
    is_2D: bool,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    ggml_assert!(!ne.is_null());
    numbers!(4; ne);
    out(conv::im2col_back(ctx, a, b, ne.unwrap_or_default(), &window2([s0, s1], [p0, p1], [d0, d1]), is_2D))
}

/// Adds the overlapping columns of a transposed convolution: `a` [K * oc, T], contiguous, gives [(T - 1) * s0 + K - 2
/// * p0, oc].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_col2im_1d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    s0: c_int,
    oc: c_int,
    p0: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(conv::col2im_1d(ctx, a, s0, oc, p0))
}

/// 1D convolution, by `ggml_im2col` and a matrix product: kernel `a` [K, IC, OC] and data `b` [W, IC, N] give F32
/// [OW, OC, N].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_conv_1d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    s0: c_int,
    p0: c_int,
    d0: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(conv::conv_1d(ctx, a, b, &Window::line(s0, p0, d0)))
}

/// `ggml_conv_1d` with a padding of half the kernel.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_conv_1d_ph(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    s: c_int,
    d: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(conv::conv_1d(ctx, a, b, &Window::line(s, half(a, 0), d)))
}

/// 1D depthwise convolution: `a` [K, 1, C] and `b` [W, C] give F32 [OW, C].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_conv_1d_dw(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    s0: c_int,
    p0: c_int,
    d0: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(conv::conv_1d_dw(ctx, a, b, &Window::line(s0, p0, d0)))
}

/// `ggml_conv_1d_dw` with a padding of half the kernel.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_conv_1d_dw_ph(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    s0: c_int,
    d0: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(conv::conv_1d_dw(ctx, a, b, &Window::line(s0, half(a, 0), d0)))
}

/// 1D transposed convolution: kernel `a` [K, OC, IC] and data `b` [W, IC] give F32 [(W - 1) * s0 + K, OC]. `p0` must
/// be 0, and `d0` must be 1.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_conv_transpose_1d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    s0: c_int,
    p0: c_int,
    d0: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(conv::conv_transpose_1d(ctx, a, b, s0, p0, d0))
}

/// 2D convolution, by `ggml_im2col` and a matrix product: kernel `a` [KW, KH, IC, OC] and data `b` [W, H, IC, N] give
/// F32 [OW, OH, OC, N].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_conv_2d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    s0: c_int,
    s1: c_int,
    p0: c_int,
    p1: c_int,
    d0: c_int,
    d1: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(conv::conv_2d(ctx, a, b, &window2([s0, s1], [p0, p1], [d0, d1])))
}

/// `ggml_im2col` of volumes: a kernel with the shape of `a` [KW, KH, KD, IC * OC] and data `b` [W, H, D, IC * N] give
/// [IC * KD * KH * KW, OW, OH, OD * N], as `dst_type`. The data of `a` is not used.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_im2col_3d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    IC: i64,
    s0: c_int,
    s1: c_int,
    s2: c_int,
    p0: c_int,
    p1: c_int,
    p2: c_int,
    d0: c_int,
    d1: c_int,
    d2: c_int,
    dst_type: raw::ggml_type,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(conv::im2col_3d(
        ctx,
        a,
        b,
        IC,
        &Window { stride: [s0, s1, s2], pad: [p0, p1, p2], dilation: [d0, d1, d2] },
        dtype(dst_type),
    ))
}

/// 3D convolution, by `ggml_im2col_3d` and a matrix product: kernel `a` [KW, KH, KD, IC * OC] and data `b` [W, H, D,
/// IC * N] give F32 [OW, OH, OD, OC * N].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_conv_3d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    IC: i64,
    s0: c_int,
    s1: c_int,
    s2: c_int,
    p0: c_int,
    p1: c_int,
    p2: c_int,
    d0: c_int,
    d1: c_int,
    d2: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(conv::conv_3d(ctx, a, b, IC, &Window { stride: [s0, s1, s2], pad: [p0, p1, p2], dilation: [d0, d1, d2] }))
}

/// `ggml_conv_2d` with strides equal to the kernel size and no padding: adjacent patches.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_conv_2d_sk_p0(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    let stride = [0, 1].map(|i| size(a, i));
    out(conv::conv_2d(ctx, a, b, &window2(stride, [0; 2], [1; 2])))
}

/// `ggml_conv_2d` with strides of 1 and a padding of half the kernel.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_conv_2d_s1_ph(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    let pad = [0, 1].map(|i| half(a, i));
    out(conv::conv_2d(ctx, a, b, &window2([1; 2], pad, [1; 2])))
}

/// 2D depthwise convolution, by `ggml_im2col` and a matrix product: kernel `a` [KW, KH, 1, C] and data `b` [W, H, C,
/// N] give F32 [OW, OH, C, N].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_conv_2d_dw(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    s0: c_int,
    s1: c_int,
    p0: c_int,
    p1: c_int,
    d0: c_int,
    d1: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(conv::conv_2d_dw(ctx, a, b, &window2([s0, s1], [p0, p1], [d0, d1])))
}

/// As `ggml_conv_2d_dw`, but as one operation, in the type of `b`. If the channels of `b` are innermost in memory
/// (see `ggml_is_contiguous_channels`), so are those of the result.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_conv_2d_dw_direct(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    stride0: c_int,
    stride1: c_int,
    pad0: c_int,
    pad1: c_int,
    dilation0: c_int,
    dilation1: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(conv::conv_2d_dw_direct(ctx, a, b, &window2([stride0, stride1], [pad0, pad1], [dilation0, dilation1])))
}

/// 2D transposed convolution without padding: kernel `a` [KW, KH, OC, IC] and data `b` [W, H, IC, N] give F32 [(W -
/// 1) * stride + KW, (H - 1) * stride + KH, OC, N].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_conv_transpose_2d_p0(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    stride: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(conv::conv_transpose_2d_p0(ctx, a, b, stride))
}

/// As `ggml_conv_2d`, but as one operation, in the type of `b`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_conv_2d_direct(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    s0: c_int,
    s1: c_int,
    p0: c_int,
    p1: c_int,
    d0: c_int,
    d1: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(conv::conv_2d_direct(ctx, a, b, &window2([s0, s1], [p0, p1], [d0, d1])))
}

/// As `ggml_conv_3d`, but as one operation: kernel `a` [KW, KH, KD, n_channels * n_channels_out], data `b` [W, H, D,
/// n_channels * n_batch].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_conv_3d_direct(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    s0: c_int,
    s1: c_int,
    s2: c_int,
    p0: c_int,
    p1: c_int,
    p2: c_int,
    d0: c_int,
    d1: c_int,
    d2: c_int,
    n_channels: c_int,
    n_batch: c_int,
    n_channels_out: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(conv::conv_3d_direct(
        ctx,
        a,
        b,
        &Window { stride: [s0, s1, s2], pad: [p0, p1, p2], dilation: [d0, d1, d2] },
        [n_channels, n_batch, n_channels_out],
    ))
}
