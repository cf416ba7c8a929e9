//! Losses and their gradients.
#![forbid(unsafe_code)]

use super::build::{Node, require, require_same_shape};
use crate::abi::ggml::ggml_op::*;
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// The mean cross entropy of logits `a` and labels `b` of one shape, as one element.
pub fn cross_entropy_loss(ctx: &mut Context, a: TensorRef, b: TensorRef) -> Result<TensorRef> {
    require_same_shape("cross_entropy_loss", ("a", a), ("b", b));
    Node::new(GGML_OP_CROSS_ENTROPY_LOSS, ctx.new_tensor(a.dtype(), &[1])?).of([a, b])
}

/// The gradient of [`cross_entropy_loss`]: `grad`, one element, of the loss; `logits` and `labels` of the forward pass.
pub fn cross_entropy_loss_back(
    ctx: &mut Context,
    grad: TensorRef,
    logits: TensorRef,
    labels: TensorRef,
) -> Result<TensorRef> {
    const OP: &str = "cross_entropy_loss_back";
    require(grad.is_scalar(), || format!("{OP}: the loss must be one element, not {:?}", grad.ne()));
    require_same_shape(OP, ("logits", logits), ("labels", labels));
    Node::new(GGML_OP_CROSS_ENTROPY_LOSS_BACK, ctx.new_like(logits)?).of([grad, logits, labels])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s};
    use super::*;

    #[test]
    fn a_loss_is_a_number_and_its_gradient_has_the_shape_of_the_logits() {
        let c = &mut ctx();
        let a = f32s(c, &[4, 3]);
        let loss = cross_entropy_loss(c, a, a).unwrap();
        assert_eq!(loss.ne(), [1; 4]);
        assert_eq!(cross_entropy_loss_back(c, loss, a, a).unwrap().ne(), a.ne());
    }
}
