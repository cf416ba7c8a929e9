//! One source, element by element: functions, scaling, clamping, filling.

use crate::abi::ggml::ggml_unary_op::*;
use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{known, need, out};
use crate::guard::guarded;
use crate::tensor::ops::Place;
use crate::tensor::ops::unary::{self, Plain};

/// x * x for each element of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sqr(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::plain(ctx, Plain::Sqr, a, Place::New))
}

/// As `ggml_sqr`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sqr_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::plain(ctx, Plain::Sqr, a, Place::Inplace))
}

/// Square root of each element of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sqrt(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::plain(ctx, Plain::Sqrt, a, Place::New))
}

/// As `ggml_sqrt`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sqrt_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::plain(ctx, Plain::Sqrt, a, Place::Inplace))
}

/// Natural logarithm of each element of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_log(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::plain(ctx, Plain::Log, a, Place::New))
}

/// As `ggml_log`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_log_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::plain(ctx, Plain::Log, a, Place::Inplace))
}

/// Sine of each element of `a`, in radians.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sin(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::plain(ctx, Plain::Sin, a, Place::New))
}

/// As `ggml_sin`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sin_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::plain(ctx, Plain::Sin, a, Place::Inplace))
}

/// Cosine of each element of `a`, in radians.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cos(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::plain(ctx, Plain::Cos, a, Place::New))
}

/// As `ggml_cos`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cos_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::plain(ctx, Plain::Cos, a, Place::Inplace))
}

/// The function `op` of each element of `a`, in the type and shape of `a`. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_unary(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    op: raw::ggml_unary_op,
) -> *mut ggml_tensor {
    need!(ctx, a);
    let op = known(ggml_unary_op::from_raw(op), "op", op);
    out(unary::unary(ctx, op, a, Place::New))
}

/// As `ggml_unary`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_unary_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    op: raw::ggml_unary_op,
) -> *mut ggml_tensor {
    need!(ctx, a);
    let op = known(ggml_unary_op::from_raw(op), "op", op);
    out(unary::unary(ctx, op, a, Place::Inplace))
}

/// Absolute value of each element of `a`. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_abs(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_ABS, a, Place::New))
}

/// As `ggml_abs`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_abs_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_ABS, a, Place::Inplace))
}

/// Sign of each element of `a`: -1, 0 or 1; NaN for NaN. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sgn(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_SGN, a, Place::New))
}

/// As `ggml_sgn`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sgn_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_SGN, a, Place::Inplace))
}

/// -x for each element of `a`. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_neg(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_NEG, a, Place::New))
}

/// As `ggml_neg`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_neg_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_NEG, a, Place::Inplace))
}

/// 1 for each positive element of `a`, NaN for NaN, otherwise 0. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_step(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_STEP, a, Place::New))
}

/// As `ggml_step`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_step_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_STEP, a, Place::Inplace))
}

/// Hyperbolic tangent of each element of `a`. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_tanh(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_TANH, a, Place::New))
}

/// As `ggml_tanh`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_tanh_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_TANH, a, Place::Inplace))
}

/// Exponential linear unit: x where x > 0, otherwise exp(x) - 1. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_elu(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_ELU, a, Place::New))
}

/// As `ggml_elu`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_elu_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_ELU, a, Place::Inplace))
}

/// Rectified linear unit: max(x, 0). The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_relu(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_RELU, a, Place::New))
}

/// As `ggml_relu`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_relu_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_RELU, a, Place::Inplace))
}

/// x where x > 0, otherwise `negative_slope` * x. With `inplace`, the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_leaky_relu(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    negative_slope: f32,
    inplace: bool,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::leaky_relu(ctx, a, negative_slope, Place::from_flag(inplace)))
}

/// 1 / (1 + exp(-x)) for each element of `a`. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sigmoid(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_SIGMOID, a, Place::New))
}

/// As `ggml_sigmoid`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sigmoid_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_SIGMOID, a, Place::Inplace))
}

/// Gaussian error linear unit, tanh approximation. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gelu(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_GELU, a, Place::New))
}

/// As `ggml_gelu`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gelu_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_GELU, a, Place::Inplace))
}

/// Gaussian error linear unit, with the error function. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gelu_erf(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_GELU_ERF, a, Place::New))
}

/// As `ggml_gelu_erf`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gelu_erf_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_GELU_ERF, a, Place::Inplace))
}

/// Gaussian error linear unit, sigmoid approximation: x / (1 + exp(-1.702 * x)). The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gelu_quick(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_GELU_QUICK, a, Place::New))
}

/// As `ggml_gelu_quick`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gelu_quick_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_GELU_QUICK, a, Place::Inplace))
}

/// x * sigmoid(x) for each element of `a`. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_silu(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_SILU, a, Place::New))
}

/// As `ggml_silu`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_silu_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_SILU, a, Place::Inplace))
}

/// Gradient of `ggml_silu`: `a` is the gradient of its result, `b` its source. The result has the shape of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_silu_back(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(unary::silu_back(ctx, a, b))
}

/// x * min(max(x + 3, 0), 6) / 6 for each element of `a`. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_hardswish(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_HARDSWISH, a, Place::New))
}

/// min(max(x + 3, 0), 6) / 6 for each element of `a`. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_hardsigmoid(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_HARDSIGMOID, a, Place::New))
}

/// exp(x) for each element of `a`. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_exp(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_EXP, a, Place::New))
}

/// As `ggml_exp`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_exp_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_EXP, a, Place::Inplace))
}

/// exp(x) - 1 for each element of `a`, accurate near zero. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_expm1(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_EXPM1, a, Place::New))
}

/// As `ggml_expm1`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_expm1_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_EXPM1, a, Place::Inplace))
}

/// log(1 + exp(x)) for each element of `a`. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_softplus(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_SOFTPLUS, a, Place::New))
}

/// As `ggml_softplus`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_softplus_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_SOFTPLUS, a, Place::Inplace))
}

/// Each element of `a` rounded down. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_floor(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_FLOOR, a, Place::New))
}

/// As `ggml_floor`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_floor_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_FLOOR, a, Place::Inplace))
}

/// Each element of `a` rounded up. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_ceil(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_CEIL, a, Place::New))
}

/// As `ggml_ceil`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_ceil_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_CEIL, a, Place::Inplace))
}

/// Each element of `a` rounded to the nearest integer, halves away from zero. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_round(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_ROUND, a, Place::New))
}

/// As `ggml_round`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_round_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_ROUND, a, Place::Inplace))
}

/// Each element of `a` rounded towards zero. The rows of `a` must be contiguous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_trunc(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_TRUNC, a, Place::New))
}

/// As `ggml_trunc`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_trunc_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::unary(ctx, GGML_UNARY_OP_TRUNC, a, Place::Inplace))
}

/// Expanded integral of ELU. With s(alpha) = log(1 + exp(alpha)): s(alpha_p) * x * x + `beta` * x where x > 0,
/// otherwise (expm1(min(x, `eps`)) - x) * (`beta` + s(alpha_n)) + `beta` * x.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_xielu(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    alpha_n: f32,
    alpha_p: f32,
    beta: f32,
    eps: f32,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::xielu(ctx, a, alpha_n, alpha_p, beta, eps))
}

/// `s` * x for each element of `a`, which may have gaps only between rows.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_scale(ctx: *mut ggml_context, a: *mut ggml_tensor, s: f32) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::scale_bias(ctx, a, s, 0.0, Place::New))
}

/// As `ggml_scale`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_scale_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor, s: f32) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::scale_bias(ctx, a, s, 0.0, Place::Inplace))
}

/// `s` * x + `b` for each element of `a`, which may have gaps only between rows.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_scale_bias(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    s: f32,
    b: f32,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::scale_bias(ctx, a, s, b, Place::New))
}

/// As `ggml_scale_bias`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_scale_bias_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    s: f32,
    b: f32,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::scale_bias(ctx, a, s, b, Place::Inplace))
}

/// Each element of `a` clamped to the range from `min` to `max`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_clamp(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    min: f32,
    max: f32,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::clamp(ctx, a, min, max, Place::New))
}

/// As `ggml_clamp`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_clamp_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    min: f32,
    max: f32,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::clamp(ctx, a, min, max, Place::Inplace))
}

/// `c` in every element of the shape of `a`, which is contiguous F32 or F16.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_fill(ctx: *mut ggml_context, a: *mut ggml_tensor, c: f32) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::fill(ctx, a, c, Place::New))
}

/// As `ggml_fill`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_fill_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor, c: f32) -> *mut ggml_tensor {
    need!(ctx, a);
    out(unary::fill(ctx, a, c, Place::Inplace))
}
