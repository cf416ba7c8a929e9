//! Normalisation of rows or of groups of channels.

use crate::abi::ggml::*;
use crate::capi::convert::{need, out};
use crate::guard::guarded;
use crate::tensor::ops::Place;
use crate::tensor::ops::norm::{self, Norm};
use std::ffi::c_int;

/// Normalises each row of `a` to mean 0 and variance 1: (x - mean) / sqrt(variance + `eps`).
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_norm(ctx: *mut ggml_context, a: *mut ggml_tensor, eps: f32) -> *mut ggml_tensor {
    need!(ctx, a);
    out(norm::norm(ctx, Norm::Layer, a, eps, Place::New))
}

/// As `ggml_norm`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_norm_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor, eps: f32) -> *mut ggml_tensor {
    need!(ctx, a);
    out(norm::norm(ctx, Norm::Layer, a, eps, Place::Inplace))
}

/// Normalises each row of `a` to root mean square 1: x / sqrt(mean of squares + `eps`).
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rms_norm(ctx: *mut ggml_context, a: *mut ggml_tensor, eps: f32) -> *mut ggml_tensor {
    need!(ctx, a);
    out(norm::norm(ctx, Norm::Rms, a, eps, Place::New))
}

/// As `ggml_rms_norm`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rms_norm_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    eps: f32,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(norm::norm(ctx, Norm::Rms, a, eps, Place::Inplace))
}

/// As `ggml_norm`, over groups of channels: `a` is [w, h, channels, n], and its channels are split into `n_groups`
/// groups.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_group_norm(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    n_groups: c_int,
    eps: f32,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(norm::group_norm(ctx, a, n_groups, eps, Place::New))
}

/// As `ggml_group_norm`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_group_norm_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    n_groups: c_int,
    eps: f32,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(norm::group_norm(ctx, a, n_groups, eps, Place::Inplace))
}

/// Normalises each row of `a` to Euclidean length 1: x / max(length, `eps`).
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_l2_norm(ctx: *mut ggml_context, a: *mut ggml_tensor, eps: f32) -> *mut ggml_tensor {
    need!(ctx, a);
    out(norm::norm(ctx, Norm::L2, a, eps, Place::New))
}

/// As `ggml_l2_norm`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_l2_norm_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    eps: f32,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(norm::norm(ctx, Norm::L2, a, eps, Place::Inplace))
}

/// Gradient of `ggml_rms_norm`: `a` is the gradient of its result, `b` its source.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rms_norm_back(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    eps: f32,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(norm::rms_norm_back(ctx, a, b, eps))
}
