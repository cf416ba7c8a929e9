//! Tensors made of pieces of others, or of a formula: repeating, joining, padding, rolling, resizing, masking, ranges.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{ctx as need_ctx, known, out, tensor as need};
use crate::guard::guarded;
use crate::tensor::ops::arrange::Mask;
use crate::tensor::ops::{Place, arrange};
use std::ffi::c_int;

/// `a` repeated to fill the shape of `b`, each dimension of which is a multiple of that of `a`. `b` is not read.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_repeat(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arrange::repeat_like(ctx, a, b))
}

/// `a` repeated to fill the shape [ne0, ne1, ne2, ne3], each dimension of which is a multiple of that of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_repeat_4d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ne0: i64,
    ne1: i64,
    ne2: i64,
    ne3: i64,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(arrange::repeat(ctx, a, [ne0, ne1, ne2, ne3]))
}

/// Sum of all repetitions of the shape of `b` in `a`: the gradient of `ggml_repeat`. `b` is not read.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_repeat_back(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arrange::repeat_back(ctx, a, b))
}

/// `b` behind `a` along dimension `dim`. Types and all other dimensions are the same.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_concat(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    dim: c_int,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arrange::concat(ctx, a, b, dim))
}

/// F32 `a` [w, h, ...] resized to [w, h, ...] times `scale_factor`, 2 or more, in the first two dimensions.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_upscale(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    scale_factor: c_int,
    mode: raw::ggml_scale_mode,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    known(ggml_scale_mode::from_raw(mode & 0xff), "mode", mode);
    out(arrange::upscale(ctx, a, scale_factor, mode as u32))
}

/// F32 `a` resized to [ne0, ne1, ne2, ne3].
#[deprecated(note = "use ggml_interpolate instead")]
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_upscale_ext(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ne0: c_int,
    ne1: c_int,
    ne2: c_int,
    ne3: c_int,
    mode: raw::ggml_scale_mode,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    known(ggml_scale_mode::from_raw(mode & 0xff), "mode", mode);
    out(arrange::interpolate(ctx, a, [ne0, ne1, ne2, ne3].map(i64::from), mode as u32))
}

/// F32 `a` resized, up or down, to [ne0, ne1, ne2, ne3]. `mode` is an `enum ggml_scale_mode` with bits of `enum
/// ggml_scale_flag`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_interpolate(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ne0: i64,
    ne1: i64,
    ne2: i64,
    ne3: i64,
    mode: u32,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(arrange::interpolate(ctx, a, [ne0, ne1, ne2, ne3], mode))
}

/// `a` with zeros behind its elements, as many in each dimension as the parameters say.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_pad(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    p0: c_int,
    p1: c_int,
    p2: c_int,
    p3: c_int,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(arrange::pad(ctx, a, [0, p0, 0, p1, 0, p2, 0, p3], false))
}

/// As `ggml_pad`, with elements from the start of each dimension instead of zeros.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_pad_circular(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    p0: c_int,
    p1: c_int,
    p2: c_int,
    p3: c_int,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(arrange::pad(ctx, a, [0, p0, 0, p1, 0, p2, 0, p3], true))
}

/// `a` with zeros around its elements: `lp0` before and `rp0` behind in dimension 0, and so on.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_pad_ext(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    lp0: c_int,
    rp0: c_int,
    lp1: c_int,
    rp1: c_int,
    lp2: c_int,
    rp2: c_int,
    lp3: c_int,
    rp3: c_int,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(arrange::pad(ctx, a, [lp0, rp0, lp1, rp1, lp2, rp2, lp3, rp3], false))
}

/// As `ggml_pad_ext`, with elements from the other end of each dimension instead of zeros.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_pad_ext_circular(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    lp0: c_int,
    rp0: c_int,
    lp1: c_int,
    rp1: c_int,
    lp2: c_int,
    rp2: c_int,
    lp3: c_int,
    rp3: c_int,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(arrange::pad(ctx, a, [lp0, rp0, lp1, rp1, lp2, rp2, lp3, rp3], true))
}

/// Rows of contiguous F32 `a` with `p0` mirrored elements before and `p1` behind them, fewer than a row has. The end
/// of a row is the mirror and is not repeated: a b c d becomes c b a b c d c b.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_pad_reflect_1d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    p0: c_int,
    p1: c_int,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(arrange::pad_reflect_1d(ctx, a, p0, p1))
}

/// `a` shifted along each dimension, by less than it has elements; what leaves at one end comes back at the other.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_roll(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    shift0: c_int,
    shift1: c_int,
    shift2: c_int,
    shift3: c_int,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(arrange::roll(ctx, a, [shift0, shift1, shift2, shift3]))
}

/// Square matrices with the rows of `a` [n, 1, p, q] on their diagonals and zeros elsewhere: [n, n, p, q].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_diag(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(arrange::diag(ctx, a))
}

/// `a` with minus infinity where the column is greater than the row plus `n_past`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_diag_mask_inf(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    n_past: c_int,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(arrange::diag_mask(ctx, a, n_past, Mask::NegInf, Place::New))
}

/// As `ggml_diag_mask_inf`, overwriting `a`: the result is a view of it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_diag_mask_inf_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    n_past: c_int,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(arrange::diag_mask(ctx, a, n_past, Mask::NegInf, Place::Inplace))
}

/// `a` with zero where the column is greater than the row plus `n_past`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_diag_mask_zero(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    n_past: c_int,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(arrange::diag_mask(ctx, a, n_past, Mask::Zero, Place::New))
}

/// As `ggml_diag_mask_zero`, overwriting `a`: the result is a view of it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_diag_mask_zero_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    n_past: c_int,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(arrange::diag_mask(ctx, a, n_past, Mask::Zero, Place::Inplace))
}

/// A triangle of the square matrices of contiguous F32 `a`, zeros elsewhere.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_tri(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ty: raw::ggml_tri_type,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    let ty = known(ggml_tri_type::from_raw(ty), "ty", ty);
    out(arrange::tri(ctx, a, ty))
}

/// The numbers `start`, `start` + `step`, ... below `stop`, which must be greater than `start`, as F32.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_arange(ctx: *mut ggml_context, start: f32, stop: f32, step: f32) -> *mut ggml_tensor {
    // SAFETY: a valid context, by the contract.
    let ctx = unsafe { need_ctx(ctx) };
    out(arrange::arange(ctx, start, stop, step))
}

/// Sinusoidal embeddings of n time steps: F32 [dim, n], cosines in the first half, sines in the second, with periods
/// up to `max_period`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_timestep_embedding(
    ctx: *mut ggml_context,
    timesteps: *mut ggml_tensor,
    dim: c_int,
    max_period: c_int,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, timesteps) = unsafe { (need_ctx(ctx), need(timesteps, "timesteps")) };
    out(arrange::timestep_embedding(ctx, timesteps, dim, max_period))
}
