//! Losses and the steps of optimisers.

use crate::abi::ggml::*;
use crate::capi::convert::{ctx as need_ctx, out, tensor as need};
use crate::guard::guarded;
use crate::tensor::ops::train;

/// Mean over rows of the cross entropy between softmax(`a`), the logits, and `b`, the labels, of the same shape, as
/// one element.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cross_entropy_loss(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(train::cross_entropy_loss(ctx, a, b))
}

/// Gradient of `ggml_cross_entropy_loss`: `a` is the gradient of the loss, `b` were the logits, `c` the labels.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cross_entropy_loss_back(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    c: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b, c) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b"), need(c, "c")) };
    out(train::cross_entropy_loss_back(ctx, a, b, c))
}

/// Step of AdamW: changes the parameter `a` (see `ggml_set_param`) and the moments `m` and `v`, all shaped like
/// `grad`. `adamw_params`, F32: alpha, beta1, beta2, epsilon, weight decay, 1 / (1 - beta1^t), 1 / (1 - beta2^t). The
/// result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_step_adamw(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    grad: *mut ggml_tensor,
    m: *mut ggml_tensor,
    v: *mut ggml_tensor,
    adamw_params: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, grad, m, v, adamw_params) = unsafe {
        (
            need_ctx(ctx),
            need(a, "a"),
            need(grad, "grad"),
            need(m, "m"),
            need(v, "v"),
            need(adamw_params, "adamw_params"),
        )
    };
    out(train::opt_step_adamw(ctx, a, grad, m, v, adamw_params))
}

/// Step of gradient descent: changes the parameter `a` (see `ggml_set_param`), shaped like `grad`. `sgd_params`, F32:
/// alpha, weight decay. The result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_step_sgd(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    grad: *mut ggml_tensor,
    sgd_params: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, grad, sgd_params) =
        unsafe { (need_ctx(ctx), need(a, "a"), need(grad, "grad"), need(sgd_params, "sgd_params")) };
    out(train::opt_step_sgd(ctx, a, grad, sgd_params))
}
