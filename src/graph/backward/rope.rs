//! Gradients of rotary position embedding.
#![forbid(unsafe_code)]

use super::{Backward, no_rule, source};
use crate::abi::ggml::ggml_op::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::rope::{self, Rope};

impl Backward<'_> {
    /// A rotation back.
    pub(super) fn rope(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        if node.op() != GGML_OP_ROPE {
            no_rule(node)
        }
        self.require_constant(node, 2, "frequency factors");
        let Some(a) = self.wanted(node, 0) else { return Ok(()) };
        let part = rope::rope_back(self.ctx, grad, source(node, 1), node.src(2), &Rope::of_node(node))?;
        self.add(a, part)
    }
}
