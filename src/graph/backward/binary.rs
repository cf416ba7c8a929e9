//! Gradients of arithmetic with two sources.
#![forbid(unsafe_code)]

use super::{Backward, no_rule, source};
use crate::abi::ggml::ggml_op::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::{binary, copy, reduce};

impl Backward<'_> {
    /// Sums, differences, products and quotients; the second source may have been repeated.
    pub(super) fn binary(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        if !matches!(node.op(), GGML_OP_ADD | GGML_OP_ADD1 | GGML_OP_SUB | GGML_OP_MUL | GGML_OP_DIV) {
            no_rule(node)
        }
        let (a, b) = (source(node, 0), source(node, 1));
        if let Some(a) = self.wanted(node, 0) {
            let part = match node.op() {
                GGML_OP_MUL => binary::mul(self.ctx, grad, b)?,
                GGML_OP_DIV => binary::div(self.ctx, grad, b)?,
                _ => grad,
            };
            self.add(a, part)?;
        }
        let Some(b) = self.wanted(node, 1) else { return Ok(()) };
        match node.op() {
            GGML_OP_SUB => return self.subtract(b, grad),
            // -g (a / b) / b
            GGML_OP_DIV => {
                let quotient = binary::div(self.ctx, node, b)?;
                let part = binary::mul(self.ctx, grad, quotient)?;
                return self.subtract(b, part);
            }
            // The mean, not the sum: as the original has it.
            GGML_OP_ADD1 => {
                let mean = reduce::mean(self.ctx, grad)?;
                return self.add(b, mean);
            }
            _ => {}
        }
        let mut part = if node.op() == GGML_OP_MUL { binary::mul(self.ctx, a, grad)? } else { grad };
        if !a.same_shape(b) {
            part = copy::repeat_back(self.ctx, part, b)?;
        }
        self.add(b, part)
    }
}
