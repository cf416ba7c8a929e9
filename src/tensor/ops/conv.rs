//! Convolutions: the unfolding of patches into rows, convolutions composed of it and a matrix product, direct and
//! transposed ones.
//!
//! The tensors of a composed convolution are in the context in the order that hosts know from the original.
//!
//! Sizes: kernels are [KW, KH, IC, OC], data [W, H, C, N]. Strides, paddings and dilations are given innermost first.
#![forbid(unsafe_code)]

use super::build::{Node, dim, product, require, require_contiguous, require_type};
use super::copy::cont;
use super::matmul::mul_mat;
use super::view::{permute, reshape};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::{self, *};
use crate::error::Result;
use crate::invalid;
use crate::tensor::{Context, TensorRef};

/// Strides, paddings and dilations of `D` dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window<const D: usize> {
    /// Steps between patches.
    pub stride: [i32; D],
    /// Zeros around the data.
    pub pad: [i32; D],
    /// Distance of the elements of a patch.
    pub dilation: [i32; D],
}

impl<const D: usize> Window<D> {
    /// The parameter words: strides, paddings, dilations.
    fn words<const N: usize>(&self) -> [i32; N] {
        let mut words = [0; N];
        let all = self.stride.iter().chain(&self.pad).chain(&self.dilation);
        for (w, v) in words.iter_mut().zip(all) {
            *w = *v;
        }
        words
    }

    /// Patches that fit along dimension `i` into `n` elements, for a kernel of `k`.
    fn patches(&self, op: &str, i: usize, n: i64, k: i64) -> Result<i64> {
        let [n, k, s, p, d] =
            [n, k, self.stride[i].into(), self.pad[i].into(), self.dilation[i].into()].map(i128::from);
        require(s != 0, || format!("{op}: a stride of 0"));
        dim((n + 2 * p - d * (k - 1) - 1) / s + 1)
    }

    /// As [`Self::patches`], which must be at least one.
    fn some_patches(&self, op: &str, i: usize, n: i64, k: i64) -> Result<i64> {
        let patches = self.patches(op, i, n, k)?;
        require(patches > 0, || format!("{op}: a kernel of {k} does not fit into {n} elements of dimension {i}"));
        Ok(patches)
    }
}

impl<const D: usize> Window<D> {
    /// The window of a node whose first parameter words are strides, paddings and dilations: `IM2COL` and its kin, and
    /// the direct convolutions.
    pub fn of_node(node: TensorRef) -> Self {
        let p = node.op_params();
        let three = |first: usize| std::array::from_fn(|i| p[first + i]);
        Self { stride: three(0), pad: three(D), dilation: three(2 * D) }
    }
}

impl Window<2> {
    /// The window of a one-dimensional operation: the second dimension is unused.
    pub fn line(stride: i32, pad: i32, dilation: i32) -> Self {
        Self { stride: [stride, 0], pad: [pad, 0], dilation: [dilation, 0] }
    }
}

/// The format that patches are unfolded to for a product with `kernel`.
fn patch_type(kernel: TensorRef) -> ggml_type {
    if kernel.dtype() == GGML_TYPE_BF16 { GGML_TYPE_F32 } else { GGML_TYPE_F16 }
}

/// Unfolds the patches of `b` that `kernel` (of which only the shape is read) meets, one a row:
/// [KW KH IC, OW, OH, N] of planes, [K IC, OL, N] of lines (`b` [L, IC, N]).
///
/// # Parameters
/// 0 and 1: strides, 2 and 3: paddings, 4 and 5: dilations, 6: planes.
pub fn im2col(
    ctx: &mut Context,
    kernel: TensorRef,
    b: TensorRef,
    window: &Window<2>,
    planes: bool,
    dtype: ggml_type,
) -> Result<TensorRef> {
    let (nk, nb) = (kernel.ne(), b.ne());
    let channels = if planes { 2 } else { 1 };
    require(nk[channels] == nb[channels], || format!("im2col: kernel {nk:?} and data {nb:?} differ in channels"));
    require(planes || nb[3] == 1, || format!("im2col: lines {nb:?} have 3 dimensions at most"));
    let ow = window.some_patches("im2col", 0, nb[0], nk[0])?;
    let ne = if planes {
        [product(&nk[..3])?, ow, window.some_patches("im2col", 1, nb[1], nk[1])?, nb[3]]
    } else {
        [product(&nk[..2])?, ow, nb[2], 1]
    };
    Node::new(GGML_OP_IM2COL, ctx.new_tensor(dtype, &ne)?)
        .params(0, window.words::<6>())
        .param(6, planes)
        .of([kernel, b])
}

/// The gradient of [`im2col`] for data of `dims`, as F32. Parameters as there.
pub fn im2col_back(
    ctx: &mut Context,
    grad: TensorRef,
    kernel: TensorRef,
    dims: [i64; 4],
    window: &Window<2>,
    planes: bool,
) -> Result<TensorRef> {
    Node::new(GGML_OP_IM2COL_BACK, ctx.new_tensor(GGML_TYPE_F32, &dims)?)
        .params(0, window.words::<6>())
        .param(6, planes)
        .of([grad, kernel])
}

/// Unfolds patches of volumes: `kernel` [KW, KH, KD, IC OC], `b` [W, H, D, IC N] give [KW KH KD IC, OW, OH, OD N].
///
/// # Parameters
/// 0 to 2: strides, 3 to 5: paddings, 6 to 8: dilations, 9: `channels`.
pub fn im2col_3d(
    ctx: &mut Context,
    kernel: TensorRef,
    b: TensorRef,
    channels: i64,
    window: &Window<3>,
    dtype: ggml_type,
) -> Result<TensorRef> {
    require(channels > 0, || format!("im2col_3d: {channels} channels"));
    let (nk, nb) = (kernel.ne(), b.ne());
    let od = window.some_patches("im2col_3d", 2, nb[2], nk[2])?;
    let oh = window.some_patches("im2col_3d", 1, nb[1], nk[1])?;
    let ow = window.some_patches("im2col_3d", 0, nb[0], nk[0])?;
    let ne = [product(&[nk[0], nk[1], nk[2], channels])?, ow, oh, product(&[od, nb[3] / channels])?];
    let channels = i32::try_from(channels).map_err(|_| invalid!("im2col_3d: {channels} channels"))?;
    Node::new(GGML_OP_IM2COL_3D, ctx.new_tensor(dtype, &ne)?)
        .params(0, window.words::<9>())
        .param(9, channels)
        .of([kernel, b])
}

/// Convolution of lines: kernel `a` [K, IC, OC], data `b` [L, IC, N] give [OL, OC, N].
pub fn conv_1d(ctx: &mut Context, a: TensorRef, b: TensorRef, window: &Window<2>) -> Result<TensorRef> {
    let patches = im2col(ctx, a, b, window, false, patch_type(a))?;
    let (na, np) = (a.ne(), patches.ne());
    let kernel = reshape(ctx, a, &[product(&na[..2])?, na[2]])?;
    let rows = reshape(ctx, patches, &[np[0], product(&[np[1], np[2]])?])?;
    let t = mul_mat(ctx, rows, kernel)?;
    let t = reshape(ctx, t, &[np[1], np[2], na[2]])?;
    let t = permute(ctx, t, [0, 2, 1, 3])?;
    cont(ctx, t)
}

/// Convolution of lines, each channel by its own kernel: `a` [K, 1, C], `b` [L, C, 1] give [OL, C, 1].
pub fn conv_1d_dw(ctx: &mut Context, a: TensorRef, b: TensorRef, window: &Window<2>) -> Result<TensorRef> {
    let nb = b.ne();
    let b = reshape(ctx, b, &[nb[0], 1, nb[1], nb[2]])?;
    let patches = im2col(ctx, a, b, window, false, patch_type(a))?;
    let t = mul_mat(ctx, patches, a)?;
    let ne = t.ne();
    reshape(ctx, t, &[ne[0], ne[2], 1])
}

/// Adds up columns where they overlap, the last step of a transposed convolution of lines: contiguous `a` [K
/// `channels`, T] gives [(T - 1) `stride` + K - 2 `pad`, `channels`].
///
/// # Parameters
/// 0: `stride`, 1: `channels`, 2: `pad`.
pub fn col2im_1d(ctx: &mut Context, a: TensorRef, stride: i32, channels: i32, pad: i32) -> Result<TensorRef> {
    require(a.is_matrix(), || format!("col2im_1d: a must be a matrix, not {:?}", a.ne()));
    require_contiguous("col2im_1d", &[("a", a)]);
    require_type("col2im_1d", "a", a, &[GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16]);
    require(stride > 0 && channels > 0 && pad >= 0, || {
        format!("col2im_1d: stride {stride} and channels {channels} must be positive, padding {pad} not negative")
    });
    let ne = a.ne();
    let oc = i64::from(channels);
    require(ne[0] > 0 && ne[0] % oc == 0, || format!("col2im_1d: rows of {} are not {oc} channels", ne[0]));
    let len = (i128::from(ne[1]) - 1) * i128::from(stride) + i128::from(ne[0] / oc) - 2 * i128::from(pad);
    require(len > 0, || format!("col2im_1d: padding {pad} leaves nothing of {ne:?}"));
    Node::new(GGML_OP_COL2IM_1D, ctx.new_tensor(a.dtype(), &[dim(len)?, oc])?)
        .params(0, [stride, channels, pad])
        .of([a])
}

/// Elements that a transposed convolution makes of `n`.
fn spread(n: i64, k: i64, stride: i32) -> Result<i64> {
    dim((i128::from(n) - 1) * i128::from(stride) + i128::from(k))
}

/// Transposed convolution of lines: kernel `a` [K, OC, IC], data `b` [L, IC] give F32 [(L - 1) `stride` + K, OC].
/// Padding must be 0, dilation 1.
///
/// # Parameters
/// 0: `stride`, 1: `pad`, 2: `dilation`.
pub fn conv_transpose_1d(
    ctx: &mut Context,
    a: TensorRef,
    b: TensorRef,
    stride: i32,
    pad: i32,
    dilation: i32,
) -> Result<TensorRef> {
    let (na, nb) = (a.ne(), b.ne());
    require(b.is_matrix() && na[2] == nb[1] && na[3] == 1, || {
        format!("conv_transpose_1d: kernel {na:?} does not match data {nb:?}")
    });
    require(pad == 0 && dilation == 1, || {
        format!("conv_transpose_1d: padding {pad} and dilation {dilation} must be 0 and 1")
    });
    let ne = [spread(nb[0], na[0], stride)?, na[1], nb[2], 1];
    Node::new(GGML_OP_CONV_TRANSPOSE_1D, ctx.new_tensor(GGML_TYPE_F32, &ne)?)
        .params(0, [stride, pad, dilation])
        .of([a, b])
}

/// Transposed convolution of planes without padding: kernel `a` [KW, KH, OC, IC], data `b` [W, H, IC, N].
///
/// # Parameters
/// 0: `stride`.
pub fn conv_transpose_2d_p0(ctx: &mut Context, a: TensorRef, b: TensorRef, stride: i32) -> Result<TensorRef> {
    let (na, nb) = (a.ne(), b.ne());
    require(na[3] == nb[2], || format!("conv_transpose_2d: kernel {na:?} does not match data {nb:?}"));
    let ne = [spread(nb[0], na[0], stride)?, spread(nb[1], na[1], stride)?, na[2], nb[3]];
    Node::new(GGML_OP_CONV_TRANSPOSE_2D, ctx.new_tensor(GGML_TYPE_F32, &ne)?).param(0, stride).of([a, b])
}

/// Convolution of planes: kernel `a` [KW, KH, IC, OC], data `b` [W, H, IC, N] give [OW, OH, OC, N].
pub fn conv_2d(ctx: &mut Context, a: TensorRef, b: TensorRef, window: &Window<2>) -> Result<TensorRef> {
    let patches = im2col(ctx, a, b, window, true, patch_type(a))?;
    let (na, np) = (a.ne(), patches.ne());
    let kernel = reshape(ctx, a, &[product(&na[..3])?, na[3]])?;
    let rows = reshape(ctx, patches, &[np[0], product(&np[1..])?])?;
    let t = mul_mat(ctx, rows, kernel)?;
    let t = reshape(ctx, t, &[np[1], np[2], np[3], na[3]])?;
    let t = permute(ctx, t, [0, 1, 3, 2])?;
    cont(ctx, t)
}

/// Convolution of volumes, with the shapes of [`im2col_3d`]; gives [OW, OH, OD, OC N].
pub fn conv_3d(ctx: &mut Context, a: TensorRef, b: TensorRef, channels: i64, window: &Window<3>) -> Result<TensorRef> {
    let patches = im2col_3d(ctx, a, b, channels, window, patch_type(a))?;
    let (na, np) = (a.ne(), patches.ne());
    let (oc, n) = (na[3] / channels, b.ne()[3] / channels);
    require(n > 0, || format!("conv_3d: data {:?} of {channels} channels", b.ne()));
    let kernel = reshape(ctx, a, &[product(&[na[0], na[1], na[2], channels])?, oc])?;
    let rows = reshape(ctx, patches, &[np[0], product(&np[1..])?])?;
    let t = mul_mat(ctx, rows, kernel)?;
    let od = np[3] / n;
    let t = reshape(ctx, t, &[product(&np[1..3])?, od, n, oc])?;
    let t = permute(ctx, t, [0, 1, 3, 2])?;
    let t = cont(ctx, t)?;
    reshape(ctx, t, &[np[1], np[2], od, product(&[oc, n])?])
}

/// Convolution of planes, each channel by its own kernel: `a` [KW, KH, 1, C], `b` [W, H, C, N] give [OW, OH, C, N].
pub fn conv_2d_dw(ctx: &mut Context, a: TensorRef, b: TensorRef, window: &Window<2>) -> Result<TensorRef> {
    let (na, nb) = (a.ne(), b.ne());
    let dtype = patch_type(a);
    let kernel = reshape(ctx, a, &[na[0], na[1], 1, product(&na[2..])?])?;
    let planes = reshape(ctx, b, &[nb[0], nb[1], 1, product(&nb[2..])?])?;
    let patches = im2col(ctx, kernel, planes, window, true, dtype)?;
    let np = patches.ne();
    let rows = reshape(ctx, patches, &[np[0], product(&np[1..3])?, nb[2], nb[3]])?;
    let nk = kernel.ne();
    let kernel = reshape(ctx, kernel, &[product(&nk[..2])?, nk[2], nk[3], 1])?;
    let t = mul_mat(ctx, kernel, rows)?;
    reshape(ctx, t, &[np[1], np[2], nb[2], nb[3]])
}

/// As [`conv_2d_dw`], as one operation: `a` [KW, KH, 1, C]. Data with innermost channels gives a result with innermost
/// channels.
///
/// # Parameters
/// 0 and 1: strides, 2 and 3: paddings, 4 and 5: dilations.
pub fn conv_2d_dw_direct(ctx: &mut Context, a: TensorRef, b: TensorRef, window: &Window<2>) -> Result<TensorRef> {
    const OP: &str = "conv_2d_dw_direct";
    let (na, nb) = (a.ne(), b.ne());
    require(na[2] == 1 && na[3] == nb[2], || format!("{OP}: kernel {na:?} does not match data {nb:?}"));
    let ne = [window.patches(OP, 0, nb[0], na[0])?, window.patches(OP, 1, nb[1], na[1])?, nb[2], nb[3]];
    let t = ctx.new_tensor(b.dtype(), &ne)?;
    if b.is_contiguous_channels() {
        let dtype = b.dtype();
        require(dtype.blck_size() == 1, || format!("{OP}: {dtype:?} is a block format"));
        let too_large = || invalid!("{OP}: {ne:?} elements are more than memory can hold");
        let size = |n: i64, stride: usize| usize::try_from(n).ok().and_then(|n| n.checked_mul(stride));
        let mut strides = t.nb();
        strides[0] = size(ne[2], dtype.type_size()).ok_or_else(too_large)?;
        strides[1] = size(ne[0], strides[0]).ok_or_else(too_large)?;
        strides[2] = dtype.type_size();
        t.set_nb(strides);
    }
    Node::new(GGML_OP_CONV_2D_DW, t).params(0, window.words::<6>()).of([a, b])
}

/// As [`conv_2d`], as one operation. Parameters as for [`conv_2d_dw_direct`].
pub fn conv_2d_direct(ctx: &mut Context, a: TensorRef, b: TensorRef, window: &Window<2>) -> Result<TensorRef> {
    const OP: &str = "conv_2d_direct";
    let (na, nb) = (a.ne(), b.ne());
    require(na[2] == nb[2], || format!("{OP}: kernel {na:?} and data {nb:?} differ in channels"));
    let ne = [window.patches(OP, 0, nb[0], na[0])?, window.patches(OP, 1, nb[1], na[1])?, na[3], nb[3]];
    Node::new(GGML_OP_CONV_2D, ctx.new_tensor(b.dtype(), &ne)?).params(0, window.words::<6>()).of([a, b])
}

/// As [`conv_3d`], as one operation with F32 result: `counts` are channels, batches and output channels.
///
/// # Parameters
/// 0 to 2: strides, 3 to 5: paddings, 6 to 8: dilations, 9 to 11: `counts`.
pub fn conv_3d_direct(
    ctx: &mut Context,
    a: TensorRef,
    b: TensorRef,
    window: &Window<3>,
    counts: [i32; 3],
) -> Result<TensorRef> {
    const OP: &str = "conv_3d_direct";
    let (na, nb) = (a.ne(), b.ne());
    let [c, n, oc] = counts.map(i64::from);
    require(na[3] == c * oc && nb[3] == c * n, || {
        format!("{OP}: {c} channels, {n} batches and {oc} output channels do not match kernel {na:?} and data {nb:?}")
    });
    let mut ne = [0, 0, 0, oc * n];
    for i in 0..3 {
        ne[i] = window.patches(OP, i, nb[i], na[i])?;
    }
    Node::new(GGML_OP_CONV_3D, ctx.new_tensor(GGML_TYPE_F32, &ne)?)
        .params(0, window.words::<9>())
        .params(9, counts)
        .of([a, b])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s};
    use super::*;

    const SAME: Window<2> = Window { stride: [1, 1], pad: [1, 1], dilation: [1, 1] };

    #[test]
    fn shapes_of_convolutions_of_planes() {
        let c = &mut ctx();
        let (k, x) = (f32s(c, &[3, 3, 2, 5]), f32s(c, &[8, 6, 2, 4]));
        let t = im2col(c, k, x, &SAME, true, GGML_TYPE_F32).unwrap();
        assert_eq!((t.ne(), &t.op_params()[..7]), ([18, 8, 6, 4], &[1, 1, 1, 1, 1, 1, 1][..]));
        assert_eq!(Window::of_node(t), SAME);
        assert_eq!(conv_2d(c, k, x, &SAME).unwrap().ne(), [8, 6, 5, 4]);
        assert_eq!(conv_2d_direct(c, k, x, &SAME).unwrap().ne(), [8, 6, 5, 4]);
        let k = f32s(c, &[3, 3, 1, 2]);
        assert_eq!(conv_2d_dw(c, k, x, &SAME).unwrap().ne(), [8, 6, 2, 4]);
        assert_eq!(conv_2d_dw_direct(c, k, x, &SAME).unwrap().ne(), [8, 6, 2, 4]);
        let k = f32s(c, &[3, 3, 5, 2]);
        assert_eq!(conv_transpose_2d_p0(c, k, x, 2).unwrap().ne(), [17, 13, 5, 4]);
    }

    #[test]
    fn shapes_of_convolutions_of_lines_and_volumes() {
        let c = &mut ctx();
        let (k, x) = (f32s(c, &[3, 2, 5]), f32s(c, &[8, 2, 4]));
        assert_eq!(conv_1d(c, k, x, &Window::line(1, 1, 1)).unwrap().ne(), [8, 5, 4, 1]);
        let cols = f32s(c, &[6, 5]);
        assert_eq!(col2im_1d(c, cols, 2, 2, 1).unwrap().ne(), [9, 2, 1, 1]);
        let (k, x) = (f32s(c, &[3, 3, 3, 2 * 5]), f32s(c, &[8, 7, 6, 2 * 4]));
        let w = Window { stride: [1; 3], pad: [1; 3], dilation: [1; 3] };
        assert_eq!(conv_3d(c, k, x, 2, &w).unwrap().ne(), [8, 7, 6, 20]);
        let t = conv_3d_direct(c, k, x, &w, [2, 4, 5]).unwrap();
        assert_eq!((t.ne(), &t.op_params()[9..12]), ([8, 7, 6, 20], &[2, 4, 5][..]));
    }

    #[test]
    fn channels_stay_innermost() {
        let c = &mut ctx();
        let (k, x) = (f32s(c, &[3, 3, 1, 4]), f32s(c, &[4, 8, 6, 1]));
        let x = permute(c, x, [2, 0, 1, 3]).unwrap();
        let t = conv_2d_dw_direct(c, k, x, &SAME).unwrap();
        assert_eq!((t.ne(), t.nb()), (x.ne(), x.nb()));
    }
}
