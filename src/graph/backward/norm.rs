//! Gradients of normalization.
#![forbid(unsafe_code)]

use super::{Backward, no_rule};
use crate::abi::ggml::ggml_op::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::norm;

impl Backward<'_> {
    /// That of RMS_NORM is an operation of its own.
    pub(super) fn norm(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        if node.op() != GGML_OP_RMS_NORM {
            no_rule(node)
        }
        let Some(a) = self.wanted(node, 0) else { return Ok(()) };
        let part = norm::rms_norm_back(self.ctx, grad, a, node.op_param_f32(0))?;
        self.add(a, part)
    }
}
