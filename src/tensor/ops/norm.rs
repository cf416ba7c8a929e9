//! Normalisation of rows or of groups of channels.
#![forbid(unsafe_code)]

use super::build::{Node, Place};
use crate::abi::ggml::ggml_op::{self, *};
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// Normalisations of rows with a small number `eps` that keeps the divisor from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// Mean 0, variance 1.
    Layer,
    /// Root mean square 1.
    Rms,
    /// Length 1.
    L2,
}

impl Norm {
    fn op(self) -> ggml_op {
        match self {
            Self::Layer => GGML_OP_NORM,
            Self::Rms => GGML_OP_RMS_NORM,
            Self::L2 => GGML_OP_L2_NORM,
        }
    }
}

/// Normalises each row.
///
/// # Parameters
/// 0: `eps`.
pub fn norm(ctx: &mut Context, kind: Norm, a: TensorRef, eps: f32, place: Place) -> Result<TensorRef> {
    Node::new(kind.op(), place.result(ctx, a)?).param(0, eps).of([a])
}

/// The gradient of the root-mean-square norm: `grad` of the result, `x` the source of the forward pass.
///
/// # Parameters
/// 0: `eps`.
pub fn rms_norm_back(ctx: &mut Context, grad: TensorRef, x: TensorRef, eps: f32) -> Result<TensorRef> {
    Node::new(GGML_OP_RMS_NORM_BACK, ctx.new_like(grad)?).param(0, eps).of([grad, x])
}

/// Normalises the channels (dimension 2) in `n_groups` groups.
///
/// # Parameters
/// 0: `n_groups`, 1: `eps`.
pub fn group_norm(ctx: &mut Context, a: TensorRef, n_groups: i32, eps: f32, place: Place) -> Result<TensorRef> {
    Node::new(GGML_OP_GROUP_NORM, place.result(ctx, a)?).param(0, n_groups).param(1, eps).of([a])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s};
    use super::*;

    #[test]
    fn eps_is_the_first_word_but_for_groups() {
        let c = &mut ctx();
        let a = f32s(c, &[4, 2]);
        let t = norm(c, Norm::Rms, a, 1e-5, Place::Inplace).unwrap();
        assert_eq!((t.op(), t.op_param_f32(0), t.view_src()), (GGML_OP_RMS_NORM, 1e-5, Some(a)));
        let t = group_norm(c, a, 2, 1e-6, Place::New).unwrap();
        assert_eq!((t.op_param_i32(0), t.op_param_f32(1)), (2, 1e-6));
    }
}
