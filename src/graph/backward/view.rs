//! Gradients of views.
#![forbid(unsafe_code)]

use super::{Backward, no_rule};
use crate::abi::ggml::ggml_op::*;
use crate::error::Result;
use crate::ggml_assert;
use crate::tensor::TensorRef;
use crate::tensor::ops::copy::{self, Region};
use crate::tensor::ops::view;

impl Backward<'_> {
    /// The gradient is looked at the other way around.
    pub(super) fn view(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        if node.op() == GGML_OP_NONE {
            return Ok(());
        }
        let Some(a) = self.wanted(node, 0) else { return Ok(()) };
        let ctx = &mut *self.ctx;
        let part = match node.op() {
            GGML_OP_RESHAPE => {
                let dense = if grad.is_contiguous() { grad } else { copy::cont(ctx, grad)? };
                view::reshape(ctx, dense, &a.ne())?
            }
            GGML_OP_VIEW => {
                let region = self.region_of_view(node, a);
                return self.add_to_region(a, grad, region);
            }
            GGML_OP_PERMUTE => {
                let mut back = [0; 4];
                for i in 0..4 {
                    back[(node.op_param_i32(i) & 3) as usize] = i as i32;
                }
                view::permute(ctx, grad, back)?
            }
            GGML_OP_TRANSPOSE => view::transpose(ctx, grad)?,
            _ => no_rule(node),
        };
        self.add(a, part)
    }

    /// The region of a view in the gradient of its source, which may be of another format than the source.
    fn region_of_view(&self, node: TensorRef, a: TensorRef) -> Region {
        let nb = node.nb();
        let mut region = Region { nb: [nb[1], nb[2], nb[3]], offset: node.op_param_u64(0) as usize };
        if let Some(grad) = self.graph.grad(a).filter(|g| g.dtype() != a.dtype()) {
            let (from, to) = (a.dtype().type_size(), grad.dtype().type_size());
            for bytes in region.nb.iter_mut().chain([&mut region.offset]) {
                ggml_assert!(*bytes % from == 0, "backward: a view cuts elements");
                *bytes = *bytes / from * to;
            }
        }
        region
    }
}
