//! Where gradients arrive. The first one to arrive at a tensor is its gradient, later ones are added to it; with an
//! accumulator all are added, in place.

use super::Backward;
use crate::abi::ggml::ggml_unary_op::GGML_UNARY_OP_NEG;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::binary::{self, Binary};
use crate::tensor::ops::copy::{self, Region};
use crate::tensor::ops::{Place, unary};

impl Backward<'_> {
    /// The gradient of `src` so far, and where its sum with another goes.
    fn so_far(&self, src: TensorRef) -> Option<(TensorRef, Place)> {
        let grad = self.graph.grad(src)?;
        Some((grad, Place::from_flag(self.graph.grad_acc(src).is_some())))
    }

    /// Makes `grad` the gradient of `src` and puts it into the graph.
    fn settle(&mut self, src: TensorRef, grad: TensorRef) {
        grad.set_name(&[b"grad for ", &src.name_bytes()[..]].concat());
        self.graph.set_grad(src, Some(grad));
        self.graph.expand(grad, true);
    }

    /// `part` adds to the gradient of `src`.
    pub(super) fn add(&mut self, src: TensorRef, part: TensorRef) -> Result<()> {
        let grad = match self.so_far(src) {
            Some((grad, place)) => binary::binary(self.ctx, Binary::Add, grad, part, place)?,
            None => part,
        };
        self.settle(src, grad);
        Ok(())
    }

    /// `part` is taken from the gradient of `src`.
    pub(super) fn subtract(&mut self, src: TensorRef, part: TensorRef) -> Result<()> {
        let grad = match self.so_far(src) {
            Some((grad, place)) => binary::binary(self.ctx, Binary::Sub, grad, part, place)?,
            None => unary::unary_new(self.ctx, GGML_UNARY_OP_NEG, part)?,
        };
        self.settle(src, grad);
        Ok(())
    }

    /// The few elements of `part` add to the gradient of `src` everywhere.
    pub(super) fn add_everywhere(&mut self, src: TensorRef, part: TensorRef) -> Result<()> {
        let grad = match self.so_far(src) {
            Some((grad, place)) => binary::add1(self.ctx, grad, part, place)?,
            None => copy::repeat_like(self.ctx, part, src)?,
        };
        self.settle(src, grad);
        Ok(())
    }

    /// `part` adds to a region of the gradient of `src`.
    pub(super) fn add_to_region(&mut self, src: TensorRef, part: TensorRef, region: Region) -> Result<()> {
        let (grad, place) = match self.so_far(src) {
            Some(so_far) => so_far,
            // Zeros in the shape of `src`, as the original makes them; they are none where `src` is infinite.
            None => (unary::scale(self.ctx, src, 0.0)?, Place::New),
        };
        let grad = copy::acc(self.ctx, grad, part, region, place)?;
        self.settle(src, grad);
        Ok(())
    }
}
