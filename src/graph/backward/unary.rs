//! Gradients of functions of each element.
#![forbid(unsafe_code)]

use super::{Backward, no_rule};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_unary_op::*;
use crate::error::Result;
use crate::ggml_abort;
use crate::tensor::ops::unary::Plain;
use crate::tensor::ops::{Place, binary, unary};
use crate::tensor::{TensorRef, names};

impl Backward<'_> {
    /// Functions of each element: g times the slope.
    pub(super) fn unary(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        match node.op() {
            GGML_OP_UNARY => return self.function_of_unary(node, grad),
            GGML_OP_SQR | GGML_OP_SQRT | GGML_OP_LOG | GGML_OP_SIN | GGML_OP_COS | GGML_OP_SCALE => {}
            _ => no_rule(node),
        }
        let Some(a) = self.wanted(node, 0) else { return Ok(()) };
        let ctx = &mut *self.ctx;
        let part = match node.op() {
            // 2 a g
            GGML_OP_SQR => {
                let ag = binary::mul(ctx, a, grad)?;
                unary::scale(ctx, ag, 2.0)?
            }
            // g / (2 sqrt(a))
            GGML_OP_SQRT => {
                let quotient = binary::div(ctx, grad, node)?;
                unary::scale(ctx, quotient, 0.5)?
            }
            GGML_OP_LOG => binary::div(ctx, grad, a)?,
            GGML_OP_SIN => {
                let cos = unary::plain(ctx, Plain::Cos, a, Place::New)?;
                binary::mul(ctx, grad, cos)?
            }
            GGML_OP_COS => {
                let sin = unary::plain(ctx, Plain::Sin, a, Place::New)?;
                let part = binary::mul(ctx, grad, sin)?;
                return self.subtract(a, part);
            }
            _ => unary::scale(ctx, grad, node.op_param_f32(0))?,
        };
        self.add(a, part)
    }

    /// Functions that share one operation: g times the slope.
    fn function_of_unary(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        let Some(kind) = node.unary_op() else {
            ggml_abort!("backward: there is no unary op {}", node.op_param_i32(0))
        };
        match kind {
            GGML_UNARY_OP_SGN | GGML_UNARY_OP_STEP => return Ok(()),
            GGML_UNARY_OP_ABS
            | GGML_UNARY_OP_NEG
            | GGML_UNARY_OP_RELU
            | GGML_UNARY_OP_SILU
            | GGML_UNARY_OP_EXP
            | GGML_UNARY_OP_EXPM1
            | GGML_UNARY_OP_SOFTPLUS => {}
            _ => ggml_abort!("unsupported unary op for backward pass: {}", names::unary_c(kind).to_string_lossy()),
        }
        let Some(a) = self.wanted(node, 0) else { return Ok(()) };
        let ctx = &mut *self.ctx;
        let part = match kind {
            GGML_UNARY_OP_NEG => return self.subtract(a, grad),
            GGML_UNARY_OP_ABS => {
                let sign = unary::unary_new(ctx, GGML_UNARY_OP_SGN, a)?;
                binary::mul(ctx, sign, grad)?
            }
            GGML_UNARY_OP_RELU => {
                let step = unary::unary_new(ctx, GGML_UNARY_OP_STEP, a)?;
                binary::mul(ctx, step, grad)?
            }
            GGML_UNARY_OP_EXP => binary::mul(ctx, node, grad)?,
            GGML_UNARY_OP_EXPM1 => {
                let exp = unary::unary_new(ctx, GGML_UNARY_OP_EXP, a)?;
                binary::mul(ctx, grad, exp)?
            }
            GGML_UNARY_OP_SOFTPLUS => {
                let sigmoid = unary::unary_new(ctx, GGML_UNARY_OP_SIGMOID, a)?;
                binary::mul(ctx, grad, sigmoid)?
            }
            _ => unary::silu_back(ctx, grad, a)?,
        };
        self.add(a, part)
    }
}
