//! Gradients of sums and means.
#![forbid(unsafe_code)]

use super::{Backward, no_rule};
use crate::abi::ggml::ggml_op::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::{copy, unary};

impl Backward<'_> {
    /// Every element of a sum has its gradient, and a share of a mean's.
    pub(super) fn reduce(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        if !matches!(node.op(), GGML_OP_SUM | GGML_OP_SUM_ROWS | GGML_OP_MEAN) {
            no_rule(node)
        }
        let Some(a) = self.wanted(node, 0) else { return Ok(()) };
        match node.op() {
            GGML_OP_SUM => self.add_everywhere(a, grad),
            GGML_OP_SUM_ROWS => {
                let part = copy::repeat_like(self.ctx, grad, a)?;
                self.add(a, part)
            }
            _ => {
                let share = unary::scale(self.ctx, grad, 1.0 / a.ne()[0] as f32)?;
                self.add_everywhere(a, share)
            }
        }
    }
}
