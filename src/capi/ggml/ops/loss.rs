//! Losses and their gradients.

use crate::abi::ggml::*;
use crate::capi::convert::{need, out};
use crate::guard::guarded;
use crate::tensor::ops::loss;

/// Mean over rows of the cross entropy between softmax(`a`), the logits, and `b`, the labels, which have the same
/// shape. One element.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cross_entropy_loss(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(loss::cross_entropy_loss(ctx, a, b))
}

/// Gradient of `ggml_cross_entropy_loss`: `a` is the gradient of the loss, `b` are the logits, `c` the labels.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cross_entropy_loss_back(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    c: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b, c);
    out(loss::cross_entropy_loss_back(ctx, a, b, c))
}
