//! Steps of optimizers.

use crate::abi::ggml::*;
use crate::capi::convert::{need, out};
use crate::guard::guarded;
use crate::tensor::ops::optimizer;

/// AdamW step: changes the parameter `a` (see `ggml_set_param`) and the moments `m` and `v`, which all have the shape
/// of `grad`. `adamw_params` is F32: alpha, beta1, beta2, epsilon, weight decay, 1 / (1 - beta1^t), 1 / (1 -
/// beta2^t). The result is a view of `a`.
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
    need!(ctx, a, grad, m, v, adamw_params);
    out(optimizer::opt_step_adamw(ctx, a, grad, m, v, adamw_params))
}

/// Gradient descent step: changes the parameter `a` (see `ggml_set_param`), which has the shape of `grad`.
/// `sgd_params` is F32: alpha, weight decay. The result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_step_sgd(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    grad: *mut ggml_tensor,
    sgd_params: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, grad, sgd_params);
    out(optimizer::opt_step_sgd(ctx, a, grad, sgd_params))
}
