//! Gradients of losses.
#![forbid(unsafe_code)]

use super::{Backward, no_rule, source};
use crate::abi::ggml::ggml_op::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::loss;

impl Backward<'_> {
    /// That of CROSS_ENTROPY_LOSS is an operation of its own.
    pub(super) fn loss(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        if node.op() != GGML_OP_CROSS_ENTROPY_LOSS {
            no_rule(node)
        }
        self.require_constant(node, 1, "the labels of a cross entropy");
        let Some(a) = self.wanted(node, 0) else { return Ok(()) };
        let part = loss::cross_entropy_loss_back(self.ctx, grad, a, source(node, 1))?;
        self.add(a, part)
    }
}
