//! Windows of planes and relative positions, as the segment-anything encoder uses them.

use crate::abi::ggml::*;
use crate::capi::convert::{need, out};
use crate::guard::guarded;
use crate::tensor::ops::{Place, window};
use std::ffi::c_int;

/// Splits F32 `a` [c, width, height] into windows of `w` x `w`, padded with zeros at the end: [c, w, w, windows], row
/// by row.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_win_part(ctx: *mut ggml_context, a: *mut ggml_tensor, w: c_int) -> *mut ggml_tensor {
    need!(ctx, a);
    out(window::win_part(ctx, a, w))
}

/// Joins the windows of `ggml_win_part`: F32 `a` [c, w, w, windows] gives [c, w0, h0].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_win_unpart(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    w0: c_int,
    h0: c_int,
    w: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(window::win_unpart(ctx, a, w0, h0, w))
}

/// The rows of the table `a` [c, 2 * n - 1] for each pair of n = `qh` = `kh` positions, selected by their distance:
/// F16 [c, kh, qh].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_rel_pos(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    qh: c_int,
    kh: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(window::get_rel_pos(ctx, a, qh, kh))
}

/// Adds relative positions to attention scores: `a` [k * k, h * w, b], contiguous, plus F32 `pw` and `ph` [k, w, h,
/// b] for the two axes of the keys.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_add_rel_pos(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    pw: *mut ggml_tensor,
    ph: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, pw, ph);
    out(window::add_rel_pos(ctx, a, pw, ph, Place::New))
}

/// As `ggml_add_rel_pos`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_add_rel_pos_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    pw: *mut ggml_tensor,
    ph: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, pw, ph);
    out(window::add_rel_pos(ctx, a, pw, ph, Place::Inplace))
}
