//! Images: padding, rolling, resizing.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{known, need, out};
use crate::guard::guarded;
use crate::tensor::ops::image;
use std::ffi::c_int;

/// Resizes F32 `a` by `scale_factor`, 2 or more, in the first two dimensions.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_upscale(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    scale_factor: c_int,
    mode: raw::ggml_scale_mode,
) -> *mut ggml_tensor {
    need!(ctx, a);
    known(ggml_scale_mode::from_raw(mode & 0xff), "mode", mode);
    out(image::upscale(ctx, a, scale_factor, mode as u32))
}

/// Resizes F32 `a` to [ne0, ne1, ne2, ne3].
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
    need!(ctx, a);
    known(ggml_scale_mode::from_raw(mode & 0xff), "mode", mode);
    out(image::interpolate(ctx, a, [ne0, ne1, ne2, ne3].map(i64::from), mode as u32))
}

/// Resizes F32 `a` to [ne0, ne1, ne2, ne3], up or down. `mode` is an `enum ggml_scale_mode` combined with bits of
/// `enum ggml_scale_flag`.
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
    need!(ctx, a);
    out(image::interpolate(ctx, a, [ne0, ne1, ne2, ne3], mode))
}

/// `a` with zeros after its elements: `p0` of them in dimension 0, and so on.
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
    need!(ctx, a);
    out(image::pad(ctx, a, [0, p0, 0, p1, 0, p2, 0, p3], false))
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
    need!(ctx, a);
    out(image::pad(ctx, a, [0, p0, 0, p1, 0, p2, 0, p3], true))
}

/// `a` with zeros around its elements: `lp0` before and `rp0` after them in dimension 0, and so on.
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
    need!(ctx, a);
    out(image::pad(ctx, a, [lp0, rp0, lp1, rp1, lp2, rp2, lp3, rp3], false))
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
    need!(ctx, a);
    out(image::pad(ctx, a, [lp0, rp0, lp1, rp1, lp2, rp2, lp3, rp3], true))
}

/// Rows of F32 `a`, which must be contiguous, with `p0` reflected elements before and `p1` after them, fewer than a
/// row has. The outermost elements are not repeated: with `p0` = `p1` = 2, a b c d becomes c b a b c d c b.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_pad_reflect_1d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    p0: c_int,
    p1: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(image::pad_reflect_1d(ctx, a, p0, p1))
}

/// `a` shifted along each dimension, by less than its size, with wrap-around.
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
    need!(ctx, a);
    out(image::roll(ctx, a, [shift0, shift1, shift2, shift3]))
}
