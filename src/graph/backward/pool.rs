//! Gradients of pooling.
#![forbid(unsafe_code)]

use super::{Backward, no_rule};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_op_pool;
use crate::error::Result;
use crate::ggml_abort;
use crate::tensor::TensorRef;
use crate::tensor::ops::pool::{self, Planes};

impl Backward<'_> {
    /// That of POOL_2D is an operation of its own.
    pub(super) fn pool(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        if node.op() != GGML_OP_POOL_2D {
            no_rule(node)
        }
        let Some(a) = self.wanted(node, 0) else { return Ok(()) };
        let Some(kind) = ggml_op_pool::from_raw(node.op_param_i32(0)) else {
            ggml_abort!("backward: there is no pooling {}", node.op_param_i32(0))
        };
        let part = pool::pool_2d_back(self.ctx, grad, a, kind, &Planes::of_node(node))?;
        self.add(a, part)
    }
}
