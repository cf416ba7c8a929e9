//! Gradients of rows by index.
#![forbid(unsafe_code)]

use super::{Backward, no_rule, source};
use crate::abi::ggml::ggml_op::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::rows;

impl Backward<'_> {
    /// The gradient of each row goes where the row came from.
    pub(super) fn rows(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        if node.op() != GGML_OP_GET_ROWS {
            no_rule(node)
        }
        let Some(a) = self.wanted(node, 0) else { return Ok(()) };
        let part = rows::get_rows_back(self.ctx, grad, source(node, 1), a)?;
        self.add(a, part)
    }
}
