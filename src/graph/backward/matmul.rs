//! Gradients of matrix products.
#![forbid(unsafe_code)]

use super::{Backward, no_rule, source};
use crate::abi::ggml::ggml_op::*;
use crate::error::Result;
use crate::ggml_assert;
use crate::tensor::TensorRef;
use crate::tensor::ops::{copy, matmul, view};

impl Backward<'_> {
    /// c = aᵀ b for `a` [k, n], `b` [k, m]: b gᵀ for `a`, a g for `b`. Both are sums of outer products.
    pub(super) fn matmul(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        if node.op() != GGML_OP_MUL_MAT {
            no_rule(node)
        }
        let b = source(node, 1);
        if let Some(a) = self.wanted(node, 0) {
            ggml_assert!(grad.ne()[2..] == b.ne()[2..]);
            let mut part = matmul::out_prod(self.ctx, b, grad)?;
            if !part.same_shape(a) {
                // `a` was repeated for heads side by side: add up the repetitions, which are next to each other.
                let (na, np) = (a.ne(), part.ne());
                ggml_assert!(
                    na[..2] == np[..2] && np[3] == 1 && na[2] > 0,
                    "backward: no gradient for {na:?} times {:?}",
                    b.ne()
                );
                let repeats = np[2] / na[2];
                let nb = part.nb();
                let strides = [nb[1], nb[2] * repeats as usize, nb[2]];
                part = view::view(self.ctx, part, &[na[0], na[1], na[2], repeats], &strides, 0)?;
                part = copy::repeat_back(self.ctx, part, a)?;
            }
            self.add(a, part)?;
        }
        if let Some(b) = self.wanted(node, 1) {
            // The gradient is transposed, not `a`: it is usually the smaller one.
            let turned = view::transpose(self.ctx, grad)?;
            let part = matmul::out_prod(self.ctx, source(node, 0), turned)?;
            self.add(b, part)?;
        }
        Ok(())
    }
}
