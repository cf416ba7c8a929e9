//! Softmax of rows.

use crate::abi::ggml::*;
use crate::capi::convert::{need, out, spoil};
use crate::guard::guarded;
use crate::tensor::ops::{Place, softmax};

/// Softmax of each row of `a`, which must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_soft_max(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(softmax::soft_max(ctx, a, None, 1.0, 0.0, Place::New))
}

/// As `ggml_soft_max`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_soft_max_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(softmax::soft_max(ctx, a, None, 1.0, 0.0, Place::Inplace))
}

/// Softmax of each row of `a` * `scale` + slope * `mask`. `a` [n, m, p, q] must be contiguous. `mask` is NULL, or
/// contiguous F16 or F32 [n, m', p', q'], with m' at least m; p and q must be multiples of p' and q'. The slope is 1
/// or, if `max_bias` is greater than 0 (which requires a mask), the ALiBi slope of the head (dimension 2).
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_soft_max_ext(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    mask: *mut ggml_tensor,
    scale: f32,
    max_bias: f32,
) -> *mut ggml_tensor {
    need!(ctx, a; mask);
    out(softmax::soft_max(ctx, a, mask, scale, max_bias, Place::New))
}

/// As `ggml_soft_max_ext`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_soft_max_ext_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    mask: *mut ggml_tensor,
    scale: f32,
    max_bias: f32,
) -> *mut ggml_tensor {
    need!(ctx, a; mask);
    out(softmax::soft_max(ctx, a, mask, scale, max_bias, Place::Inplace))
}

/// Sets the sinks of a softmax node: F32, one number per head (dimension 2), which counts as one more score in the
/// softmax of its rows. NULL removes them.
#[guarded(spoil!(a))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_soft_max_add_sinks(a: *mut ggml_tensor, sinks: *mut ggml_tensor) {
    need!(a; sinks);
    softmax::add_sinks(a, sinks);
}

/// Gradient of `ggml_soft_max_ext`: `a` is the gradient of its result, `b` its result.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_soft_max_ext_back(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    scale: f32,
    max_bias: f32,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(softmax::soft_max_back(ctx, a, b, scale, max_bias, Place::New))
}

/// As `ggml_soft_max_ext_back`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_soft_max_ext_back_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    scale: f32,
    max_bias: f32,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(softmax::soft_max_back(ctx, a, b, scale, max_bias, Place::Inplace))
}
