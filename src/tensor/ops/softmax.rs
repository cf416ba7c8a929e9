//! Softmax of rows with scale, mask, position bias and sinks.
#![forbid(unsafe_code)]

use super::build::{Node, Place, divides, require, require_contiguous, require_type};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// Softmax of `scale` * `a` + slope * `mask` along rows. The slope is 1, or, with `max_bias` > 0, the ALiBi slope of
/// the head (dimension 2). `mask` is F16 or F32, contiguous, [n, rows or more, heads', batches'], the last two divide
/// those of `a`.
///
/// # Parameters
/// 0: `scale`, 1: `max_bias`.
pub fn soft_max(
    ctx: &mut Context,
    a: TensorRef,
    mask: Option<TensorRef>,
    scale: f32,
    max_bias: f32,
    place: Place,
) -> Result<TensorRef> {
    require_contiguous("soft_max", &[("a", a)]);
    if let Some(mask) = mask {
        require_type("soft_max", "mask", mask, &[GGML_TYPE_F16, GGML_TYPE_F32]);
        require_contiguous("soft_max", &[("mask", mask)]);
        let (na, nm) = (a.ne(), mask.ne());
        require(nm[0] == na[0] && nm[1] >= na[1] && divides(nm[2], na[2]) && divides(nm[3], na[3]), || {
            format!("soft_max: mask {nm:?} does not cover {na:?}")
        });
    }
    require_mask_for_bias("soft_max", mask, max_bias);
    Node::new(GGML_OP_SOFT_MAX, place.result(ctx, a)?).params(0, [scale, max_bias]).of([Some(a), mask])
}

#[track_caller]
pub(super) fn require_mask_for_bias(op: &str, mask: Option<TensorRef>, max_bias: f32) {
    let biased = max_bias > 0.0;
    require(mask.is_some() || !biased, || format!("{op}: a position bias (max_bias {max_bias}) needs a mask"));
}

/// Gives a softmax or attention node its sinks: F32, one for each head (dimension 2 of the first source), in place
/// `slot`.
#[track_caller]
pub(super) fn set_sinks(op: &str, node: TensorRef, slot: usize, sinks: TensorRef) {
    require(node.src(slot).is_none(), || format!("{op}: the node has sinks already"));
    let heads = node.src(0).map_or(0, |q| q.ne()[2]);
    require(heads == sinks.ne()[0], || format!("{op}: sinks {:?} are not one for each of {heads} heads", sinks.ne()));
    require_type(op, "sinks", sinks, &[GGML_TYPE_F32]);
    node.set_src(slot, Some(sinks));
}

/// Adds to each row's sum a term of its head that takes part in nothing else; `None` takes it away again.
pub fn add_sinks(node: TensorRef, sinks: Option<TensorRef>) {
    let Some(sinks) = sinks else { return node.set_src(2, None) };
    require(node.op() == GGML_OP_SOFT_MAX, || format!("soft_max_add_sinks: the node is {:?}", node.op()));
    set_sinks("soft_max_add_sinks", node, 2, sinks);
}

/// The gradient of [`soft_max`]: `grad` of the result, `y` the result of the forward pass.
///
/// # Parameters
/// 0: `scale`, 1: `max_bias`.
pub fn soft_max_back(
    ctx: &mut Context,
    grad: TensorRef,
    y: TensorRef,
    scale: f32,
    max_bias: f32,
    place: Place,
) -> Result<TensorRef> {
    Node::new(GGML_OP_SOFT_MAX_BACK, place.result(ctx, grad)?).params(0, [scale, max_bias]).of([grad, y])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s, srcs};
    use super::*;

    #[test]
    fn masks_are_broadcast_and_sinks_are_the_third_source() {
        let c = &mut ctx();
        let (a, mask, sinks) = (f32s(c, &[8, 4, 6, 2]), f32s(c, &[8, 32, 1, 2]), f32s(c, &[6]));
        let t = soft_max(c, a, Some(mask), 0.125, 8.0, Place::New).unwrap();
        assert_eq!((t.op_param_f32(0), t.op_param_f32(1)), (0.125, 8.0));
        add_sinks(t, Some(sinks));
        assert_eq!(srcs(t), [(0, a), (1, mask), (2, sinks)]);
        add_sinks(t, None);
        assert_eq!(srcs(t), [(0, a), (1, mask)]);
    }
}
