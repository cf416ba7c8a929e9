//! Gradients of patches of images.
#![forbid(unsafe_code)]

use super::{Backward, no_rule, source};
use crate::abi::ggml::ggml_op::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::conv::{self, Window};

impl Backward<'_> {
    /// What was copied into several columns is their sum.
    pub(super) fn conv(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        if node.op() != GGML_OP_IM2COL {
            no_rule(node)
        }
        let Some(b) = self.wanted(node, 1) else { return Ok(()) };
        let (window, planes) = (Window::of_node(node), node.op_param_i32(6) == 1);
        let part = conv::im2col_back(self.ctx, grad, source(node, 0), b.ne(), &window, planes)?;
        self.add(b, part)
    }
}
