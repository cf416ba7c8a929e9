//! Gradients of masked matrices.
#![forbid(unsafe_code)]

use super::{Backward, no_rule};
use crate::abi::ggml::ggml_op::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::Place;
use crate::tensor::ops::matrix::{self, Mask};

impl Backward<'_> {
    /// What is masked is masked in the gradient: by zeros, whatever the mask was.
    pub(super) fn matrix(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        if !matches!(node.op(), GGML_OP_DIAG_MASK_INF | GGML_OP_DIAG_MASK_ZERO) {
            no_rule(node)
        }
        let Some(a) = self.wanted(node, 0) else { return Ok(()) };
        let part = matrix::diag_mask(self.ctx, grad, node.op_param_i32(0), Mask::Zero, Place::New)?;
        self.add(a, part)
    }
}
