//! Gradients of gated units.
#![forbid(unsafe_code)]

use super::{Backward, source};
use crate::abi::ggml::ggml_glu_op;
use crate::abi::ggml::ggml_unary_op::GGML_UNARY_OP_SILU;
use crate::error::Result;
use crate::tensor::ops::{binary, unary};
use crate::tensor::{TensorRef, names};
use crate::{ggml_abort, ggml_assert};

impl Backward<'_> {
    /// Gated units: SwiGLU with gate and values apart.
    pub(super) fn glu(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        match node.glu_op() {
            Some(ggml_glu_op::GGML_GLU_OP_SWIGLU) => {}
            Some(other) => {
                let name = names::glu_c(other).to_string_lossy();
                ggml_abort!("unsupported glu op for backward pass: {name}")
            }
            None => ggml_abort!("backward: there is no glu op {}", node.op_param_i32(0)),
        }
        if let Some(a) = self.wanted(node, 0) {
            ggml_assert!(node.src(1).is_some(), "backward: a SWIGLU has a gradient only when it is split");
            let up = binary::mul(self.ctx, grad, source(node, 1))?;
            let part = unary::silu_back(self.ctx, up, a)?;
            self.add(a, part)?;
        }
        if let Some(b) = self.wanted(node, 1) {
            let gate = unary::unary_new(self.ctx, GGML_UNARY_OP_SILU, source(node, 0))?;
            let part = binary::mul(self.ctx, gate, grad)?;
            self.add(b, part)?;
        }
        Ok(())
    }
}
