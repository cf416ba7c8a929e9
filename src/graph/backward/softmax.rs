//! Gradients of softmax.
#![forbid(unsafe_code)]

use super::{Backward, no_rule};
use crate::abi::ggml::ggml_op::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::{Place, softmax};

impl Backward<'_> {
    /// That of SOFT_MAX is an operation of its own.
    pub(super) fn softmax(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        if node.op() != GGML_OP_SOFT_MAX {
            no_rule(node)
        }
        self.require_constant(node, 1, "the mask of a softmax");
        let Some(a) = self.wanted(node, 0) else { return Ok(()) };
        let part =
            softmax::soft_max_back(self.ctx, grad, node, node.op_param_f32(0), node.op_param_f32(1), Place::New)?;
        self.add(a, part)
    }
}
