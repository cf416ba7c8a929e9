//! Gradients of copies, repetitions, and parts replaced or added to.
#![forbid(unsafe_code)]

use super::{Backward, no_rule, source};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_unary_op::GGML_UNARY_OP_NEG;
use crate::error::Result;
use crate::ggml_assert;
use crate::tensor::TensorRef;
use crate::tensor::ops::copy::{self, Region};
use crate::tensor::ops::{Place, unary, view};

impl Backward<'_> {
    /// What was moved moves back.
    pub(super) fn copy(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        match node.op() {
            GGML_OP_ACC => return self.accumulated(node, grad),
            GGML_OP_SET => return self.replaced(node, grad),
            GGML_OP_DUP | GGML_OP_CPY | GGML_OP_CONT | GGML_OP_REPEAT | GGML_OP_REPEAT_BACK => {}
            _ => no_rule(node),
        }
        let Some(a) = self.wanted(node, 0) else { return Ok(()) };
        let ctx = &mut *self.ctx;
        let part = match node.op() {
            // The second source is overwritten: nothing goes there.
            GGML_OP_CPY => view::reshape(ctx, grad, &a.ne())?,
            GGML_OP_CONT => {
                let so_far = self.graph.grad(a);
                ggml_assert!(so_far.is_none_or(TensorRef::is_contiguous) && grad.is_contiguous());
                if node.same_shape(a) { grad } else { view::reshape(ctx, grad, &a.ne())? }
            }
            GGML_OP_REPEAT => copy::repeat_back(ctx, grad, a)?,
            GGML_OP_REPEAT_BACK => copy::repeat_like(ctx, grad, a)?,
            _ => grad,
        };
        self.add(a, part)
    }

    /// The part of `grad` in the region of the node that `b` was copied or added to.
    fn part_of(&mut self, grad: TensorRef, b: TensorRef, region: Region) -> Result<TensorRef> {
        view::view(self.ctx, grad, &b.ne(), &region.nb, region.offset)
    }

    /// A part of a gradient, dense and in the shape of `b`.
    fn dense_like(&mut self, part: TensorRef, b: TensorRef) -> Result<TensorRef> {
        let dense = copy::cont(self.ctx, part)?;
        view::reshape(self.ctx, dense, &b.ne())
    }

    /// `a` with `b` added to a part: all of g for `a`, the part for `b`.
    fn accumulated(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        if let Some(a) = self.wanted(node, 0) {
            self.add(a, grad)?;
        }
        if let Some(b) = self.wanted(node, 1) {
            let part = self.part_of(grad, b, Region::of_node(node))?;
            let part = self.dense_like(part, b)?;
            self.add(b, part)?;
        }
        Ok(())
    }

    /// `a` with a part replaced by `b`: g without the part for `a`, the part for `b`.
    fn replaced(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        let (to_a, to_b) = (self.wanted(node, 0), self.wanted(node, 1));
        if to_a.is_none() && to_b.is_none() {
            return Ok(());
        }
        let (a, b) = (source(node, 0), source(node, 1));
        let mut so_far = [Some(a), to_b].into_iter().flatten().filter_map(|s| self.graph.grad(s));
        let types_match = a.dtype() == node.dtype() && so_far.all(|g| g.dtype() == grad.dtype());
        ggml_assert!(types_match, "backward: types of a SET differ");
        let region = Region::of_node(node);
        let part = self.part_of(grad, b, region)?;
        if let Some(a) = to_a {
            let minus = unary::unary_new(self.ctx, GGML_UNARY_OP_NEG, part)?;
            let rest = copy::acc(self.ctx, grad, minus, region, Place::New)?;
            self.add(a, rest)?;
        }
        if let Some(b) = to_b {
            let part = self.dense_like(part, b)?;
            self.add(b, part)?;
        }
        Ok(())
    }
}
